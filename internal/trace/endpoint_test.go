package trace

import (
	"net/netip"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// named is the shop with data of Kubernetes, a gateway and a machine.
func namedShop(t *testing.T) *inventory.Snapshot {
	s := shop()
	addNICs(s)
	gw := arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationGateways/shop-agw")
	s.Subnets[gateway.Key()].Gateways = []arm.ID{gw}
	vm := arm.ID("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkInterfaces/jump-nic")
	s.Interfaces[vm.Key()] = &inventory.Interface{Document: arm.Document{ID: vm},
		Machine: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/jump",
		Configs: []inventory.IPConfig{{Address: netip.MustParseAddr("10.0.3.9"), Subnet: bare}}}
	nodeList, err := inventory.DecodeNodes([]byte(`{"kind":"List","items":[
		{"kind":"Node","metadata":{"name":"n0"},"spec":{"podCIDRs":["10.244.0.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"10.0.1.4"}]}},
		{"kind":"Node","metadata":{"name":"n1"},"spec":{"podCIDRs":["10.244.1.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"10.0.1.5"}]}},
		{"kind":"Node","metadata":{"name":"n2"},"spec":{"podCIDRs":["10.244.2.0/24"]},"status":{"addresses":[{"type":"InternalIP","address":"10.0.1.6"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := inventory.DecodePods([]byte(`{"kind":"List","items":[
		{"kind":"Pod","metadata":{"namespace":"shop","name":"web-0"},"spec":{"nodeName":"n0"},"status":{"phase":"Running","podIP":"10.244.0.7"}},
		{"kind":"Pod","metadata":{"namespace":"shop","name":"web-1"},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIP":"10.244.1.9"}},
		{"kind":"Pod","metadata":{"namespace":"shop","name":"job"},"spec":{"nodeName":"n1"},"status":{"phase":"Succeeded","podIP":"10.244.1.10"}},
		{"kind":"Pod","metadata":{"namespace":"kube-system","name":"proxy"},"spec":{"nodeName":"n1","hostNetwork":true},"status":{"phase":"Running","podIP":"10.0.1.5"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	s.Kubernetes[cluster.Key()] = &inventory.Kubernetes{Nodes: nodeList, Pods: pods}
	return s
}

func TestResolve(t *testing.T) {
	for text, want := range map[string]Endpoint{
		"10.244.0.7":        {Addr: netip.MustParseAddr("10.244.0.7")},
		"::ffff:10.244.0.7": {Addr: netip.MustParseAddr("10.244.0.7")},
		"pod/shop/web-1": {Addr: netip.MustParseAddr("10.244.1.9"),
			What: "pod shop/web-1 on n1", Cluster: cluster},
		"shop/web-1": {Addr: netip.MustParseAddr("10.244.1.9"),
			What: "pod shop/web-1 on n1", Cluster: cluster},
		"pod/kube-system/proxy": {Addr: netip.MustParseAddr("10.0.1.5"),
			What: "pod kube-system/proxy on n1", Subnet: nodes},
		"node/n2": {Addr: netip.MustParseAddr("10.0.1.6"), What: "node n2", Subnet: nodes},
		"Gateway/SHOP-agw": {Addr: netip.MustParseAddr("10.0.2.4"), What: "gateway shop-agw",
			Subnet: gateway},
		"vm/jump":     {Addr: netip.MustParseAddr("10.0.3.9"), What: "vm jump", Subnet: bare},
		"vm/jump-nic": {Addr: netip.MustParseAddr("10.0.3.9"), What: "vm jump-nic", Subnet: bare},
		"subnet/v/bare": {Addr: netip.MustParseAddr("10.0.3.4"), What: "subnet v/bare",
			Subnet: bare},
	} {
		got, err := New(namedShop(t), Options{}).Resolve(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"shop":             `"shop" is not an address, expected one such as 10.244.0.7, or pod/NAMESPACE/NAME, node/NAME, gateway/NAME, vm/NAME, subnet/VNET/SUBNET`,
		"a/b/c":            `"a/b/c" is not an address, expected one such as 10.244.0.7, or pod/NAMESPACE/NAME, node/NAME, gateway/NAME, vm/NAME, subnet/VNET/SUBNET`,
		"shop/wep-1":       "no pod is named shop/wep-1: did you mean shop/web-1, shop/web-0?",
		"node/n9":          "no node is named n9: did you mean n0, n1, n2?",
		"gateway/agw":      "no gateway is named agw: did you mean shop-agw?",
		"vm/elsewhere":     "no vm is named elsewhere",
		"subnet/v/gatewat": "no subnet is named v/gatewat: did you mean v/gateway?",
		"shop/job":         "shop/job has finished: it has no address any more",
	} {
		_, err := New(namedShop(t), Options{}).Resolve(text)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := namedShop(t)
	s.Kubernetes = map[string]*inventory.Kubernetes{}
	if _, err := New(s, Options{}).Resolve("shop/web-1"); err == nil ||
		err.Error() != "shop/web-1: only Kubernetes knows pod names, which was not read: use the "+
			"pod's address" {
		t.Error(err)
	}
	// Without Kubernetes, nodes have the names of their machines.
	if got, err := New(s, Options{}).Resolve("vm/aks-np-1-vmss000001"); err != nil ||
		got.Addr.String() != "10.0.1.5" {
		t.Error(got, err)
	}
}

// TestResolveTwice: equal names are distinguished, and so are equal addresses in two
// networks.
func TestResolveTwice(t *testing.T) {
	s := namedShop(t)
	v := twin(s, "10.0.0.0/16", "10.0.2.0/24")
	tracer := New(s, Options{})
	from, err := tracer.Resolve("gateway/shop-agw")
	if err != nil {
		t.Fatal(err)
	}
	if there, _ := tracer.Ways(from, addr("10.244.1.9")); there.Verdict != Delivered {
		t.Errorf("%+v", there)
	}
	to, err := tracer.Resolve("subnet/" + v.ID.Name() + "/s")
	if err != nil {
		t.Fatal(err)
	}
	if there, _ := tracer.Ways(addr("10.0.1.4"), to); there.Verdict != Dropped ||
		there.Why != "from subnet v/nodes the address 10.0.2.4 is in v/gateway, and not in "+
			"a-twin/s" {
		t.Errorf("%+v", there)
	}
	other := arm.ID("/subscriptions/s/resourceGroups/other/providers/Microsoft.Network/applicationGateways/shop-agw")
	s.Subnets[bare.Key()].Gateways = []arm.ID{other}
	if _, err := New(s, Options{}).Resolve("gateway/shop-agw"); err == nil ||
		err.Error() != "several are named gateway/shop-agw: in other, g: use an address, or "+
			"choose one with --cluster" {
		t.Error(err)
	}
}

// TestNodes: a node is known from Kubernetes, otherwise from its routes, otherwise from its
// interface and the routes to it in other tables.
func TestNodes(t *testing.T) {
	lost := func(s *inventory.Snapshot) {
		setRoutes(s, table, s.Tables[table.Key()].Routes()[:1])
	}
	for name, tt := range map[string]struct {
		change func(*inventory.Snapshot)
		want   []string
	}{
		"by Kubernetes": {func(*inventory.Snapshot) {},
			[]string{"n0 (10.0.1.4) 10.244.0.0/24", "n1 (10.0.1.5) 10.244.1.0/24",
				"n2 (10.0.1.6) 10.244.2.0/24"}},
		"by routes": {func(s *inventory.Snapshot) {
			s.Kubernetes, s.Interfaces = nil, nil
		}, []string{"10.0.1.4 10.244.0.0/24", "10.0.1.5 10.244.1.0/24"}},
		"one route is lost, but copied": {func(s *inventory.Snapshot) {
			s.Kubernetes = nil
			lost(s)
		}, []string{"10.0.1.4 10.244.0.0/24", "10.0.1.5 10.244.1.0/24"}},
		"one route is lost": {func(s *inventory.Snapshot) {
			s.Kubernetes = nil
			lost(s)
			delete(s.Tables, copied.Key())
		}, []string{"10.0.1.4 10.244.0.0/24", "aks-np-1-vmss000001 (10.0.1.5) invalid Prefix"}},
		"one route is lost, and its node gone": {func(s *inventory.Snapshot) {
			s.Kubernetes, s.Interfaces = nil, nil
			lost(s)
		}, []string{"10.0.1.4 10.244.0.0/24"}},
	} {
		s := namedShop(t)
		s.Clusters[cluster.Key()].NodeResourceGroup = "mc"
		tt.change(s)
		var got []string
		for _, n := range Nodes(s) {
			got = append(got, n.String()+" "+n.Pods.String())
		}
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}
