package generate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// TestRightsDeployed deploys a cluster and the rights for it as ARM JSON, and checks which roles
// the keeper has where, and that its pods can log in.
func TestRightsDeployed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, op := deployedCluster(t)
		files, err := Rights{Name: "routekeeper", Location: "westeurope", Provider: 5,
			Clusters: []ManagedCluster{{
				Name: c.Name, Cluster: c.ClusterID(), Guarded: true, FromNodes: true,
				Subnets: []GuardedSubnet{{c.GatewaySubnetID(), []arm.ID{c.GatewayTableID()}}},
				Targets: []arm.ID{c.GatewayTableID()},
			}}}.ARM()
		if err != nil {
			t.Fatal(err)
		}
		subscription := arm.SubscriptionID(c.Subscription)
		id := subscription + "/providers/" + typeDeployment + "/rights"
		for range 2 {
			if err := op.Put(id, versions[typeDeployment], object{"location": "westeurope",
				"properties": object{"mode": "Incremental",
					"template": json.RawMessage(files[0].Text)}}); err != nil {
				t.Fatal(err)
			}
			succeeds(t, op, id)
		}
		identity := arm.ResourceID(c.Subscription, "routekeeper-keeper-rg", arm.TypeIdentity,
			"routekeeper-keeper")
		keeper, err := op.Get(identity, versions[arm.TypeIdentity])
		if err != nil {
			t.Fatal(err)
		}
		principal := fmt.Sprint(keeper["properties"].(object)["principalId"])
		for scope, role := range map[arm.ID]string{
			subscription: "reads", c.GroupID(): "links", c.NodeSubnetID(): "subnets",
			c.GatewaySubnetID(): "subnets", c.GatewayTableID(): "targets",
			c.ClusterID(): "credentials",
			arm.GroupID(c.Subscription, "MC_Shop-RG_shop_westeurope"): "links",
		} {
			if got := rolesAt(t, op, scope, principal); !slices.Equal(got, []string{role}) {
				t.Errorf("the keeper has the roles %q on %s, want %s", got, scope, role)
			}
		}
		if got := rolesAt(t, op, c.NodeTableID(), principal); len(got) > 0 {
			t.Errorf("the keeper has %q on the cluster's own table", got)
		}
		if _, err := op.Get(identity.Child("federatedIdentityCredentials", "routekeeper"),
			versions[typeCredential]); err != nil {
			t.Error(err)
		}
	})
}

// deployedCluster deploys a cluster, and returns it with the client of a person who may do all.
func deployedCluster(t *testing.T) (build.Cluster, *emulator.Client) {
	t.Helper()
	c := variants(t)[1].cluster
	c.Subscription = emulator.DefaultSubscription
	op, err := emulatortest.New(t, emulator.Options{}).Client(emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Put(c.GroupID(), "2024-11-01", object{"location": c.Location}); err != nil {
		t.Fatal(err)
	}
	deploy(t, op, c, armOf(t, Blueprint{Cluster: c, Provider: 5}), nil)
	return c, op
}

// succeeds waits for a deployment, and fails the test unless it has succeeded.
func succeeds(t *testing.T, op *emulator.Client, id arm.ID) {
	t.Helper()
	time.Sleep(10 * time.Minute)
	status, answer := op.Do(http.MethodGet, id, versions[typeDeployment], nil)
	if gjson.GetBytes(answer, "properties.provisioningState").String() != "Succeeded" {
		t.Fatalf("%d %s", status, answer)
	}
}

// TestRightsOfHubDeployed deploys the rights for a document without a cluster. The keeper's pods
// can log in only through a cluster that the person names.
func TestRightsOfHubDeployed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, op := deployedCluster(t)
		files, err := Rights{Name: "routekeeper", Location: "westeurope", Provider: 5,
			Clusters: hubOf(ManagedCluster{Subnets: []GuardedSubnet{{c.GatewaySubnetID(),
				[]arm.ID{c.GatewayTableID()}}}, Targets: []arm.ID{c.GatewayTableID()}})}.ARM()
		if err != nil {
			t.Fatal(err)
		}
		subscription := arm.SubscriptionID(c.Subscription)
		id := subscription + "/providers/" + typeDeployment + "/rights"
		identity := arm.ResourceID(c.Subscription, "routekeeper-keeper-rg", arm.TypeIdentity,
			"routekeeper-keeper")
		for _, issuer := range []string{"", "https://issuer.example/"} {
			if err := op.Put(id, versions[typeDeployment], object{"location": "westeurope",
				"properties": object{"mode": "Incremental",
					"parameters": object{"keeperIssuer": object{"value": issuer}},
					"template":   json.RawMessage(files[0].Text)}}); err != nil {
				t.Fatal(err)
			}
			succeeds(t, op, id)
			if _, err := op.Get(identity.Child("federatedIdentityCredentials", "routekeeper"),
				versions[typeCredential]); (err == nil) != (issuer != "") {
				t.Errorf("issuer %q: %v", issuer, err)
			}
		}
		keeper, err := op.Get(identity, versions[arm.TypeIdentity])
		if err != nil {
			t.Fatal(err)
		}
		principal := fmt.Sprint(keeper["properties"].(object)["principalId"])
		for scope, role := range map[arm.ID]string{
			subscription: "reads", c.GroupID(): "links", c.GatewaySubnetID(): "subnets",
			c.GatewayTableID(): "targets",
		} {
			if got := rolesAt(t, op, scope, principal); !slices.Equal(got, []string{role}) {
				t.Errorf("the keeper has the roles %q on %s, want %s", got, scope, role)
			}
		}
	})
}
