package generate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestChartAccount: all code that lets a keeper in a cluster log in names the service account that
// the Helm chart makes with its default values.
func TestChartAccount(t *testing.T) {
	chart, err := os.ReadFile("../../../release/testdata/chart/aks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	account := regexp.MustCompile(
		`(?m)^kind: ServiceAccount\r?\nmetadata:\r?\n  name: (\S+)\r?\n  namespace: (\S+)`).
		FindStringSubmatch(string(chart))
	if account == nil {
		t.Fatal("the chart has no service account")
	}
	want := "system:serviceaccount:" + account[2] + ":" + account[1]
	deployment := regexp.MustCompile(`serviceAccountName: (\S+)`).FindStringSubmatch(string(chart))
	if deployment[1] != account[1] {
		t.Errorf("the pods are %s, and the account is %s", deployment[1], account[1])
	}
	found := 0
	for _, pattern := range []string{"terraform/*", "bicep/*", "arm/*"} {
		folders, err := filepath.Glob("testdata/golden/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range folders {
			files, err := filepath.Glob(folder + "/*")
			if err != nil {
				t.Fatal(err)
			}
			code := ""
			for _, path := range files {
				if raw, err := os.ReadFile(path); err == nil { // others are folders
					code += string(raw) + "\n"
				}
			}
			code = armSubject.ReplaceAllString(code, "system:serviceaccount:$${$1}:$${$2}")
			for _, m := range regexp.MustCompile(`system:serviceaccount:[^"'\s]+`).
				FindAllString(code, -1) {
				found++
				if got := defaulted(code, m); got != want {
					t.Errorf("%s: %s is %s, want %s", folder, m, got, want)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d subjects", found)
	}
}

// armSubject is the subject in a template.
var armSubject = regexp.MustCompile(`format\('system:serviceaccount:\{0\}:\{1\}', ` +
	`parameters\('(\w+)'\), parameters\('(\w+)'\)\)\]`)

// defaulted replaces the variables in a text by their default values.
func defaulted(code, text string) string {
	return regexp.MustCompile(`\$\{(var\.)?(\w+)\}`).ReplaceAllStringFunc(text,
		func(reference string) string {
			name := strings.TrimPrefix(strings.Trim(reference, "${}"), "var.")
			for _, pattern := range []string{
				`(?s)variable "` + name + `" \{[^}]*?default\s+= "([^"]*)"`,
				`param ` + name + ` string = '([^']*)'`,
				`"` + name + `": \{\s+"type": "string",\s+"defaultValue": "([^"]*)"`,
			} {
				if m := regexp.MustCompile(pattern).FindStringSubmatch(code); m != nil {
					return m[1]
				}
			}
			return reference
		})
}
