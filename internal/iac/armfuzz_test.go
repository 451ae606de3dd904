package iac

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzTemplate checks that no template or parameter file, however broken, causes a panic, an error
// of several lines, or an effect without a name.
func FuzzTemplate(f *testing.F) {
	files, err := filepath.Glob("testdata/bicep/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, []byte(
			`{"parameters": {"vnetName": {"value": "v"}, "subnets": {"value": [{"name": "a", "prefix": 24}]}}}`))
	}
	f.Fuzz(func(t *testing.T, template, parameters []byte) {
		r, err := ReadTemplate(File{"t.json", template},
			TemplateOptions{Parameters: []File{{"p.json", parameters}}})
		if err != nil {
			r, err = ReadTemplate(File{"t.json", template}, TemplateOptions{})
		}
		checkFuzzed(t, r, err)
		if err != nil {
			return
		}
		o := TemplateOptions{}
		for _, e := range append(slices.Clip(r.Effects), r.Associations...) {
			o.Carriers = append(o.Carriers,
				Carrier{Place: Place{Name: e.What.Name, VNet: e.What.VNet}})
		}
		fix, err := FixTemplate(File{"t.json", template}, o)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := FixTemplate(File{"t.json", fix.After}, o); err != nil ||
			len(again.Done) > 0 {
			t.Errorf("repaired twice: %v %v", err, again)
		}
	})
}

// FuzzWhatIf does the same for what-if results.
func FuzzWhatIf(f *testing.F) {
	data, err := os.ReadFile("testdata/whatif/modify.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadWhatIf(File{"w.json", data})
		checkFuzzed(t, r, err)
	})
}

func checkFuzzed(t *testing.T, r *Reading, err error) {
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %v", err)
		}
		return
	}
	for _, e := range r.Effects {
		if e.Verb == "" && e.After == "" || e.How == "" || e.What.Name == "" {
			t.Errorf("%+v", e)
		}
	}
	r.Findings(Known{})
}
