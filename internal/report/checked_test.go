package report

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/finding"
)

// sarifSchema is the schema of SARIF 2.1.0 (OASIS, errata 01), as github.com/owenrumney/go-sarif
// has it.
const sarifSchema = "../../testdata/sarif-schema-2.1.0.json"

var checkedExample = Checked{
	Files: []CheckedFile{{"infra/plan 1.json", "terraform plan"}},
	Findings: []finding.Finding{
		finding.New(finding.IaCStrips, "", "/subscriptions/s/x",
			"subnet hub/nodes loses its route table").About("azurerm_virtual_network.hub").At(
			"infra/main.tf", 12).With("by it", "with \x1b").WithFix("name it"),
		finding.New(finding.IaCMayStrip, "", "/subscriptions/s/y",
			"subnet hub/edge may lose its route table").At("infra/main.tf", 0),
		finding.New(finding.IaCNote, "", "", "something without a place"),
	},
	Version: "v1.2.3",
}

// TestSARIF: the output is valid SARIF 2.1.0, with and without findings, with each finding at its
// place.
func TestSARIF(t *testing.T) {
	raw, err := os.ReadFile(sarifSchema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Checked{checkedExample, {}, {Files: checkedExample.Files}} {
		var b bytes.Buffer
		if err := c.Write(&b, SARIF, Style{}); err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("%v in %s", err, b.String())
		}
	}
	bad := map[string]any{"version": "2.1.0",
		"runs": []any{map[string]any{"tool": map[string]any{}}}}
	if schema.Validate(bad) == nil {
		t.Error("the schema accepts anything")
	}

	var b bytes.Buffer
	if err := checkedExample.Write(&b, SARIF, Style{}); err != nil {
		t.Fatal(err)
	}
	run := gjson.GetBytes(b.Bytes(), "runs.0")
	for i, want := range []struct {
		level, uri string
		line       int64
	}{{"error", "infra/main.tf", 12}, {"warning", "infra/main.tf", 1}, {"note",
		"infra/plan%201.json", 1}} {
		result := run.Get(fmt.Sprintf("results.%d", i))
		place := result.Get("locations.0.physicalLocation")
		if result.Get("level").Str != want.level ||
			place.Get("artifactLocation.uri").Str != want.uri ||
			place.Get("region.startLine").Int() != want.line {
			t.Errorf("result %d: %s, expected %+v", i, result, want)
		}
		id := run.Get(fmt.Sprintf("tool.driver.rules.%d.id", result.Get("ruleIndex").Int())).Str
		if id == "" || id != result.Get("ruleId").Str {
			t.Errorf("result %d has rule %s, and index of %s", i, result.Get("ruleId"), id)
		}
	}
}

// TestChecked: the other formats show the place in the code too.
func TestChecked(t *testing.T) {
	for format, want := range map[Format]string{
		Text: "1 error, 1 warning, 1 note in terraform plan infra/plan 1.json.\n\nerror " +
			"iac-strips: subnet hub/nodes loses its route table\n  means: ",
		Short: "infra/main.tf:12: error iac-strips subnet hub/nodes loses its route table\n",
		Markdown: "- **error** `iac-strips`: subnet hub/nodes loses its route table\n  - " +
			"infra/main.tf:12\n  - by it\n",
		JSON: `"file":"infra/main.tf","line":12`,
	} {
		var b strings.Builder
		if err := checkedExample.Write(&b, format, Style{}); err != nil ||
			!strings.Contains(b.String(), want) {
			t.Errorf("%s: %v, %q not in %s", format, err, want, b.String())
		}
	}
	if s := (Checked{Files: checkedExample.Files}).Sentence(); s != "nothing in terraform plan "+
		"infra/plan 1.json breaks pod traffic" {
		t.Error(s)
	}
}
