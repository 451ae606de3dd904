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
	bicepResource  = regexp.MustCompile(`(?m)^resource (\w+) '([\w./]+)@[\w-]+'( existing)?`)
)

// TestBicep replaces a compiler, which is not available: it checks brackets, and modules with their
// parameters and outputs.
func TestBicep(t *testing.T) {
	for _, c := range orders(t) {
		if c.cluster != nil {
			continue // these are read, and compared with the bodies of create
		}
		files := map[string]string{}
		for _, f := range written(t, "bicep", c) {
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
				for _, a := range bicepArgument.FindAllStringSubmatch(bicepParams.FindString(m[3]),
					-1) {
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
						t.Errorf("%s: %s calls %s with %s, which it does not take", c.name, name,
							file, g)
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
				if strings.HasPrefix(r[2], "Microsoft.Network/") && r[3] == "" {
					t.Errorf("%s: %s writes the network's %s", c.name, name, r[1])
				}
			}
		}
		for name := range files {
			if !used[name] {
				t.Errorf("%s: nothing uses %s", c.name, name)
			}
		}
	}
}
