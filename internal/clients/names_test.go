package clients

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

const managers = "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/"

// specified are the emulator's services with the SDK module made of the specification of their
// types.
var specified = []struct {
	service, module string
	types           []string
}{
	{"aks", "containerservice/armcontainerservice/v6",
		[]string{"ManagedCluster", "AgentPool", "MaintenanceConfiguration"}},
	{"compute", "compute/armcompute/v8", []string{"VirtualMachineScaleSet", "VirtualMachine",
		"AvailabilitySet", "VirtualMachineScaleSetExtension", "VirtualMachineScaleSetVM"}},
	{"network", "network/armnetwork/v9", []string{"VirtualNetwork", "ApplicationGateway",
		"AzureFirewall", "VirtualNetworkGateway", "BastionHost", "LoadBalancer", "Watcher",
		"PrivateEndpoint"}},
	{"entra", "msi/armmsi", []string{"Identity", "FederatedIdentityCredential"}},
	{"insights", "monitor/armmonitor", []string{"ActivityLogAlertResource", "ActionGroupResource"}},
	{"authorization", "authorization/armauthorization/v2",
		[]string{"RoleAssignment", "RoleDefinition"}},
	{"resources", "resources/armresources/v4", []string{"ResourceGroup"}},
}

// TestNames: each service of the emulator knows the names in the specification of its types. With
// -update it writes them.
func TestNames(t *testing.T) {
	for _, s := range specified {
		file := filepath.Join("../emulator/names", s.service+".txt")
		want := namesIn(t, managers+s.module, s.types)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what the SDK says (%v): go -C internal/clients test -run Names "+
				"-update", file, err)
		}
	}
}

// A property is one field of a model of the SDK.
type property struct {
	model string // the model it holds; "" for a plain value
	// mark is "!" if only Azure writes it, "*" if its keys are the client's, "#" if its whole value
	// is.
	mark string
}

// namesIn are the properties of some types and of all that they hold, as package kernel reads them:
// names with their marks. Where one name has several spellings or marks, the name of the property
// that holds it comes before it, and the name alone has no mark; with several spellings it is left
// out.
func namesIn(t *testing.T, module string, types []string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	fields, spelled := modelsIn(t, strings.TrimSpace(string(dir)))
	alone, below := map[string][]string{}, map[string][]string{} // by their name in lower case
	add := func(to map[string][]string, name, as string) {
		if name = strings.ToLower(name); !slices.Contains(to[name], as) {
			to[name] = append(to[name], as)
		}
	}
	type place struct{ model, below string }
	var queue []place
	for _, model := range types {
		queue = append(queue, place{model, ""})
	}
	seen := map[place]bool{}
	for ; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if seen[at] {
			continue
		}
		seen[at] = true
		for field, p := range fields[at.model] {
			if name := spelled[at.model+"."+field]; name != "" {
				if slices.Contains([]string{"id", "name", "type", "tags"}, name) {
					p.mark = "" // which the kernel knows
				}
				add(alone, name, name+p.mark)
				add(below, at.below+"."+name, at.below+"."+name+p.mark)
				queue = append(queue, place{p.model, name})
			}
		}
	}
	var words []string
	for name, as := range alone {
		if len(as) == 1 {
			words = append(words, as[0])
			continue
		}
		for place, as := range below {
			if strings.HasSuffix(place, "."+name) && len(as) == 1 {
				words = append(words, as[0])
			}
		}
		plain := func(word string) string { return strings.TrimRight(word, "!*#") }
		if !slices.ContainsFunc(as, func(word string) bool { return plain(word) != plain(as[0]) }) {
			words = append(words, plain(as[0]))
		} else {
			t.Logf("%s has several spellings: %v", name, as)
		}
	}
	var out strings.Builder
	line := ""
	for _, word := range slices.Sorted(slices.Values(words)) {
		if len(line)+len(word) > 99 {
			out.WriteString(strings.TrimSpace(line) + "\n")
			line = ""
		}
		line += word + " "
	}
	return out.String() + strings.TrimSpace(line) + "\n"
}

var (
	method = regexp.MustCompile(`func \(\w+ \*?(\w+)\) MarshalJSON\(`)
	writes = regexp.MustCompile(`populate\w*(?:\[[^\]]*\])?\(objectMap, "([^"]+)", (?:\w+\()?\w+\.(\w+)`)
)

// modelsIn are the fields of all models of an SDK module, and how they are spelled in JSON.
func modelsIn(t *testing.T, dir string) (map[string]map[string]property, map[string]string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "models.go"), nil,
		parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]map[string]property{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, isType := n.(*ast.TypeSpec)
		if !isType {
			return true
		}
		if model, isStruct := spec.Type.(*ast.StructType); isStruct {
			fields[spec.Name.Name] = map[string]property{}
			for _, f := range model.Fields.List {
				if len(f.Names) == 1 {
					fields[spec.Name.Name][f.Names[0].Name] = propertyOf(f)
				}
			}
		}
		return false
	})
	serde, err := os.ReadFile(filepath.Join(dir, "models_serde.go"))
	if err != nil {
		t.Fatal(err)
	}
	spelled := map[string]string{}
	model := ""
	for line := range strings.Lines(string(serde)) {
		if m := method.FindStringSubmatch(line); m != nil {
			model = m[1]
		} else if w := writes.FindStringSubmatch(line); w != nil {
			spelled[model+"."+w[2]] = w[1]
		}
	}
	return fields, spelled
}

func propertyOf(f *ast.Field) property {
	p := property{}
	ast.Inspect(f.Type, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.MapType:
			p.mark = "*"
		case *ast.Ident:
			if p.model = v.Name; v.Name == "any" {
				p.mark = "#"
			}
		}
		return true
	})
	if strings.Contains(f.Doc.Text(), "READ-ONLY") {
		p.mark = "!"
	}
	return p
}
