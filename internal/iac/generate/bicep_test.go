package generate

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	bicepNoCode    = regexp.MustCompile(`(?m)'(?:[^'\\]|\\.)*'|//.*$`) // strings and comments
	bicepParam     = regexp.MustCompile(`(?m)^param (\w+) \w+( =)?`)
	bicepOutput    = regexp.MustCompile(`(?m)^output (\w+) `)
	bicepModule    = regexp.MustCompile(`(?ms)^module (\w+) '([^']+)' = (.*?)^\}\]?$`)
	bicepParams    = regexp.MustCompile(`(?ms)^  params: \{\n(.*?)^  \}`)
	bicepArgument  = regexp.MustCompile(`(?m)^    (\w+): `)
	bicepOutputUse = regexp.MustCompile(`\b(\w+)\.outputs\.(\w+)`)
	bicepResource  = regexp.MustCompile(`(?m)^(@onlyIfNotExists\(\)\n)?resource (\w+) '([\w./]+)@([\w-]+)'( existing)?`)
	bicepSubnet    = regexp.MustCompile(`(?ms)^      \{\n        name: '(\w+)'\n        properties: \{\n(.*?)^      \}`)
)

// TestBicep stands in for a compiler, which is not at hand: brackets, modules with their parameters and outputs, and what keeps subnets
// their tables.
func TestBicep(t *testing.T) {
	for _, c := range orders {
		files := map[string]string{}
		for _, f := range written(t, "bicep", c.order) {
			files[f.Name] = string(f.Text)
		}
		used := map[string]bool{"main.bicep": true}
		for name, source := range files {
			code := bicepNoCode.ReplaceAllString(source, "")
			for _, pair := range []string{"{}", "[]", "()"} {
				if a, b := strings.Count(code, pair[:1]), strings.Count(code, pair[1:]); a != b {
					t.Errorf("%s: %s has %d %s and %d %s", c.name, name, a, pair[:1], b, pair[1:])
				}
			}
			modules := map[string]string{}
			for _, m := range bicepModule.FindAllStringSubmatch(source, -1) {
				file := path.Join(path.Dir(name), m[2])
				target, there := files[file]
				if !there {
					t.Errorf("%s: %s calls %s, which is not written", c.name, name, file)
					continue
				}
				modules[m[1]], used[file] = target, true
				var given []string
				for _, a := range bicepArgument.FindAllStringSubmatch(bicepParams.FindString(m[3]), -1) {
					given = append(given, a[1])
				}
				var taken []string
				for _, p := range bicepParam.FindAllStringSubmatch(target, -1) {
					taken = append(taken, p[1])
					if p[2] == "" && !slices.Contains(given, p[1]) {
						t.Errorf("%s: %s calls %s without %s", c.name, name, file, p[1])
					}
				}
				for _, g := range given {
					if !slices.Contains(taken, g) {
						t.Errorf("%s: %s calls %s with %s, which it does not take", c.name, name, file, g)
					}
				}
			}
			for _, u := range bicepOutputUse.FindAllStringSubmatch(source, -1) {
				var outputs []string
				for _, o := range bicepOutput.FindAllStringSubmatch(modules[u[1]], -1) {
					outputs = append(outputs, o[1])
				}
				if !slices.Contains(outputs, u[2]) {
					t.Errorf("%s: %s reads %s, which is not there", c.name, name, u[0])
				}
			}
			for _, p := range bicepParam.FindAllStringSubmatch(source, -1) {
				if len(regexp.MustCompile(`\b`+p[1]+`\b`).FindAllString(source, -1)) < 2 {
					t.Errorf("%s: %s does not use its parameter %s", c.name, name, p[1])
				}
			}
			for _, r := range bicepResource.FindAllStringSubmatch(source, -1) {
				if r[3] == "Microsoft.Network/routeTables" && r[1] == "" && r[5] == "" {
					t.Errorf("%s: %s writes the table %s again, without the routes that others put there", c.name, name, r[2])
				}
				// From this version on a network that is written without its subnets keeps them.
				if strings.HasPrefix(r[3], "Microsoft.Network/") && r[4] < "2023-09-01" {
					t.Errorf("%s: %s uses %s at %s", c.name, name, r[3], r[4])
				}
			}
		}
		for name := range files {
			if !used[name] {
				t.Errorf("%s: nothing uses %s", c.name, name)
			}
		}
		if !c.order.makesNetwork() {
			continue
		}
		kubenet, egress := c.order.Plugin == "kubenet", c.order.Egress.IsValid()
		_, list, _ := strings.Cut(files["modules/network.bicep"], "    subnets: [\n")
		subnets := bicepSubnet.FindAllStringSubmatch(list, -1)
		if len(subnets) != 2 {
			t.Errorf("%s: %d subnets", c.name, len(subnets))
		}
		for _, s := range subnets {
			want := kubenet || egress && s[1] == "nodes"
			if strings.Contains(s[2], "          routeTable: {\n") != want {
				t.Errorf("%s: subnet %s names a table: %t, want %t", c.name, s[1], !want, want)
			}
		}
		if strings.Contains(files["modules/network.bicep"], "'0.0.0.0/0'") != egress {
			t.Errorf("%s: the way out is not as ordered", c.name)
		}
	}
}
