package generate

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

var reference = regexp.MustCompile(`\b(data\.)?((?:azurerm|azapi|time)_\w+)\.(\w+)`)

// standIn rewrites a configuration so that Terraform accepts it without any provider: every
// resource becomes a terraform_data, which is built into Terraform, with its arguments as input,
// and attributes that the provider would compute as unknown values.
func standIn(files []Output, p provider) string {
	var out strings.Builder
	out.WriteString("resource \"terraform_data\" \"unknown\" {\n}\n")
	for _, f := range files {
		parsed, _ := hclsyntax.ParseConfig(f.Text, f.Name, hcl.InitialPos)
		for _, b := range parsed.Body.(*hclsyntax.Body).Blocks {
			switch b.Type {
			case "terraform", "provider":
			case "resource", "data":
				name, schema := b.Labels[0]+"__"+b.Labels[1], p[b.Labels[0]]
				if b.Type == "data" {
					name, schema = "data_"+name, p["data."+b.Labels[0]]
				}
				fmt.Fprintf(&out, "resource \"terraform_data\" %q {\n", name)
				writeStandIn(&out, b.Body, f.Text, schema.Attributes)
				out.WriteString("}\n")
			default:
				fmt.Fprintln(&out, each(refer(string(b.Range().SliceBytes(f.Text)), ".output")))
			}
		}
	}
	return out.String()
}

// refer renames references to resources.
func refer(text, attribute string) string {
	return reference.ReplaceAllStringFunc(text, func(s string) string {
		m := reference.FindStringSubmatch(s)
		return "terraform_data." + strings.ReplaceAll(m[1], ".", "_") + m[2] + "__" + m[3] +
			attribute
	})
}

func writeStandIn(out *strings.Builder, body *hclsyntax.Body, source []byte, computed []string) {
	var input strings.Builder
	for _, name := range computed {
		value := "terraform_data.unknown.id"
		if name == "output" { // of azapi: an object
			value = "jsondecode(terraform_data.unknown.id)"
		}
		fmt.Fprintf(&input, "    %s = %s\n", name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		text := string(body.Attributes[name].Expr.Range().SliceBytes(source))
		switch {
		case name == "provider":
		case name == "depends_on":
			fmt.Fprintf(out, "  depends_on = %s\n", refer(text, ""))
		case name == "for_each":
			fmt.Fprintf(out, "  for_each = %s\n", refer(text, ".output"))
		default:
			fmt.Fprintf(&input, "    %s = %s\n", name, each(refer(text, ".output")))
		}
	}
	for i, b := range body.Blocks {
		if b.Type == "lifecycle" {
			continue
		}
		if b.Type == "ingress_application_gateway" { // its content is computed
			input.WriteString("    ingress_application_gateway = " +
				"[jsondecode(terraform_data.unknown.id)]\n")
		}
		for name, a := range b.Body.Attributes {
			fmt.Fprintf(&input, "    %s_%d_%s = %s\n", b.Type, i, name,
				refer(string(a.Expr.Range().SliceBytes(source)), ".output"))
		}
	}
	fmt.Fprintf(out, "  input = {\n%s  }\n", input.String())
}

// each moves the index of a resource with for_each before its attribute: x.output[each.key].id
// becomes x[each.key].output.id.
func each(text string) string {
	return regexp.MustCompile(`\.output(\[[^\]]+\])`).ReplaceAllString(text, "$1.output")
}

// TestTerraformPlans plans the configuration with terraform, if it is installed: expressions,
// types, for_each, cycles. The provider is not available, so TestSchema checks its arguments. It
// plans one in three of them, as generated code has the same parts again and again, and all of them
// with ROUTEKEEPER_FULL.
func TestTerraformPlans(t *testing.T) {
	t.Parallel()
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skipf("NOT RUN: terraform is not installed here (%v)", err)
	}
	told := 0
	for _, c := range orders(t) {
		if c.cluster != nil && (c.provider == 4 || strings.Contains(c.name, "-egress-") ||
			strings.Contains(c.name, "-elsewhere-")) {
			continue // Terraform cannot tell the others apart
		}
		if told++; told%3 != 0 && os.Getenv("ROUTEKEEPER_FULL") == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			source := standIn(written(t, "terraform", c), loadProvider(t, c.provider))
			if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(source),
				0o644); err != nil {
				t.Fatal(err)
			}
			commands := [][]string{{"validate"}} // what is built in needs no init
			// otherwise data of clusters decides what is created
			if c.cluster != nil {
				commands = append(commands, []string{"plan", "-input=false"})
			}
			for _, command := range commands {
				cmd := exec.Command(terraform, append(command, "-no-color")...)
				cmd.Dir = dir
				cmd.Env = os.Environ()
				for name, value := range given {
					cmd.Env = append(cmd.Env, "TF_VAR_"+name+"="+value)
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("terraform %s: %v\n%s", command[0], err, out)
				}
			}
		})
	}
}
