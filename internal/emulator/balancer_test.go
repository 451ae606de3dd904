package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestNodeGroup: the node resource group has what AKS makes for the nodes' egress, and what the
// cloud provider makes for services. Each ID that a document names exists.
func TestNodeGroup(t *testing.T) {
	b := newBench(t, Options{})
	cluster := group + "/providers/" + arm.ID(arm.TypeCluster) + "/c"
	b.put(cluster, `{"location":"westeurope","identity":{"type":"SystemAssigned"},"properties":{
		"networkProfile":{"networkPlugin":"kubenet"},
		"agentPoolProfiles":[{"name":"np","count":2,"mode":"System"}]}}`)
	nodeGroup := arm.GroupID(sub, "MC_net-rg_c_westeurope")
	in := func(resourceType, name string) arm.ID {
		return arm.ResourceID(sub, nodeGroup.Name(), resourceType, name)
	}
	names := func(resourceType string) (out []string) {
		for _, o := range kernel.ListAt(b.get(nodeGroup+"/providers/"+arm.ID(resourceType)),
			"value") {
			out = append(out, kernel.Text(o, "name"))
		}
		return out
	}
	nsg := in(arm.TypeSecurityGroup, names(arm.TypeSecurityGroup)[0])
	if name := nsg.Name(); !strings.HasPrefix(name, "aks-agentpool-") ||
		!strings.HasSuffix(name, "-nsg") {
		t.Errorf("the security group is %s", name)
	}
	used := kernel.ListAt(b.get(nsg), "properties", "subnets")
	if len(used) != 1 || !strings.HasSuffix(kernel.Text(used[0], "id"), "/subnets/aks-subnet") {
		t.Errorf("the security group is used by %v", used)
	}
	profile := kernel.ObjectAt(b.get(cluster), "properties", "networkProfile",
		"loadBalancerProfile")
	effective := kernel.ListAt(profile, "effectiveOutboundIPs")
	outbound := arm.ID(kernel.Text(effective[0], "id"))
	ip := b.get(outbound)
	balancer := in(arm.TypeLoadBalancer, "kubernetes")
	if len(effective) != 1 || kernel.Text(ip, "tags", "aks-managed-type") !=
		"aks-slb-managed-outbound-ip" || kernel.Text(ip, "properties",
		"ipConfiguration", "id") !=
		string(balancer.Child("frontendIPConfigurations", outbound.Name())) {
		t.Errorf("the nodes' address is %v", ip)
	}
	pool := func(at int) kernel.Object {
		return kernel.ObjectAt(kernel.ListAt(b.get(balancer), "properties",
			"backendAddressPools")[at], "properties")
	}
	if have := len(kernel.ListAt(pool(0), "backendIPConfigurations")); have != 2 {
		t.Errorf("%d nodes are behind the load balancer", have)
	}
	behind := arm.ID(kernel.Text(kernel.ListAt(pool(0), "backendIPConfigurations")[0], "id"))
	configurations := kernel.ListAt(b.get(behind.Parent()), "properties", "ipConfigurations")
	if in := kernel.ListAt(configurations[0], "properties",
		"loadBalancerBackendAddressPools"); len(in) != 2 || kernel.Text(in[0], "id") !=
		string(balancer.Child("backendAddressPools", "kubernetes")) {
		t.Errorf("a node's interface is in the pools %v", in)
	}
	if rules := kernel.ListAt(pool(1), "outboundRules"); len(rules) != 1 {
		t.Errorf("the pool's egress is %v", rules)
	}
	if err := b.e.Scale(cluster, "np", 3); err != nil {
		t.Fatal(err)
	}
	if have := len(kernel.ListAt(pool(0), "backendIPConfigurations")); have != 3 {
		t.Errorf("after scaling, %d nodes are behind the load balancer", have)
	}

	web := Service{Namespace: "default", Name: "web", UID: "8f133f1e-3cba-4f27-af56-e388ef212e2c",
		Ports: []ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080},
			{Protocol: "TCP", Port: 443, NodePort: 30443}}}
	const base = "a8f133f1e3cba4f27af56e388ef212e2"
	inside := Service{Namespace: "default", Name: "db", UID: "2", Internal: true,
		Ports: []ServicePort{{Protocol: "UDP", Port: 53, NodePort: 30053}}}
	addresses, err := b.e.SetServices(cluster, []Service{web, inside})
	if err != nil {
		t.Fatal(err)
	}
	properties := kernel.ObjectAt(b.get(balancer), "properties")
	if kernel.Text(b.get(in(arm.TypePublicIP, "kubernetes-"+base)),
		"properties", "ipAddress") != addresses[web.UID] || addresses[web.UID] == "" ||
		len(kernel.ListAt(properties, "loadBalancingRules")) != 2 ||
		kernel.Text(kernel.ListAt(properties, "probes")[1], "name") != base+"-TCP-443" {
		t.Errorf("the service has %q by %v", addresses, properties)
	}
	if !strings.HasPrefix(addresses[inside.UID], "10.224.0.") {
		t.Errorf("the internal service has %q", addresses[inside.UID])
	}
	rules := kernel.ListAt(b.get(nsg), "properties", "securityRules")
	if len(rules) != 1 || !slices.Equal(kernel.List(rules[0], "properties",
		"destinationAddressPrefixes"), []string{addresses[web.UID]}) {
		t.Errorf("the rules are %v", rules)
	}
	b.refused(http.MethodDelete, in(arm.TypePublicIP, "kubernetes-"+base), "", 400,
		"PublicIPAddressCannotBeDeleted")

	if _, err := b.e.SetServices(cluster, nil); err != nil {
		t.Fatal(err)
	}
	if ips, balancers := names(arm.TypePublicIP), names(arm.TypeLoadBalancer); len(
		ips) != 1 || len(balancers) != 1 ||
		len(kernel.ListAt(b.get(nsg), "properties", "securityRules")) != 0 {
		t.Errorf("without services there are %v and %v", ips, balancers)
	}
	if status, code := b.try(http.MethodDelete, cluster, "2025-10-01", ""); status != 204 {
		t.Fatalf("DELETE of the cluster: %d %s", status, code)
	}
	if status, _ := b.try(http.MethodGet, balancer, api, ""); status != 404 {
		t.Errorf("after the cluster, its load balancer: %d", status)
	}
}

// TestNodeGroupOfRouting: without egress by AKS, only services make a load balancer
// (learn.microsoft.com/azure/aks/egress-outboundtype). The nodes' interfaces have AKS's security
// group in a network that was there before.
func TestNodeGroupOfRouting(t *testing.T) {
	b := newBench(t, Options{})
	d, err := BuildDemo(b.e, DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	balancer := arm.ResourceID(sub, "MC_shop-rg_shop_westeurope", arm.TypeLoadBalancer,
		"kubernetes")
	b.refused(http.MethodGet, balancer, "", 404, "ResourceNotFound")
	service := Service{Namespace: "default", Name: "web", UID: "1",
		Ports: []ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}}}
	addresses, err := b.e.SetServices(d.Cluster, []Service{service})
	if err != nil || addresses["1"] == "" {
		t.Fatal(addresses, err)
	}
	if rules := kernel.ListAt(b.get(balancer), "properties", "outboundRules"); len(rules) != 0 {
		t.Errorf("it has egress: %v", rules)
	}
	if _, err := b.e.SetServices(d.Cluster, nil); err != nil {
		t.Fatal(err)
	}
	b.refused(http.MethodGet, balancer, "", 404, "ResourceNotFound")
	sets := kernel.ListAt(b.get(balancer.Group()+"/providers/"+arm.ID(arm.TypeScaleSet)), "value")
	nic := kernel.ListAt(sets[0], "properties", "virtualMachineProfile",
		"networkProfile", "networkInterfaceConfigurations")[0]
	if group := kernel.Text(nic, "properties", "networkSecurityGroup",
		"id"); !strings.HasSuffix(group, "-nsg") {
		t.Errorf("the nodes' security group is %q", group)
	}
}

// TestBackendPool: a load balancer's pool shows the interfaces that name it, while they do.
func TestBackendPool(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	balancer := arm.ResourceID(sub, group.Name(), arm.TypeLoadBalancer, "lb")
	b.put(balancer, `{"location":"westeurope","properties":{"backendAddressPools":[{"name":"p"}]}}`)
	shown := func() int {
		pool := kernel.ListAt(b.properties(balancer), "backendAddressPools")[0]
		return len(kernel.ListAt(pool, "properties", "backendIPConfigurations"))
	}
	in := strings.TrimSuffix(ipConfiguration("c", "a", ""), "}}") +
		`,"loadBalancerBackendAddressPools":[{"id":"` + string(balancer) +
		`/backendAddressPools/P"}]}}`
	b.put(nic, nicBody(in))
	if shown() != 1 {
		t.Errorf("the pool shows %d of 1 interface", shown())
	}
	b.put(nic, nicBody(ipConfiguration("c", "a", "")))
	if shown() != 0 {
		t.Errorf("the pool shows an interface that has left it")
	}
	b.put(nic, nicBody(in))
	b.delete(nic)
	if shown() != 0 {
		t.Errorf("the pool shows an interface that is gone")
	}
}

// TestTooManyAddresses: AKS makes no more than 16 addresses for a NAT gateway, and 100 for a load
// balancer. A client that asks for a billion is refused at once.
func TestTooManyAddresses(t *testing.T) {
	b := newBench(t, Options{})
	for profile, counts := range map[string][]int{
		`"outboundType":"managedNATGateway","natGatewayProfile":{"managedOutboundIPProfile"`: {
			0, 17, 1_000_000_000},
		`"outboundType":"loadBalancer","loadBalancerProfile":{"managedOutboundIPs"`: {
			-1, 101, 1_000_000_000},
	} {
		for _, count := range counts {
			status, code := b.try(http.MethodPut,
				group+"/providers/"+arm.ID(arm.TypeCluster)+"/c", "2025-10-01", fmt.Sprintf(
					`{"location":"westeurope","identity":{"type":"SystemAssigned"},"properties":{
					"networkProfile":{"networkPlugin":"kubenet",%s:{"count":%d}}},
					"agentPoolProfiles":[{"name":"np","count":1,"mode":"System"}]}}`, profile,
					count))
			if status != http.StatusBadRequest {
				t.Errorf("%s %d: %d %s", profile, count, status, code)
			}
		}
	}
}

// TestManagedNATGateway: a cluster with managedNATGateway has a NAT gateway with as many addresses
// as it asks for on AKS's own subnet, until it gets another outbound type.
func TestManagedNATGateway(t *testing.T) {
	b := newBench(t, Options{})
	cluster := group + "/providers/" + arm.ID(arm.TypeCluster) + "/c"
	put := func(outbound string, count int) {
		b.put(cluster, fmt.Sprintf(`{"location":"westeurope","identity":{"type":"SystemAssigned"},
			"properties":{"networkProfile":{"networkPlugin":"kubenet","outboundType":%q,
			"natGatewayProfile":{"managedOutboundIPProfile":{"count":%d}}},
			"agentPoolProfiles":[{"name":"np","count":1,"mode":"System"}]}}`, outbound, count))
	}
	in := arm.GroupID(sub, "MC_net-rg_c_westeurope") + "/providers/"
	count := func(resourceType string) int {
		return len(kernel.ListAt(b.get(in+arm.ID(resourceType)), "value"))
	}
	for _, addresses := range []int{2, 1} {
		put("managedNATGateway", addresses)
		gateways := kernel.ListAt(b.get(in+arm.TypeNATGateway), "value")
		if len(gateways) != 1 || count(arm.TypePublicIP) != addresses ||
			count(arm.TypeLoadBalancer) != 0 {
			t.Fatalf("%d gateways, %d addresses, want %d", len(gateways),
				count(arm.TypePublicIP), addresses)
		}
		p := kernel.ObjectAt(gateways[0], "properties")
		if len(kernel.ListAt(p, "subnets")) != 1 ||
			len(kernel.ListAt(p, "publicIpAddresses")) != addresses {
			t.Errorf("the gateway is %v", p)
		}
		profile := kernel.ObjectAt(b.properties(cluster), "networkProfile", "natGatewayProfile")
		if shown := kernel.ListAt(profile, "effectiveOutboundIPs"); len(shown) != addresses ||
			b.get(arm.ID(kernel.Text(shown[0], "id"))) == nil {
			t.Errorf("the cluster shows %v", shown)
		}
	}
	put("loadBalancer", 1)
	if count(arm.TypeNATGateway) != 0 || count(arm.TypePublicIP) != 1 ||
		count(arm.TypeLoadBalancer) != 1 {
		t.Errorf("%d NAT gateways, %d addresses", count(arm.TypeNATGateway),
			count(arm.TypePublicIP))
	}
	if status, code := b.try(http.MethodDelete, cluster, "2025-10-01", ""); status != 204 {
		t.Fatalf("DELETE of the cluster: %d %s", status, code)
	}
}
