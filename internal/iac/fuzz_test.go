package iac

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// readPlain reads a file without options.
func readPlain(name string, r io.Reader) (*Reading, error) {
	return Read(name, r, TemplateOptions{})
}

// FuzzRead: no input causes a panic, a file reads the same in any chunks, and the reading can
// always be turned into findings.
func FuzzRead(f *testing.F) {
	for name := range verdicts {
		for _, file := range []string{"plan.json", "main.tf"} {
			raw, err := os.ReadFile(filepath.Join("../../testdata/terraform", name, file))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(file, raw)
		}
	}
	f.Add("\n.tf", []byte("a = \x80")) // a name of two lines
	f.Add("terraform.tfstate",
		[]byte(`{"version":4,"serial":1,"lineage":"x","resources":[{"type":"azurerm_subnet","name":"n","instances":[{"attributes":{"id":"/x"}}]}]}`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		r, err := readPlain(name, bytes.NewReader(raw))
		slow, errSlow := readPlain(name, iotest.OneByteReader(bytes.NewReader(raw)))
		if (err == nil) != (errSlow == nil) {
			t.Fatalf("%v at once, and %v byte by byte", err, errSlow)
		}
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		known := Known{Carriers: []Carrier{Named("nodes", "it carries pods")}}
		if a, b := r.Findings(known), slow.Findings(known); len(a) != len(b) {
			t.Errorf("%d findings at once, and %d byte by byte", len(a), len(b))
		}
	})
}

// FuzzStream: what is JSON for encoding/json is JSON here, value by value.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2,{"b":"c\"d\\"}],"e":null}`, `[]`, `"x"`, ` 12e3 `,
		`{"a":1}}`, `[1`, `{"a"}`, `nul`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := newStream(iotest.HalfReader(bytes.NewReader(raw)))
		value, err := s.value()
		value = bytes.Clone(value)
		if err == nil {
			err = s.done()
		}
		if json.Valid(raw) && (err != nil || !bytes.Equal(value, bytes.TrimSpace(raw))) {
			t.Errorf("%q: %q, %v", raw, value, err)
		}
		s = newStream(bytes.NewReader(raw))
		var members int
		_ = s.object(func(string) error { members++; return s.skip() })
		var whole map[string]json.RawMessage
		if json.Unmarshal(raw, &whole) == nil && len(whole) > members {
			t.Errorf("%q: %d members, expected %d at least", raw, members, len(whole))
		}
	})
}

// TestUnknownFormat: a file of no known format is refused in one helpful line.
func TestUnknownFormat(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"nothing", "  \n", "it is empty"},
		{"binary", "PK\x03\x04abc", "terraform show -json"},
		{"UTF-16", "\xff\xfe{\x00", "UTF-16"},
		{"encrypted", `{"meta":{},"encrypted_data":"x"}`, "encrypted by OpenTofu"},
		{"log", `{"@level":"info"}`, "the log of terraform plan -json"},
		{"text", "Terraform will perform the following actions", "unknown format"},
		{"other JSON", `{"a":1}`, "unknown format"},
		{"new format", `{"format_version":"2.0","terraform_version":"3"}`,
			"newer than this program"},
		{"old state", `{"version":3,"serial":1}`, "state of version 3"},
		{"cut", `{"format_version":"1.2","resource_changes":[{"type":"azurerm_subnet"`,
			"it is incomplete"},
		{"wrong bracket", `{"format_version":"1.2","resource_changes":[}`,
			"it is not valid JSON: at byte"},
		{"two", `{"format_version":"1.2","planned_values":{}} {}`, "something follows"},
	} {
		_, err := readPlain("f", strings.NewReader(c.content))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, expected %q in one line", c.name, err, c.want)
		}
	}
	if _, err := readPlain("f", strings.NewReader(`{"version":4,"serial":1,"resources":[`+
		`{"type":"azurerm_subnet","name":"n","instances":[{}]}]}`)); err != nil {
		t.Errorf("a state with an instance that has no attributes: %v", err)
	}
	if r, err := readPlain("f", io.MultiReader(strings.NewReader("\xef\xbb\xbf"),
		strings.NewReader(`{"format_version":"1.2","planned_values":{}}`))); err != nil ||
		r.Format != TerraformPlan {
		t.Errorf("a byte order mark of UTF-8: %v", err)
	}
}
