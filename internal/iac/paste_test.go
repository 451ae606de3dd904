package iac

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands of the findings about hostile plans.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestHostilePlans reads every real Terraform plan with hostile names and keys of for_each.
func TestHostilePlans(t *testing.T) {
	for name := range verdicts {
		made := func(key string, rename func(string) string) []finding.Finding {
			p := moved(t, load(t, name), "", fmt.Sprintf("[%q]", key))
			if rename != nil {
				p = pastetest.Rename(p, rename)
			}
			r, err := readPlain("plan.json", bytes.NewReader(dump(t, p)))
			if err != nil {
				t.Fatal(err)
			}
			return r.Findings(Known{Carriers: []Carrier{Named("aks-nodes", "it carries pods")}})
		}
		harmless := made("key", nil)
		if code := verdicts[name]; code != "" && len(harmless) == 0 {
			t.Errorf("%s: no finding", name)
		}
		pastetest.Again(func(rename func(string) string) {
			found := made(rename("key"), func(name string) string {
				if strings.HasPrefix(name, "azurerm_") || name == "aks-nodes" {
					return name // a type, or an argument of iac check
				}
				return rename(name)
			})
			for _, f := range found {
				if f.Fix != "" && !isCommand().MatchString(f.Fix) &&
					!strings.HasPrefix(f.Fix, "no command is shown") {
					t.Errorf("%s: %s is no command: %s", name, f.Code, f.Fix)
				}
			}
		})
	}
}

// hostile reads a document again with hostile names, as a test has read it.
func hostile(data []byte, read func(data []byte) (*Reading, error)) {
	pastetest.Again(func(rename func(string) string) {
		if r, err := read(pastetest.Rename(data, rename)); err == nil {
			r.Findings(Known{})
		}
	})
}

// hostilePlan does so for a Terraform plan.
func hostilePlan(data []byte) {
	hostile(data, func(data []byte) (*Reading, error) {
		return readPlain("plan.json", bytes.NewReader(data))
	})
}
