package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestCreateLacksRights: one line names the rights that the login lacks, before anything is
// created. With these rights the cluster is built; without a right to define roles it is built with
// --built-in-roles.
func TestCreateLacksRights(t *testing.T) {
	t.Parallel()
	l := &leastRights{t: t, dir: t.TempDir(), roles: map[string][]string{}}
	own := filepath.Join(l.dir, "az")
	a, server, err := startAzure(own, false, emulator.Options{
		Principals: []emulator.Principal{keeperPrincipal}, StrictLists: true,
		OperationTime: time.Millisecond})
	l.must(err)
	t.Cleanup(func() { server.Close(); a.e.Close() })
	l.a = a
	l.logIn(own)
	subscription := arm.SubscriptionID(emulator.DefaultSubscription)
	give := func(name, role string) {
		l.must(a.op.Put(subscription+arm.ID("/providers/Microsoft.Authorization/roleAssignments/"+
			name), rolesVersion,
			map[string]any{"properties": map[string]any{"principalId": keeperPrincipal.ObjectID,
				"principalType": "ServicePrincipal",
				"roleDefinitionId": string(subscription) +
					"/providers/Microsoft.Authorization/roleDefinitions/" + role}}))
	}
	create := func(more ...string) (int, string) {
		var out, errs bytes.Buffer
		app := &app{in: strings.NewReader(""), out: &out, err: &errs}
		code := app.run(context.Background(),
			append([]string{"--emulator", l.login, "cluster", "create", "shop",
				"--blueprint", "kubenet", "--application-gateway", "--subscription",
				emulator.DefaultSubscription,
				"--location", "westeurope", "--yes"}, more...))
		return code, errs.String()
	}
	lacks := func(said string, more ...string) {
		t.Helper()
		code, text := create(more...)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if code != 1 || len(lines) != 1 || !strings.Contains(text, said) {
			t.Errorf("%d, not %q: %s", code, said, text)
		}
		if status, _ := a.op.Do("GET", subscription+"/resourceGroups/shop-rg", "2024-11-01",
			nil); status != 404 {
			t.Fatal("something was made")
		}
	}
	give("a55160ed-0000-4000-8000-000000000001", "acdd72a7-3385-48ef-bd42-f606fba81ae7") // Reader
	lacks("this login lacks Microsoft.Resources/subscriptions/resourceGroups/write, ")
	// Contributor
	give("a55160ed-0000-4000-8000-000000000002", "b24988ac-6180-42a0-ab88-20f7382dd24c")
	lacks("nothing was written: this login lacks Microsoft.Authorization/roleDefinitions/write, " +
		"Microsoft.Authorization/roleAssignments/write on " + string(subscription) +
		"; needed there: User Access Administrator; " +
		"--built-in-roles does without a role definition")
	lacks("lacks Microsoft.Authorization/roleAssignments/write on "+string(subscription)+
		"; needed there: Role Based Access Control Administrator", "--built-in-roles")
	// RBAC Administrator
	give("a55160ed-0000-4000-8000-000000000003", "f58310d9-a9f6-439a-9e8d-f62e7b41a168")
	if code, text := create("--built-in-roles"); code != 0 {
		t.Errorf("%d: %s", code, text)
	}
}
