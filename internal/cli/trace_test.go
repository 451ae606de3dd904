package cli

import (
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// scriptLike creates the cluster like, which has the demo's pod CIDR and a network that AKS
// creates.
func scriptLike(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) > 0 || neg {
		ts.Fatalf("usage: like")
	}
	a := running.get(ts.Getenv("WORK"))
	id := a.demo.Cluster.Group() + "/providers/Microsoft.ContainerService/managedClusters/like"
	ts.Check(a.op.Put(id, verifyAKS, map[string]any{
		"location": "westeurope", "identity": map[string]any{"type": "SystemAssigned"},
		"properties": map[string]any{
			"networkProfile": map[string]any{"networkPlugin": "kubenet",
				"podCidr": "10.244.0.0/16"},
			"agentPoolProfiles": []any{map[string]any{"name": "np", "count": 2, "mode": "System"}},
		},
	}))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, body := a.op.Do("GET", id, verifyAKS, nil)
		group := gjson.GetBytes(body, "properties.nodeResourceGroup").String()
		_, list := a.op.Do("GET", arm.GroupID(id.Subscription(), group)+"/providers/"+
			arm.ID(arm.TypeRouteTable), verifyNetwork, nil)
		if gjson.GetBytes(list, "value.0.properties.routes.#").Int() == 2 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the cluster gets no routes: %s", list)
		}
	}
}
