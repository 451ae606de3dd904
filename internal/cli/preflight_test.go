package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// TestInitPreflight: init prints a line for each missing right, with the role to assign, and
// nothing if the identity has the generated rights.
func TestInitPreflight(t *testing.T) {
	t.Parallel()
	l := newLeastRights(t)
	init := func() string {
		t.Helper()
		var errs bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &errs}
		if code := a.run(context.Background(), []string{"--emulator", l.login, "init", "--force",
			"--cluster",
			string(l.a.demo.Cluster), "--out", filepath.Join(l.dir, "new.yaml")}); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		var rights []string
		for line := range strings.Lines(errs.String()) {
			if rest, ok := strings.CutPrefix(line, "rights for sync and run: "); ok {
				rights = append(rights, rest)
			}
		}
		return strings.Join(rights, "")
	}
	if said := init(); said != "" {
		t.Errorf("with all rights: %s", said)
	}
	for name, actions := range l.roles {
		var less []string
		for _, action := range actions {
			if !strings.HasSuffix(action, "routeTables/write") {
				less = append(less, action)
			}
		}
		l.define(name, less)
	}
	said := init()
	if strings.Count(said, "\n") != 1 ||
		!strings.Contains(said, "lacks Microsoft.Network/routeTables/write on route table ") ||
		!strings.Contains(said, "az role assignment create --assignee "+keeperPrincipal.ObjectID+
			" --role 'Network Contributor' --scope "+string(l.a.demo.GatewayTable)) {
		t.Errorf("without writes of tables: %q", said)
	}
	for name, actions := range l.roles {
		var less []string
		for _, action := range actions {
			if !strings.HasPrefix(action, "Microsoft.Authorization/") {
				less = append(less, action)
			}
		}
		l.define(name, less)
	}
	if said := init(); !strings.HasPrefix(said, "not checked: ") {
		t.Errorf("where its own rights may not be read: %q", said)
	}
}
