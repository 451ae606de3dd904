package generate

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/provision"
)

// TestDeployed deploys the ARM JSON of each blueprint to an empty resource group of the emulator,
// twice. After that cluster create finds everything as it would have made it, and has nothing to
// do.
func TestDeployed(t *testing.T) {
	for _, v := range variants(t) {
		t.Run(v.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := v.cluster
				c.Subscription = emulator.DefaultSubscription
				e := emulatortest.New(t, emulator.Options{CheckClusterIdentity: true})
				op, err := e.Client(emulatortest.Operator)
				if err != nil {
					t.Fatal(err)
				}
				template := armOf(t, Blueprint{Cluster: c, Provider: 5})
				// The command in the head of the template makes the group.
				group := object{"location": c.Location, "tags": object{build.OwnerTag: c.Owner()}}
				if err := op.Put(c.GroupID(), "2024-11-01", group); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					deploy(t, op, c, template)
				}
				client := emulatortest.Client(t, e, emulatortest.Keeper)
				planned, err := provision.Preview(context.Background(), client, c, false)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range planned {
					if o.Verb != build.Keep {
						t.Errorf("cluster create would %s %s: %s %v", o.Verb, o.ID, o.Decision.Why, o.Differences)
					}
				}
			})
		})
	}
}

// deploy does what Resource Manager does with a template: it writes the resources, each after those
// that it depends on, and what a resource says of itself goes into those that refer to it. To let
// the emulator do that itself, PUT the template as a Microsoft.Resources/deployments here.
func deploy(t *testing.T, op *emulator.Client, c build.Cluster, template []byte) {
	t.Helper()
	r := evaluated(t, c, template)
	open := slices.DeleteFunc(slices.Clone(r.Resources), func(o *armtemplate.Resource) bool { return o.Existing })
	for len(open) > 0 {
		i := slices.IndexFunc(open, func(o *armtemplate.Resource) bool {
			return !slices.ContainsFunc(open, func(other *armtemplate.Resource) bool { return o.After(other) })
		})
		if i < 0 {
			t.Fatal("the resources depend on each other in a circle")
		}
		writeOne(t, op, open[i])
		open = slices.Delete(open, i, i+1)
	}
}

// writeOne writes a resource of a template, and waits until it is there.
func writeOne(t *testing.T, op *emulator.Client, r *armtemplate.Resource) {
	t.Helper()
	id := arm.ID(r.ID)
	status, _ := op.Do(http.MethodGet, id, r.APIVersion, nil)
	if r.Type == typeDeployment || once(r) && status == http.StatusOK {
		return
	}
	body := object{}
	for _, m := range r.Body.Members {
		switch m.Name {
		case "type", "apiVersion", "name", "comments", "scope", "@options":
		default:
			body[m.Name] = atRuntime(t, op, m.Value)
		}
	}
	if err := op.Put(id, r.APIVersion, body); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Hour); ; time.Sleep(time.Second) {
		status, answer := op.Do(http.MethodGet, id, r.APIVersion, nil)
		state := gjson.GetBytes(answer, "properties.provisioningState").String()
		if status == http.StatusOK && (state == "" || state == "Succeeded") {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: %d %s", id, status, answer)
		}
	}
}

// issuer stands for a cluster's OIDC issuer.
const issuer = "https://issuer.example.com/shop/"

// atRuntime is a value of a template with what resources say of themselves.
func atRuntime(t *testing.T, op *emulator.Client, v any) any {
	t.Helper()
	switch v := v.(type) {
	case *armtemplate.Unknown:
		id := arm.ID(v.Of)
		status, answer := op.Do(http.MethodGet, id, versions[id.Type()], nil)
		value := gjson.GetBytes(answer, "properties."+strings.TrimPrefix(v.Path, "properties."))
		if strings.HasSuffix(v.Path, ".issuerURL") && !value.Exists() {
			return issuer // such a cluster issues no tokens
		}
		if status != http.StatusOK || !value.Exists() {
			t.Fatalf("%s does not say its %s: %d %s", id, v.Path, status, answer)
		}
		return value.Value()
	case []any:
		out := []any{}
		for _, item := range v {
			out = append(out, atRuntime(t, op, item))
		}
		return out
	case *armtemplate.Object:
		out := object{}
		for _, m := range v.Members {
			out[m.Name] = atRuntime(t, op, m.Value)
		}
		return out
	case armtemplate.Opaque:
		t.Fatalf("%s is not known at the deployment", v)
	}
	return v
}

// TestKeeperDeployed deploys a cluster with a keeper in it, and asks the emulator for what lets it
// log in. What runs a container app is not in the emulator.
func TestKeeperDeployed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := variants(t)[1].cluster
		c.Subscription = emulator.DefaultSubscription
		e := emulatortest.New(t, emulator.Options{})
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		if err := op.Put(c.GroupID(), "2024-11-01", object{"location": c.Location}); err != nil {
			t.Fatal(err)
		}
		deploy(t, op, c, armOf(t, Blueprint{Cluster: c, Provider: 5, Host: HostAKS}))
		identity := arm.ResourceID(c.Subscription, c.Group, arm.TypeIdentity, "shop-keeper")
		credential, err := op.Get(identity.Child("federatedIdentityCredentials", "routekeeper"), "2024-11-30")
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := op.Get(c.ClusterID(), versions[arm.TypeCluster])
		if err != nil {
			t.Fatal(err)
		}
		want := issuer
		profile := cluster["properties"].(object)["oidcIssuerProfile"].(object)
		if url, issues := profile["issuerURL"].(string); issues {
			want = url
		}
		about := credential["properties"].(object)
		if about["issuer"] != want || about["subject"] != "system:serviceaccount:routekeeper:routekeeper" {
			t.Errorf("the credential is for %v", about)
		}
		keeper, err := op.Get(identity, "2024-11-30")
		if err != nil {
			t.Fatal(err)
		}
		principal := fmt.Sprint(keeper["properties"].(object)["principalId"])
		for scope, role := range map[arm.ID]string{
			arm.ID("/subscriptions/" + c.Subscription): "reads", c.GroupID(): "links", c.NodeSubnetID(): "subnets",
			c.GatewaySubnetID(): "subnets", c.GatewayTableID(): "targets",
		} {
			if got := rolesAt(t, op, scope, principal); !slices.Equal(got, []string{role}) {
				t.Errorf("the keeper has the roles %q on %s, want %s", got, scope, role)
			}
		}
		if got := rolesAt(t, op, c.NodeTableID(), principal); len(got) > 0 {
			t.Errorf("the keeper has %q on the cluster's own table", got)
		}
	})
}

// rolesAt are the roles that are assigned to a principal at a scope itself.
func rolesAt(t *testing.T, op *emulator.Client, scope arm.ID, principal string) []string {
	t.Helper()
	list, err := op.Get(scope+"/providers/Microsoft.Authorization/roleAssignments", "2022-04-01")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, item := range list["value"].([]any) {
		p := item.(object)["properties"].(object)
		if p["principalId"] != principal || !arm.ID(fmt.Sprint(p["scope"])).Equal(scope) {
			continue
		}
		role, err := op.Get(arm.ID(fmt.Sprint(p["roleDefinitionId"])), "2022-04-01")
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Fields(fmt.Sprint(role["properties"].(object)["roleName"]))
		found[name[2]] = true
	}
	return slices.Sorted(maps.Keys(found))
}
