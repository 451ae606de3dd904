package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"routekeeper.dev/routekeeper/internal/arm"
)

// blockSchema is the schema of a resource, or of a block in one, from testdata/schema.
type blockSchema struct {
	Source     string
	Required   bool
	Arguments  map[string]string // required or optional
	Blocks     map[string]blockSchema
	Attributes []string
}

// provider is the schema of a major version, by resource type, with the prefix data. or provider.
// where needed.
type provider map[string]blockSchema

func loadProvider(t *testing.T, version int) provider {
	t.Helper()
	p := provider{}
	paths, err := filepath.Glob(fmt.Sprintf("testdata/schema/v%d/*.json", version))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no schema: %v", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s blockSchema
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil || s.Source == "" {
			t.Fatalf("%s: %v, source %q", path, err, s.Source)
		}
		p[strings.TrimSuffix(filepath.Base(path), ".json")] = s
	}
	return p
}

// configuration is a parsed Terraform configuration.
type configuration struct {
	blocks []*hclsyntax.Block
	// declared are addresses: var.name, local.x, azurerm_subnet.nodes,
	// data.azurerm_subscription.main.
	declared map[string]bool
}

func parse(files []Output) (*configuration, error) {
	c := &configuration{declared: map[string]bool{}}
	for _, f := range files {
		if formatted := hclwrite.Format(f.Text); !bytes.Equal(formatted, f.Text) {
			return nil, fmt.Errorf("%s is not formatted", f.Name)
		}
		parsed, diagnostics := hclsyntax.ParseConfig(f.Text, f.Name, hcl.InitialPos)
		if diagnostics.HasErrors() {
			return nil, diagnostics
		}
		c.blocks = append(c.blocks, parsed.Body.(*hclsyntax.Body).Blocks...)
	}
	for _, b := range c.blocks {
		address := map[string]string{"variable": "var.", "data": "data."}[b.Type] +
			strings.Join(b.Labels, ".")
		switch b.Type {
		case "locals":
			for name := range b.Body.Attributes {
				c.declared["local."+name] = true
			}
		case "provider":
			if alias, named := b.Body.Attributes["alias"]; named {
				name, _ := alias.Expr.Value(nil)
				c.declared[b.Labels[0]+"."+name.AsString()] = true
			}
		case "variable", "resource", "data":
			if c.declared[address] {
				return nil, fmt.Errorf("%s is there twice", address)
			}
			c.declared[address] = true
		}
	}
	return c, nil
}

// block finds a resource.
func (c *configuration) block(address string) *hclsyntax.Body {
	for _, b := range c.blocks {
		if b.Type == "resource" && strings.Join(b.Labels, ".") == address {
			return b.Body
		}
	}
	return nil
}

// mistakes are what a provider with that schema would refuse.
func (c *configuration) mistakes(p provider) (all []string) {
	for _, b := range c.blocks {
		name := ""
		switch b.Type {
		case "resource":
			name = b.Labels[0]
		case "data", "provider":
			name = b.Type + "." + b.Labels[0]
		}
		if name != "" {
			schema, known := p[name]
			if !known {
				all = append(all, name+" has no schema")
				continue
			}
			all = append(all, schema.mistakes(name, b.Body, b.Type == "resource")...)
		}
		all = append(all, c.dangling(p, b.Body)...)
	}
	return all
}

// meta are Terraform's own arguments of every resource.
var meta = []string{"for_each", "count", "depends_on", "provider"}

func (s blockSchema) mistakes(where string, body *hclsyntax.Body, resource bool) (all []string) {
	for name := range body.Attributes {
		if s.Arguments[name] == "" && !slices.Contains(meta, name) &&
			where+"."+name != "provider.azurerm.alias" {
			all = append(all, where+" has no argument "+name)
		}
	}
	there := map[string]bool{}
	for _, b := range body.Blocks {
		there[b.Type] = true
		if inner, known := s.Blocks[b.Type]; known {
			all = append(all, inner.mistakes(where+"."+b.Type, b.Body, false)...)
		} else if b.Type != "lifecycle" || !resource {
			all = append(all, where+" has no block "+b.Type)
		}
	}
	for name, need := range s.Arguments {
		if body.Attributes[name] == nil && need == "required" {
			all = append(all, where+" lacks "+name)
		}
	}
	for name, block := range s.Blocks {
		if block.Required && !there[name] {
			all = append(all, where+" lacks the block "+name)
		}
	}
	return all
}

// dangling finds references to missing objects.
func (c *configuration) dangling(p provider, body *hclsyntax.Body) (all []string) {
	for name, a := range body.Attributes {
		if name == "type" && len(a.Expr.Variables()) == 1 || name == "ignore_changes" {
			// string, number: types of variables; the resource's arguments are checked elsewhere
			continue
		}
		for _, v := range hclsyntax.Variables(a.Expr) {
			var steps []string
			for _, s := range v {
				switch s := s.(type) {
				case hcl.TraverseRoot:
					steps = append(steps, s.Name)
				case hcl.TraverseAttr:
					steps = append(steps, s.Name)
				}
			}
			if steps[0] == "each" {
				continue
			}
			head := min(2, len(steps))
			if steps[0] == "data" {
				head = min(3, len(steps))
			}
			address := strings.Join(steps[:head], ".")
			if !c.declared[address] {
				all = append(all, "nothing is declared as "+address)
				continue
			}
			if steps[0] == "var" || steps[0] == "local" || len(steps) == head {
				continue
			}
			s := p[strings.TrimSuffix(address, "."+steps[head-1])]
			if _, isBlock := s.Blocks[steps[head]]; s.Arguments[steps[head]] == "" && !isBlock &&
				!slices.Contains(s.Attributes, steps[head]) {
				all = append(all, address+" has no attribute "+steps[head])
			}
		}
	}
	for _, b := range body.Blocks {
		all = append(all, c.dangling(p, b.Body)...)
	}
	return all
}

// TestSchema: both versions of the provider have all arguments, and no required argument is
// missing.
func TestSchema(t *testing.T) {
	providers := map[int]provider{4: loadProvider(t, 4), 5: loadProvider(t, 5)}
	for _, c := range orders(t) {
		config, err := parse(written(t, "terraform", c))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, m := range config.mistakes(providers[c.provider]) {
			t.Errorf("%s, version %d: %s", c.name, c.provider, m)
		}
		// Every declared variable is used.
		used := map[string]bool{}
		for _, b := range config.blocks {
			_ = hclsyntax.VisitAll(b.Body, func(n hclsyntax.Node) hcl.Diagnostics {
				if e, ok := n.(*hclsyntax.ScopeTraversalExpr); ok && len(e.Traversal) > 1 &&
					e.Traversal.RootName() == "var" {
					used["var."+e.Traversal[1].(hcl.TraverseAttr).Name] = true
				}
				return nil
			})
		}
		for address := range config.declared {
			if strings.HasPrefix(address, "var.") && !used[address] {
				t.Errorf("%s: %s is not used", c.name, address)
			}
		}
	}
}

// TestSchemaFindsMistakes: the check itself finds mistakes.
func TestSchemaFindsMistakes(t *testing.T) {
	p := loadProvider(t, 5)
	for _, c := range []struct{ text, want string }{
		{`resource "azurerm_subnet" "a" {}`, "azurerm_subnet lacks name"},
		{`resource "azurerm_route_table" "a" { disable_bgp_route_propagation = true }`,
			"azurerm_route_table has no argument disable_bgp_route_propagation"},
		{`resource "azurerm_kubernetes_cluster" "a" { }`,
			"azurerm_kubernetes_cluster lacks the block node_provisioning_profile"},
		{`resource "azurerm_federated_identity_credential" "a" { parent_id = "x" }`,
			"azurerm_federated_identity_credential has no argument parent_id"},
		{"resource \"azurerm_subnet\" \"a\" {\n  ip_address_pool {\n    id = \"x\"\n  }\n}",
			"azurerm_subnet.ip_address_pool lacks number_of_ip_addresses"},
		{"resource \"azurerm_role_definition\" \"a\" {\n  permission {\n  }\n}",
			"azurerm_role_definition has no block permission"},
		{`resource "azurerm_lb" "a" {}`, "azurerm_lb has no schema"},
		{`locals { x = var.y }`, "nothing is declared as var.y"},
		{"resource \"azurerm_resource_group\" \"a\" {\n}\nlocals {\n  x = " +
			"azurerm_resource_group.a.ids\n}", "azurerm_resource_group.a has no attribute ids"},
	} {
		config, err := parse([]Output{{"x.tf", hclwrite.Format([]byte(c.text))}})
		if err != nil {
			t.Fatal(err)
		}
		if got := config.mistakes(p); !slices.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q among them", c.text, got, c.want)
		}
	}
}

// TestSafeAgainstStripping: no later apply can strip a subnet of its table, or a table of its
// routes.
func TestSafeAgainstStripping(t *testing.T) {
	for _, c := range orders(t) {
		if c.cluster == nil {
			continue
		}
		config, err := parse(written(t, "terraform", c))
		if err != nil {
			t.Fatal(err)
		}
		vnet := config.block("azurerm_virtual_network.main")
		if c.cluster.Existing != nil {
			if vnet != nil {
				t.Errorf("%s: the existing network is declared", c.name)
			}
		} else if vnet == nil || len(vnet.Blocks) > 0 || vnet.Attributes["subnet"] != nil {
			t.Errorf("%s: the network has subnets of its own", c.name)
		}
		tables := 0
		for _, b := range config.blocks {
			if b.Type != "resource" {
				continue
			}
			ignored, protected := lifecycle(b.Body)
			switch b.Labels[0] {
			case "azurerm_route_table":
				tables++
				if !slices.Equal(ignored, []string{"route"}) || !protected ||
					len(b.Body.Blocks) != 1 {
					t.Errorf("%s: %s ignores %q, is protected: %t", c.name, b.Labels[1], ignored,
						protected)
				}
			case "azurerm_subnet", "azurerm_subnet_route_table_association":
				if !protected {
					t.Errorf("%s: %s %s can be replaced", c.name, b.Labels[0], b.Labels[1])
				}
			}
		}
		want := 0
		for _, s := range c.cluster.Steps() {
			if s.ID.Is(arm.TypeRouteTable) && !s.Found {
				want++
			}
		}
		if tables != want {
			t.Errorf("%s: %d tables, want %d", c.name, tables, want)
		}
	}
}

func spelled(v hcl.Traversal) string {
	s := v.RootName()
	for _, step := range v[1:] {
		if step, named := step.(hcl.TraverseAttr); named {
			s += "." + step.Name
		}
	}
	return s
}

func lifecycle(body *hclsyntax.Body) (ignored []string, protected bool) {
	for _, b := range body.Blocks {
		if b.Type != "lifecycle" {
			continue
		}
		if a := b.Body.Attributes["ignore_changes"]; a != nil {
			for _, v := range a.Expr.Variables() {
				ignored = append(ignored, spelled(v))
			}
		}
		if a := b.Body.Attributes["prevent_destroy"]; a != nil {
			value, _ := a.Expr.Value(nil)
			protected = value.True()
		}
	}
	return ignored, protected
}
