package diagnose_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

type object = map[string]any

const reader = "acdd72a7-3385-48ef-bd42-f606fba81ae7"

// TestRightsThatSuffice: a keeper that may only read, and a cluster's identity without a role, lack
// in the emulator what the findings name. With the role assignments of the fixes nothing is missing
// any more, and the emulator lets the keeper write.
func TestRightsThatSuffice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keeper := emulator.Principal{Name: "keeper",
			ClientID: "9e570000-0000-4000-8000-000000000001", Secret: "s",
			ObjectID: "9e570000-0000-4000-8000-000000000002", NoRoles: true}
		e := emulatortest.New(t,
			emulator.Options{Principals: []emulator.Principal{emulatortest.Keeper,
				emulatortest.Operator, keeper}})
		demo, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		made := 0
		assign := func(scope arm.ID, role, principal string) {
			t.Helper()
			made++
			id := scope + arm.ID(
				fmt.Sprintf("/providers/Microsoft.Authorization/roleAssignments/a5000000-0000-4000-8000-%012d", made))
			if err := op.Put(id, "2022-04-01", object{"properties": object{
				"roleDefinitionId": "/providers/Microsoft.Authorization/roleDefinitions/" +
					role, "principalId": principal}}); err != nil {
				t.Fatal(err)
			}
		}
		subscription := arm.SubscriptionID(emulator.DefaultSubscription)
		assign(subscription, reader, keeper.ObjectID)
		assignment := demo.ClusterTable.Group() +
			"/providers/Microsoft.Authorization/roleAssignments/a55160ed-0000-4000-8000-000000000001"
		if status, answer := op.Do(http.MethodDelete, assignment, "2022-04-01",
			nil); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}

		config := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "shop"}}
		config.Spec.ClusterID = string(demo.Cluster)
		config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(demo.GatewayTable)}}
		config.SetDefaults()
		check := func() (found []finding.Finding) {
			t.Helper()
			client := emulatortest.Client(t, e, keeper)
			s, err := client.Survey(t.Context(), subscription)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Read(t.Context(), s, inventory.Wanted{Written: []arm.ID{demo.Cluster}},
				azure.ReadOptions{}); err != nil {
				t.Fatal(err)
			}
			c := diagnose.Case{Snapshot: s, Clusters: []arm.ID{demo.Cluster},
				Configs: []v1alpha1.ClusterRoutes{config}}
			scopes, principals := c.Scopes()
			if err := client.ReadRights(t.Context(), s, scopes, principals); err != nil {
				t.Fatal(err)
			}
			for _, f := range diagnose.Check(c) {
				if slices.Contains([]finding.Code{finding.IdentityLacks, finding.CallerLacks,
					finding.RightsUnread}, f.Code) {
					found = append(found, f)
				}
			}
			return found
		}
		// write writes the documents unchanged, as the keeper: the emulator decides which rights
		// that needs.
		writer, err := e.Client(keeper)
		if err != nil {
			t.Fatal(err)
		}
		write := func() (refused int) {
			t.Helper()
			for _, id := range []arm.ID{demo.NodeSubnet, demo.GatewayTable} {
				doc, err := writer.Get(id, "2025-05-01")
				if err != nil {
					t.Fatal(err)
				}
				if writer.Put(id, "2025-05-01", doc) != nil {
					refused++
				}
			}
			return refused
		}

		found := check()
		if n := write(); n != 2 {
			t.Errorf("%d writes are refused, want both", n)
		}
		var where []string
		command := regexp.MustCompile(
			`^az role assignment create (?:--assignee|--assignee-object-id) (\S+)(?: --assignee-principal-type ServicePrincipal)? --role '?(.*?)'? --scope (\S+)$`)
		for _, f := range found {
			where = append(where, string(f.Code)+" "+arm.ID(f.Resource).Name())
			m := command.FindStringSubmatch(f.Fix)
			if m == nil {
				t.Fatalf("%s: fix %s", f.Message, f.Fix)
			}
			assign(arm.ID(m[3]), map[string]string{"Reader": reader,
				"Network Contributor": "4d97b98b-1d4f-4787-a291-c67834d212e7"}[m[2]], m[1])
		}
		want := []string{"caller-lacks-permission appgw-rt", "caller-lacks-permission nodes",
			"caller-lacks-permission nodes-nsg", "caller-lacks-permission shop-rt",
			"identity-lacks-permission nodes", "identity-lacks-permission shop-rt"}
		slices.Sort(where)
		if !slices.Equal(where, want) {
			t.Errorf("found %q, want %q", where, want)
		}
		for _, f := range check() {
			t.Errorf("with the roles: %s %q", f.Message, f.Evidence)
		}
		if n := write(); n != 0 {
			t.Errorf("with the roles, %d writes are refused", n)
		}
	})
}
