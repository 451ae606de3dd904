package emulator

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
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
	nsg := in(network.TypeNSG, names(network.TypeNSG)[0])
	if name := nsg.Name(); !strings.HasPrefix(name, "aks-agentpool-") ||
		!strings.HasSuffix(name, "-nsg") {
		t.Errorf("the security group is %s", name)
	}
	used := kernel.ListAt(kernel.ObjectAt(b.get(nsg), "properties"), "subnets")
	if len(used) != 1 || !strings.HasSuffix(kernel.Text(used[0], "id"), "/subnets/aks-subnet") {
		t.Errorf("the security group is used by %v", used)
	}
	profile := kernel.ObjectAt(b.get(cluster), "properties", "networkProfile",
		"loadBalancerProfile")
	effective := kernel.ListAt(profile, "effectiveOutboundIPs")
	outbound := arm.ID(kernel.Text(effective[0], "id"))
	ip := b.get(outbound)
	balancer := in(network.TypeLoadBalancer, "kubernetes")
	if len(effective) != 1 || kernel.Text(kernel.ObjectAt(ip, "tags"), "aks-managed-type") !=
		"aks-slb-managed-outbound-ip" || kernel.Text(kernel.ObjectAt(ip, "properties",
		"ipConfiguration"), "id") !=
		string(balancer.Child("frontendIPConfigurations", outbound.Name())) {
		t.Errorf("the nodes' address is %v", ip)
	}
	pool := func(at int) kernel.Object {
		return kernel.ObjectAt(kernel.ListAt(kernel.ObjectAt(b.get(balancer), "properties"),
			"backendAddressPools")[at], "properties")
	}
	if have := len(kernel.ListAt(pool(0), "backendIPConfigurations")); have != 2 {
		t.Errorf("%d nodes are behind the load balancer", have)
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
	if kernel.Text(kernel.ObjectAt(b.get(in(network.TypePublicIP, "kubernetes-"+base)),
		"properties"), "ipAddress") != addresses[web.UID] || addresses[web.UID] == "" ||
		len(kernel.ListAt(properties, "loadBalancingRules")) != 2 ||
		kernel.Text(kernel.ListAt(properties, "probes")[1], "name") != base+"-TCP-443" {
		t.Errorf("the service has %q by %v", addresses, properties)
	}
	if !strings.HasPrefix(addresses[inside.UID], "10.224.0.") {
		t.Errorf("the internal service has %q", addresses[inside.UID])
	}
	rules := kernel.ListAt(kernel.ObjectAt(b.get(nsg), "properties"), "securityRules")
	if len(rules) != 1 || !slices.Equal(kernel.List(kernel.ObjectAt(rules[0], "properties"),
		"destinationAddressPrefixes"), []string{addresses[web.UID]}) {
		t.Errorf("the rules are %v", rules)
	}
	b.refused(http.MethodDelete, in(network.TypePublicIP, "kubernetes-"+base), "", 400,
		"PublicIPAddressCannotBeDeleted")

	if _, err := b.e.SetServices(cluster, nil); err != nil {
		t.Fatal(err)
	}
	if ips, balancers := names(network.TypePublicIP), names(network.TypeLoadBalancer); len(
		ips) != 1 || len(balancers) != 1 ||
		len(kernel.ListAt(kernel.ObjectAt(b.get(nsg), "properties"), "securityRules")) != 0 {
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
	balancer := arm.ResourceID(sub, "MC_shop-rg_shop_westeurope", network.TypeLoadBalancer,
		"kubernetes")
	b.refused(http.MethodGet, balancer, "", 404, "ResourceNotFound")
	service := Service{Namespace: "default", Name: "web", UID: "1",
		Ports: []ServicePort{{Protocol: "TCP", Port: 80, NodePort: 30080}}}
	addresses, err := b.e.SetServices(d.Cluster, []Service{service})
	if err != nil || addresses["1"] == "" {
		t.Fatal(addresses, err)
	}
	if rules := kernel.ListAt(kernel.ObjectAt(b.get(balancer), "properties"),
		"outboundRules"); len(rules) != 0 {
		t.Errorf("it has egress: %v", rules)
	}
	if _, err := b.e.SetServices(d.Cluster, nil); err != nil {
		t.Fatal(err)
	}
	b.refused(http.MethodGet, balancer, "", 404, "ResourceNotFound")
	sets := kernel.ListAt(b.get(balancer.Group()+"/providers/"+arm.ID(arm.TypeScaleSet)), "value")
	nic := kernel.ListAt(kernel.ObjectAt(sets[0], "properties", "virtualMachineProfile",
		"networkProfile"), "networkInterfaceConfigurations")[0]
	if group := kernel.Text(kernel.ObjectAt(nic, "properties", "networkSecurityGroup"),
		"id"); !strings.HasSuffix(group, "-nsg") {
		t.Errorf("the nodes' security group is %q", group)
	}
}
