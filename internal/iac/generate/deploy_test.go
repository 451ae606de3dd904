package generate

import (
	"context"
	"encoding/json"
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
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/provision"
)

// TestDeployed deploys the ARM JSON of each blueprint to an empty resource group of the emulator,
// twice. Afterwards cluster create has nothing to do, and the table of a kubenet cluster has its
// routes and an unmanaged one. Existing subnets keep everything that they had. For existing
// networks it deploys the Bicep, too, as the test's reader compiles it.
func TestDeployed(t *testing.T) {
	type deployed struct {
		variant
		name  string
		write func(*testing.T, Blueprint) []byte
	}
	var all []deployed
	for _, v := range variants(t) {
		if v.cluster.Subscription = emulator.DefaultSubscription; v.found == nil {
			all = append(all, deployed{v, v.name, armOf})
		}
	}
	for _, group := range []string{"net", "Shop-RG"} {
		for _, v := range existingVariants(t, emulator.DefaultSubscription, group) {
			all = append(all, deployed{v, v.name + " in " + group + " as ARM", armOf},
				deployed{v, v.name + " in " + group + " as Bicep", bicepOf})
		}
	}
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := v.cluster
				e := emulatortest.New(t, emulator.Options{CheckClusterIdentity: true})
				op, err := e.Client(emulatortest.Operator)
				if err != nil {
					t.Fatal(err)
				}
				template := v.write(t, Blueprint{Cluster: c, Provider: 5})
				// The command at the head of the template creates the group.
				group := object{"location": c.Location, "tags": object{build.OwnerTag: c.Owner()}}
				if err := op.Put(c.GroupID(), "2024-11-01", group); err != nil {
					t.Fatal(err)
				}
				for _, doc := range v.found {
					if doc.ID.Equal(c.GroupID()) {
						continue
					}
					body := object{}
					if err := json.Unmarshal(doc.Raw, &body); err != nil {
						t.Fatal(err)
					}
					if err := op.Put(doc.ID, foundVersion(doc.ID), body); err != nil {
						t.Fatal(err)
					}
				}
				before := propertiesOf(t, op, c)
				deploy(t, op, c, template, nil)
				sameProperties(t, c, before, propertiesOf(t, op, c))
				var routes []string
				if c.Blueprint == capacity.Kubenet {
					time.Sleep(time.Minute) // until the cloud provider has written its routes
					mine := c.NodeTableID().Child("routes", "mine")
					if err := op.Put(mine, versions[arm.TypeRoute], object{"properties": object{
						"addressPrefix": "10.99.0.0/16", "nextHopType": "None"}}); err != nil {
						t.Fatal(err)
					}
					if routes = routesOf(t, op, c.NodeTableID()); len(routes) < 1+c.Pools[0].Count {
						t.Fatalf("the table has the routes %q", routes)
					}
				}
				deploy(t, op, c, template, nil)
				if routes != nil {
					if got := routesOf(t, op, c.NodeTableID()); !slices.Equal(got, routes) {
						t.Errorf("deployed again, the table has the routes %q, had %q", got, routes)
					}
				}
				client := emulatortest.Client(t, e, emulatortest.Keeper)
				planned, err := provision.Preview(context.Background(), client, c, c.Steps(), false)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range planned {
					if o.Verb != build.Keep {
						t.Errorf("cluster create would %s %s: %s %v", o.Verb, o.ID, o.Decision.Why,
							o.Differences)
					}
				}
			})
		})
	}
}

// deploy makes the emulator's Resource Manager deploy a template to the cluster's group.
func deploy(t *testing.T, op *emulator.Client, c build.Cluster, template []byte, given object) {
	t.Helper()
	id := c.GroupID() + "/providers/" + typeDeployment + "/main"
	if err := op.Put(id, versions[typeDeployment], object{"properties": object{
		"mode": "Incremental", "template": json.RawMessage(template), "parameters": given,
	}}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Hour); ; time.Sleep(time.Second) {
		status, answer := op.Do(http.MethodGet, id, versions[typeDeployment], nil)
		state := gjson.GetBytes(answer, "properties.provisioningState").String()
		if state == "Succeeded" {
			return
		}
		if status != http.StatusOK || state == "Failed" || time.Now().After(until) {
			t.Fatalf("%s: %d %s", id, status, answer)
		}
	}
}

// routesOf are the names of a table's routes.
func routesOf(t *testing.T, op *emulator.Client, table arm.ID) (out []string) {
	t.Helper()
	status, answer := op.Do(http.MethodGet, table, versions[arm.TypeRouteTable], nil)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", table, status, answer)
	}
	for _, r := range gjson.GetBytes(answer, "properties.routes.#.name").Array() {
		out = append(out, r.String())
	}
	slices.Sort(out)
	return out
}

// issuer is the cluster's OIDC issuer.
const issuer = "https://issuer.example.com/shop/"

// TestKeeperDeployed deploys a cluster with a keeper in it, and checks in the emulator what lets
// the keeper log in. The emulator has no Container Apps.
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
		deploy(t, op, c, armOf(t, Blueprint{Cluster: c, Provider: 5, Host: HostAKS}),
			object{"image": object{"value": "registry.example.com/routekeeper:1.0"}})
		identity := arm.ResourceID(c.Subscription, c.Group, arm.TypeIdentity, "shop-keeper")
		credential, err := op.Get(identity.Child("federatedIdentityCredentials", "routekeeper"),
			"2024-11-30")
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := op.Get(c.ClusterID(), versions[arm.TypeCluster])
		if err != nil {
			t.Fatal(err)
		}
		url, _ := cluster["properties"].(object)["oidcIssuerProfile"].(object)["issuerURL"].(string)
		about := credential["properties"].(object)
		if url == "" || about["issuer"] != url ||
			about["subject"] != "system:serviceaccount:routekeeper:routekeeper" {
			t.Errorf("the credential is for %v", about)
		}
		keeper, err := op.Get(identity, "2024-11-30")
		if err != nil {
			t.Fatal(err)
		}
		principal := fmt.Sprint(keeper["properties"].(object)["principalId"])
		for scope, role := range map[arm.ID]string{
			arm.SubscriptionID(c.Subscription): "reads", c.GroupID(): "links",
			c.NodeSubnetID():    "subnets",
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

// rolesAt returns the roles that are assigned to a principal directly at a scope.
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
