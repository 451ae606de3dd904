package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// TestPlugin: as kubectl's plugin, help texts, usage and messages name kubectl routekeeper.
func TestPlugin(t *testing.T) {
	for path, want := range map[string]string{"/usr/bin/kubectl-routekeeper": plugin,
		"kubectl-routekeeper.exe": plugin, "./routekeeper": "routekeeper",
		"cli.test": "routekeeper"} {
		if got := programOf(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for _, c := range []struct{ args, want, never string }{
		{"run --help", "\n  kubectl routekeeper run -f FILE", "\n  routekeeper"},
		{"status --help", "\n  kubectl routekeeper status --url", "\n  routekeeper"},
		{"init schema --help", "\n  kubectl routekeeper init schema --kind CustomResourceDefinition | " +
			"kubectl apply -f -", "kubectl kubectl"},
		{"--help", "\n  kubectl routekeeper COMMAND", "kubectl routekeeper does"},
		{"sync --dryrun", "kubectl routekeeper: unknown flag --dryrun: did you mean --dry-run? " +
			"(see kubectl routekeeper sync --help)", ""},
	} {
		var out bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &out, program: plugin}
		a.run(context.Background(), strings.Fields(c.args))
		if !strings.Contains(out.String(), c.want) ||
			c.never != "" && strings.Contains(out.String(), c.never) {
			t.Errorf("%s prints\n%s\nwant %q, and never %q", c.args, &out, c.want, c.never)
		}
	}
}
