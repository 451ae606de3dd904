package keeper

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// TestGuardTag: an operator tags the network, takes everything off its subnets, and may delete it.
// While the tag lasts nothing is put back, and findings and state say what is lost. Once its time
// has passed, the rest is put back, and a finding says that the tag has no effect. A subnet that is
// read alone has the tag, too.
func TestGuardTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("kubenet", "userDefinedRouting")
		g.config.Spec.Guard.Subnets = nil // the node subnet is guarded as the cluster's
		k := w.run(10*time.Second, g.config)
		k.since(time.Minute)
		tag := func(name, value string) {
			doc := w.get(g.vnet)
			doc["tags"] = object{name: value}
			w.put(g.vnet, doc)
		}
		last := func(d time.Duration) Result {
			results := k.since(d)
			return results[len(results)-1]
		}
		tag("Routekeeper-Guard-Paused-Until",
			time.Now().Add(time.Hour).In(time.FixedZone("", 7200)).Format(time.RFC3339))
		if got := codes(last(time.Minute)); !slices.Equal(got,
			[]finding.Code{finding.GuardPaused}) {
			t.Errorf("tagged: %v", got)
		}
		w.stripNetwork(g)
		r := last(50 * time.Minute)
		w.expect(r, "", finding.AssociationLost, finding.GuardPaused)
		if v := r.Verdicts[0]; v.State != verdict.Broken {
			t.Errorf("%s: %s", v.State, v.Sentence)
		}
		if text := strings.Join(r.Findings[0].Evidence, "; "); !strings.Contains(text,
			"not put back until 2000-01-01") {
			t.Errorf("evidence %q", text)
		}
		if w.tableOf(g.nodes) != "" {
			t.Error("it was put back")
		}
		if status, _ := w.op.Do("DELETE", g.nat, networkAPI, nil); status >= 400 {
			t.Errorf("the delete was answered with %d", status)
		}
		r = last(20 * time.Minute)
		w.expect(r, "", finding.GuardTagInvalid)
		if !w.tableOf(g.nodes).Equal(g.table) {
			t.Error("it was not put back after the tag's time")
		}
		doc := w.get(g.vnet)
		delete(doc, "tags")
		w.put(g.vnet, doc)
		w.expect(last(time.Minute), "")
	})
}

// tagged sets the tag that pauses the guard of a network for an hour.
func (w *world) tagged(vnet arm.ID) {
	w.t.Helper()
	doc := w.get(vnet)
	doc["tags"] = object{inventory.GuardPauseTag: time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	w.put(vnet, doc)
}

// TestGuardTagUnread: the tag holds while its network cannot be read, and its subnets can.
func TestGuardTagUnread(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"an error": {Status: 500, Code: "InternalServerError"},
		"refused":  {Status: 403, Code: "AuthorizationFailed"},
		"it hangs": {Hold: "before"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				g := w.addGuarded("overlay", "userDefinedRouting")
				k := w.run(10*time.Second, g.config)
				w.tagged(g.vnet)
				k.since(time.Minute)
				w.stripNetwork(g)
				fault.Method, fault.Path, fault.Count = "GET", "virtualNetworks(/vnet)?$", -1
				end := w.inject(fault)
				for _, r := range k.since(5 * time.Minute) {
					if !slices.Contains(codes(r), finding.GuardPaused) || did(r) != "" {
						t.Errorf("%v %s", codes(r), did(r))
					}
				}
				end()
				doc := w.get(g.vnet)
				delete(doc, "tags")
				w.put(g.vnet, doc)
				k.since(3 * time.Minute)
				if !w.tableOf(g.nodes).Equal(g.table) {
					t.Error("it was not put back after the tag was removed")
				}
			})
		})
	}
}

// TestGuardTagOfAKS: the tag pauses the guard of a network that AKS made, too, also when the
// cluster's document is read again.
func TestGuardTagOfAKS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		cluster := arm.ResourceID(emulator.DefaultSubscription, "rg", arm.TypeCluster, "aks")
		w.put(cluster.Group(), object{})
		w.put(cluster, object{"properties": object{"networkProfile": object{
			"networkPlugin": "kubenet", "podCidr": "10.244.0.0/16"},
			"agentPoolProfiles": []any{object{"name": "np", "count": 2, "mode": "System"}}}})
		time.Sleep(time.Minute)
		vnet := w.get(arm.GroupID(cluster.Subscription(), "MC_rg_aks_westeurope") +
			"/providers/Microsoft.Network/virtualNetworks")["value"].([]any)[0].(object)
		subnet := arm.ID(vnet["properties"].(object)["subnets"].([]any)[0].(object)["id"].(string))
		k := w.run(10*time.Second, configure("aks", cluster))
		w.tagged(subnet.Parent())
		k.since(time.Minute)
		w.strip(subnet)
		k.since(20 * time.Minute)
		if got := w.tableOf(subnet); got != "" {
			t.Errorf("%s was put back", got.Short())
		}
	})
}

// TestGuardTagLate: a write of a subnet waits for another operation. The network gets the tag, and
// the subnet then loses more. The write puts nothing back.
func TestGuardTagLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, slow)
		g := w.addGuarded("overlay", "userDefinedRouting")
		g.config.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
		k := w.run(10*time.Second, g.config)
		k.since(time.Minute)
		end := w.inject(emulator.Fault{Method: "PUT", Status: 409, Count: -1,
			Code: "AnotherOperationInProgress"})
		w.edit(g.nodes, func(p object) { delete(p, "networkSecurityGroup") })
		k.since(20 * time.Second)
		w.tagged(g.vnet)
		w.strip(g.nodes)
		k.since(20 * time.Second)
		end()
		results := k.since(2 * time.Minute)
		if got := w.tableOf(g.nodes); got != "" {
			t.Errorf("%s was put back", got.Short())
		}
		w.expect(results[len(results)-1], "", finding.AssociationLost, finding.AssociationLost,
			finding.GuardPaused)
	})
}
