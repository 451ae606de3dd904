package emulator

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestNetworkPolicyPods: the API server shows the agents of the engine that enforces network
// policies, one on each node, with the node's address.
func TestNetworkPolicyPods(t *testing.T) {
	const overlay = `,"networkPlugin":"azure","networkPluginMode":"overlay"`
	for _, tt := range []struct {
		profile   string
		engine    string // its agent
		kubeProxy bool
	}{
		{``, "", true},
		{`,"networkPolicy":"none"`, "", true},
		{`,"networkPolicy":"calico"`, "calico-system/calico-node", true},
		{overlay + `,"networkPolicy":"azure"`, "kube-system/azure-npm", true},
		{overlay + `,"networkPolicy":"cilium","networkDataplane":"cilium"`, "kube-system/cilium",
			false},
		{overlay + `,"networkDataplane":"cilium"`, "kube-system/cilium", false},
	} {
		b := withNetwork(t, Options{})
		b.put(aksID, clusterBody(tt.profile, `,"count":3`))
		nodes, pods := b.kubernetes(aksID)
		engines := []string{"calico-system/calico-node", "kube-system/azure-npm",
			"kube-system/cilium"}
		count := map[string]int{}
		for _, p := range pods {
			name := p.Namespace + "/" + p.Name[:strings.LastIndex(p.Name, "-")]
			count[name]++
			if !slices.Contains(engines, name) {
				continue
			}
			for _, n := range nodes {
				if n.Name == p.Node && (!p.HostNetwork || len(p.Addresses) == 0 ||
					!slices.Contains(n.Addresses, p.Addresses[0])) {
					t.Errorf("%s: %s has %v, its node %v", tt.profile, p.Name, p.Addresses,
						n.Addresses)
				}
			}
		}
		for _, engine := range engines {
			if want := map[bool]int{true: 3}[engine == tt.engine]; count[engine] != want {
				t.Errorf("%s: %d pods of %s, want %d", tt.profile, count[engine], engine, want)
			}
		}
		if (count["kube-system/kube-proxy"] == 3) != tt.kubeProxy {
			t.Errorf("%s: %d of kube-proxy", tt.profile, count["kube-system/kube-proxy"])
		}
	}
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(overlay, ``))
	b.must(t, http.MethodPut, aksID.Child("agentPools", "win"),
		`{"properties":{"osType":"Windows","vnetSubnetID":"`+string(vnet)+`/subnets/a"}}`)
}
