package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestSurgeRoomOfPlugins: what a surge node needs depends on the network plugin, and so does what
// can run out: the node subnet, the pod subnet, or the pod CIDR.
func TestSurgeRoomOfPlugins(t *testing.T) {
	const pods = vnet + "/subnets/pods"
	at := func(plugin, mode string, used int, change func(*inventory.Cluster)) *world {
		w := guarded(t) // three nodes
		c := w.s.Clusters[clusterA.Key()]
		c.Plugin, c.PluginMode, c.Pools[0].MaxPods, c.Pools[0].MaxSurge = plugin, mode, 30, "2"
		w.subnet(nodesA, "10.240.0.0/24", hub).has(nodesA, nat, group)
		w.s.Subnet(nodesA).Used = used // of 251
		w.subnet(pods, "10.240.16.0/24", "")
		change(c)
		return w
	}
	same := func(*inventory.Cluster) {}
	toPods := func(c *inventory.Cluster) { c.Pools[0].PodSubnet = pods }
	static := func(c *inventory.Cluster) { toPods(c); c.Pools[0].StaticBlocks = true }
	narrow := func(c *inventory.Cluster) {
		c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/22")} // 4 nodes
	}
	for name, test := range map[string]struct {
		w    *world
		says string // "" if there is room
	}{
		"overlay":            {at("azure", "overlay", 249, same), ""},
		"overlay, full":      {at("azure", "overlay", 250, same), "has 1 free address, and"},
		"node subnet":        {at("azure", "", 251-62, same), ""},
		"node subnet, short": {at("azure", "", 251-61, same), "pool pool0 needs 62 for its surge"},
		"pod subnet":         {at("azure", "", 200, toPods), ""},
		"static blocks":      {at("azure", "", 200, static), ""},
		"pod CIDR": {at("azure", "overlay", 20, narrow), "pod CIDR 10.244.0.0/22 has room for 1 " +
			"more node, and the next upgrade of pool pool0 needs 2"},
	} {
		found := ""
		test.w.hostile()
		for _, f := range Make(test.w.s, test.w.configs).Findings {
			if f.Code == finding.SurgeShort {
				found += f.Message
			}
		}
		if (found == "") != (test.says == "") || !strings.Contains(found, test.says) {
			t.Errorf("%s: %q, want %q", name, found, test.says)
		}
	}
	w := at("azure", "", 200, toPods)
	w.s.Subnet(pods).Used = 251 - 95 // of two nodes, each with three batches of 16
	if p := Make(w.s, w.configs); len(p.Findings) == 0 || !strings.Contains(p.Findings[0].Message,
		"vnet/pods has 95 free addresses, and the next upgrade of pool pool0 needs 96") {
		t.Errorf("%+v", p.Findings)
	}
}

// TestSurgeRoomDuringUpgrade: surge nodes that exist hold their part of the pod CIDR, and are not
// needed again.
func TestSurgeRoomDuringUpgrade(t *testing.T) {
	const next = ", and the next upgrade of pool pool0 needs "
	for machines, says := range map[int]string{3: "room for 1 more node" + next + "2",
		4: "room for 0 more nodes" + next + "1", 5: ""} {
		w := guarded(t) // three nodes
		c := w.s.Clusters[clusterA.Key()]
		c.Pools[0].MaxSurge = "2"
		c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/22")}
		var ips []string
		for i := range machines {
			ips = append(ips, fmt.Sprintf(`{"id":"/subscriptions/%s/resourceGroups/MC_shop/providers/`+
				`Microsoft.Compute/virtualMachineScaleSets/aks-pool0-1-vmss/virtualMachines/%d/`+
				`networkInterfaces/nic/ipConfigurations/ip"}`, sub, i))
		}
		subnet, err := inventory.DecodeSubnet([]byte(fmt.Sprintf(`{"id":%q,"properties":{`+
			`"addressPrefix":"10.240.0.0/24","ipConfigurations":[%s]}}`, nodesA,
			strings.Join(ips, ","))))
		if err != nil {
			t.Fatal(err)
		}
		w.s.Subnets[nodesA.Key()] = subnet
		found := ""
		for _, f := range Make(w.s, w.configs).Findings {
			if f.Code == finding.SurgeShort {
				found += f.Message
			}
		}
		w.hostile()
		if (found == "") != (says == "") || !strings.Contains(found, says) {
			t.Errorf("%d machines: %q, want %q", machines, found, says)
		}
	}
}
