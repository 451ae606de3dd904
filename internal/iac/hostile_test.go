package iac

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// words are strings in JSON, or in Terraform's language without a template.
var words = regexp.MustCompile(`"(?:[^"\\\n$%]|\\.)*"`)

// decides reports whether a string decides what something is, and not what it is called.
func decides(s string) bool {
	return len(s) < 3 || strings.HasPrefix(s, "azurerm_") || strings.HasPrefix(s, "Microsoft.") ||
		strings.HasPrefix(s, "https://schema.") || strings.HasPrefix(s, "registry.terraform.io")
}

// source is what others write, and how it is read.
type source struct {
	name  string
	code  string
	quote func(string) string
	read  func(code string) (*Reading, error)
}

func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// sources are plans, configurations, a what-if result, a template, tasks and manifests.
func sources(t *testing.T) (all []source) {
	read := func(path ...string) string {
		raw, err := os.ReadFile(filepath.Join(path...))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name := range verdicts {
		folder := filepath.Join("../../testdata/terraform", name)
		all = append(all, source{name + " plan", read(folder, "plan.json"), quoteJSON,
			func(code string) (*Reading, error) {
				return readPlain("p.json", strings.NewReader(code))
			}},
			source{name + " configuration", read(folder, "main.tf"), quoteHCL,
				func(code string) (*Reading, error) {
					s, err := ReadSource(fstest.MapFS{"main.tf": {Data: []byte(code)}}, ".")
					if err != nil {
						return nil, err
					}
					return s.Reading(), nil
				}})
	}
	const manifests = "manifests/quoted.json"
	all = append(all, source{manifests, read("testdata", manifests), quoteJSON,
		func(code string) (*Reading, error) {
			return readPlain(manifests, strings.NewReader(code))
		}})
	return append(all,
		source{"what-if", read("testdata/whatif/modify.json"), quoteJSON,
			func(code string) (*Reading, error) {
				return ReadWhatIf(File{"w.json", []byte(code)})
			}},
		source{"template", read("testdata/bicep/plain.json"), quoteJSON,
			func(code string) (*Reading, error) {
				return ReadTemplate(File{"t.json", []byte(code)}, TemplateOptions{})
			}})
}

// TestHostileSources gives a hostile name to each thing in a source, one after the other. The
// source is read to its end or refused, and what the findings say to type runs nothing else.
func TestHostileSources(t *testing.T) {
	known := Known{Carriers: []Carrier{Named("aks-nodes", "it carries pods")}}
	all, tried, refused := sources(t), 0, 0
	for _, s := range all {
		if _, err := s.read(s.code); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	const parts = 6 // each with other hostile names
	for part := range parts {
		pastetest.Again(func(rename func(string) string) {
			for i := part; i < len(all); i += parts {
				done := map[string]bool{}
				for _, written := range words.FindAllString(all[i].code, -1) {
					name, err := strconv.Unquote(written)
					if err != nil || done[written] || decides(name) {
						continue
					}
					done[written] = true
					tried++
					r, err := all[i].read(strings.ReplaceAll(all[i].code, written,
						all[i].quote(rename(name))))
					if err != nil {
						refused++
						continue
					}
					r.Findings(known) // TestMain pastes their commands
				}
			}
		})
	}
	t.Logf("%d hostile sources, %d refused", tried, refused)
	if tried < 3000 {
		t.Errorf("only %d hostile sources were tried", tried)
	}
}

// TestFixHostile repairs code after plans with hostile names of tables, hostile keys and addresses.
// What it writes has these names as text: nothing in the code is evaluated that was not before.
func TestFixHostile(t *testing.T) {
	repaired := 0
	for name := range verdicts {
		raw, err := os.ReadFile(filepath.Join("../../testdata/terraform", name, "main.tf"))
		if err != nil {
			t.Fatal(err)
		}
		before := evaluated(t, raw)
		for _, evil := range []string{`${file("/etc/passwd")}`, `%{ if true }x%{ endif }`,
			`x" + file("/etc/passwd") + "`, "x\"\n}\nlocals {\n  x = file(\"/etc/passwd\")\n}\n",
			`\`} {
			plain, keyed := load(t, name), moved(t, load(t, name), "", "["+quoteJSON(evil)+"]")
			addressed := replaced(t, load(t, name), `"address":"azurerm_route_table.nodes"`,
				`"address":`+quoteJSON("azurerm_route_table.nodes"+evil))
			hidden := replaced(t, load(t, name), `"type":"azurerm_route_table"`, `"type":"other"`,
				`routeTables/shop-nodes-rt"`, quoteJSON("routeTables/" + evil)[1:])
			for _, p := range []map[string]any{plain, keyed, addressed, hidden} {
				r, err := readPlain("plan.json", bytes.NewReader(dump(t, p)))
				if err != nil {
					continue
				}
				_, repairs := r.Repairs(Known{
					Carriers: []Carrier{Named("aks-nodes", "it carries pods")}}, finding.Info)
				edits, _ := sourceOf(t, string(raw)).Fix(repairs)
				for _, e := range edits {
					repaired++
					if after := evaluated(t, e.After); !slices.Equal(after, before) {
						t.Errorf("%s with %q: %q is evaluated, before %q:\n%s", name, evil, after,
							before, e.After)
					}
				}
			}
		}
	}
	if repaired < 50 {
		t.Errorf("only %d repairs were made", repaired)
	}
}

// evaluated is what Terraform evaluates in code: all but references and constants, sorted.
func evaluated(t *testing.T, code []byte) (all []string) {
	t.Helper()
	f, diagnostics := hclsyntax.ParseConfig(code, "main.tf", hcl.InitialPos)
	if diagnostics.HasErrors() {
		t.Fatalf("%v:\n%s", diagnostics, code)
	}
	_ = hclsyntax.VisitAll(f.Body.(*hclsyntax.Body), func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.TemplateExpr:
			if !n.IsStringLiteral() {
				all = append(all, string(n.Range().SliceBytes(code)))
			}
		case *hclsyntax.FunctionCallExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.BinaryOpExpr,
			*hclsyntax.ConditionalExpr, *hclsyntax.ForExpr, *hclsyntax.RelativeTraversalExpr,
			*hclsyntax.IndexExpr:
			all = append(all, string(n.Range().SliceBytes(code)))
		case *hclsyntax.Block:
			if n.Type == "locals" || n.Type == "provisioner" || n.Type == "data" {
				all = append(all, string(n.Range().SliceBytes(code)))
			}
		}
		return nil
	})
	slices.Sort(all)
	return all
}
