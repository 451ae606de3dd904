package aks

import (
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// How it works. AKS makes a security group for the nodes. For their egress it makes a load balancer
// with a public IP address if the outbound type is loadBalancer (recorded: lists of a subscription
// with clusters), and a NAT gateway if it is managedNATGateway. The cloud provider adds the
// services of type LoadBalancer: a public IP address, a frontend, and for each port a rule, a probe
// and a security rule. Internal services are in a load balancer of their own
// (pkg/provider/azure_loadbalancer.go in cloud-provider-azure). Changes that others make to the
// load balancers do not stay.

// Service is a Kubernetes service of type LoadBalancer.
type Service struct {
	Namespace, Name, UID string
	Internal             bool
	// Sources are the ranges that may call it; none: everything.
	Sources []string
	Ports   []ServicePort
}

// ServicePort is a port of a service; NodePort is where the nodes answer the probe.
type ServicePort struct {
	Protocol       string
	Port, NodePort int
}

// The load balancers of a cluster. The first one is for egress as well.
const (
	publicBalancer   = "kubernetes"
	internalBalancer = "kubernetes-internal"
)

// namePrefix returns the beginning of the names of everything that is made for the service.
func (v Service) namePrefix() string {
	return ("a" + strings.ReplaceAll(v.UID, "-", "") + strings.Repeat("0", 32))[:32]
}

// securityGroup returns the security group that AKS makes for the nodes.
func (cl *cluster) securityGroup() arm.ID {
	return cl.inNodeGroup(arm.TypeSecurityGroup, "aks-agentpool-"+cl.Digits+"-nsg")
}

func (cl *cluster) inNodeGroup(resourceType, name string) arm.ID {
	return arm.ResourceID(cl.ID.Subscription(), cl.NodeGroup.Name(), resourceType, name)
}

// outbound returns the public IP addresses of the nodes' egress through the load balancer, and how
// many of them AKS makes.
func (cl *cluster) outbound(profile kernel.Object) (ids []arm.ID, managed int) {
	if kernel.Text(profile, "outboundType") != "loadBalancer" ||
		!strings.EqualFold(kernel.Text(profile, "loadBalancerSku"), "standard") {
		return nil, 0
	}
	asked := kernel.ObjectAt(profile, "loadBalancerProfile")
	if asked["outboundIPPrefixes"] != nil {
		return nil, 0 // not known here: the addresses that AKS takes from a prefix
	}
	for _, ip := range kernel.ListAt(asked, "outboundIPs", "publicIPs") {
		ids = append(ids, arm.ID(kernel.Text(ip, "id")))
	}
	if ids != nil {
		return ids, 0
	}
	ids = cl.managedAddresses("outbound", kernel.NumberOf(asked, "managedOutboundIPs", "count"))
	return ids, len(ids)
}

// managedAddresses returns the public IP addresses that AKS makes, at least one.
func (cl *cluster) managedAddresses(what string, count int) (ids []arm.ID) {
	for i := range max(1, count) {
		ids = append(ids,
			cl.inNodeGroup(arm.TypePublicIP, kernel.GuidOf(fmt.Sprint(what, i), cl.ID)))
	}
	return ids
}

// tags returns the tags of what AKS makes for the nodes' egress.
func (cl *cluster) tags() kernel.Object {
	return kernel.Object{"aks-managed-cluster-name": cl.ID.Name(),
		"aks-managed-cluster-rg": cl.ID.ResourceGroup()}
}

// balancers are what connects the clusters' nodes with the internet.
type balancers struct{ *AKS }

// balanced returns the IP configurations of the nodes behind a cluster's load balancer.
func (s balancers) balanced(balancer arm.ID) (out []arm.ID) {
	cl := s.nodeGroups[balancer.Group().Key()]
	if cl == nil || balancer.Name() != publicBalancer && balancer.Name() != internalBalancer {
		return nil
	}
	for p, n := range cl.nodes() {
		out = append(out, p.configuration(n, 0))
	}
	return out
}

// balance makes the load balancers and public IP addresses of a cluster and its services.
func (s balancers) balance(cl *cluster, profile kernel.Object) *kernel.Failure {
	if f := s.updateNATGateway(cl, profile); f != nil {
		return f
	}
	ips, managed := cl.outbound(profile)
	for _, id := range ips[:managed] {
		owned := cl.tags()
		owned["aks-managed-type"] = "aks-slb-managed-outbound-ip"
		if f := s.publicIP(cl, id, owned, 30); f != nil {
			return f
		}
	}
	outbound := len(ips)
	var public, internal []Service
	for _, v := range cl.Services {
		if v.Internal {
			internal = append(internal, v)
			continue
		}
		public = append(public, v)
		id := cl.inNodeGroup(arm.TypePublicIP, publicBalancer+"-"+v.namePrefix())
		ips = append(ips, id)
		if f := s.publicIP(cl, id, kernel.Object{"k8s-azure-cluster-name": "kubernetes",
			"k8s-azure-service": v.Namespace + "/" + v.Name}, 4); f != nil {
			return f
		}
	}
	was := cl.Addresses
	cl.Addresses = ips
	body := cl.balancer(publicBalancer, public)
	body["tags"] = cl.tags()
	addOutbound(body, cl.inNodeGroup(arm.TypeLoadBalancer, publicBalancer), ips[:outbound],
		kernel.ObjectAt(profile, "loadBalancerProfile"))
	if f := s.storeBalancer(cl, publicBalancer, body); f != nil {
		return f
	}
	if f := s.storeBalancer(cl, internalBalancer,
		cl.balancer(internalBalancer, internal)); f != nil {
		return f
	}
	for _, id := range was {
		if r := s.kernel.Store.Get(id); r != nil && id.Group().Equal(cl.NodeGroup) &&
			!slices.ContainsFunc(ips, id.Equal) {
			if f := s.kernel.RemoveResource(r); f != nil {
				return f
			}
		}
	}
	return s.openPorts(cl)
}

// publicIP makes a public IP address, unless it exists.
func (s balancers) publicIP(cl *cluster, id arm.ID, tags kernel.Object, idle int) *kernel.Failure {
	return s.createMissing(cl, id, kernel.Object{"sku": kernel.Object{"name": "Standard"},
		"tags": tags, "properties": kernel.Object{"publicIPAllocationMethod": "Static",
			"idleTimeoutInMinutes": idle}})
}

// balancer returns a load balancer for services.
func (cl *cluster) balancer(name string, services []Service) kernel.Object {
	id := cl.inNodeGroup(arm.TypeLoadBalancer, name)
	var frontends, rules, probes []any
	for _, v := range services {
		frontend := kernel.Object{"subnet": arm.Link(cl.Pools[0].Subnet)}
		if !v.Internal {
			frontend = kernel.Object{"publicIPAddress": arm.Link(
				cl.inNodeGroup(arm.TypePublicIP, publicBalancer+"-"+v.namePrefix()))}
		}
		frontends = append(frontends, kernel.Object{"name": v.namePrefix(), "properties": frontend})
		link := func(list, name string) kernel.Object {
			return arm.Link(id.Child(list, name))
		}
		for _, port := range v.Ports {
			called := fmt.Sprintf("%s-%s-%d", v.namePrefix(), port.Protocol, port.Port)
			rule := kernel.Object{"protocol": spelledProtocol(port.Protocol),
				"frontendPort": port.Port, "backendPort": port.Port, "enableFloatingIP": true,
				"disableOutboundSnat": true, "loadDistribution": "Default",
				"idleTimeoutInMinutes":    4,
				"frontendIPConfiguration": link("frontendIPConfigurations", v.namePrefix()),
				"backendAddressPool":      link("backendAddressPools", "kubernetes")}
			if port.Protocol == "TCP" { // there is no probe by UDP
				rule["enableTcpReset"], rule["probe"] = true, link("probes", called)
				probes = append(probes, kernel.Object{"name": called,
					"properties": kernel.Object{"protocol": "Tcp", "port": port.NodePort,
						"intervalInSeconds": 5, "numberOfProbes": 2}})
			}
			rules = append(rules, kernel.Object{"name": called, "properties": rule})
		}
	}
	return kernel.Object{"sku": kernel.Object{"name": "Standard"},
		"properties": kernel.Object{"frontendIPConfigurations": frontends,
			"backendAddressPools": []any{kernel.Object{"name": "kubernetes"}},
			"loadBalancingRules":  rules, "probes": probes}}
}

func spelledProtocol(protocol string) string {
	if protocol == "UDP" {
		return "Udp"
	}
	return "Tcp"
}

// addOutbound adds the nodes' egress to a load balancer.
func addOutbound(body kernel.Object, id arm.ID, ips []arm.ID, asked kernel.Object) {
	if len(ips) == 0 {
		return
	}
	p := kernel.ObjectAt(body, "properties")
	var frontends, links []any
	for _, ip := range ips {
		frontends = append(frontends, kernel.Object{"name": ip.Name(), "properties": kernel.Object{
			"publicIPAddress": arm.Link(ip)}})
		links = append(links, arm.Link(id.Child("frontendIPConfigurations", ip.Name())))
	}
	services, _ := p["frontendIPConfigurations"].([]any)
	pools, _ := p["backendAddressPools"].([]any)
	const pool = "aksOutboundBackendPool"
	p["frontendIPConfigurations"] = append(frontends, services...)
	p["backendAddressPools"] = append(pools, kernel.Object{"name": pool})
	p["outboundRules"] = []any{kernel.Object{"name": "aksOutboundRule", "properties": kernel.Object{
		"allocatedOutboundPorts": kernel.NumberOf(asked, "allocatedOutboundPorts"),
		"idleTimeoutInMinutes":   cmp.Or(kernel.NumberOf(asked, "idleTimeoutInMinutes"), 30),
		"protocol":               "All", "enableTcpReset": true,
		"frontendIPConfigurations": links,
		"backendAddressPool":       arm.Link(id.Child("backendAddressPools", pool)),
	}}}
}

// storeBalancer writes a load balancer that has changed, or removes one without frontends.
func (s balancers) storeBalancer(cl *cluster, name string, body kernel.Object) *kernel.Failure {
	id := cl.inNodeGroup(arm.TypeLoadBalancer, name)
	r := s.kernel.Store.Get(id)
	if len(kernel.ListAt(body, "properties", "frontendIPConfigurations")) == 0 {
		delete(cl.written, name)
		if r == nil {
			return nil
		}
		return s.kernel.RemoveResource(r)
	}
	return s.store(cl, id, body)
}

// store writes a resource of a cluster if it differs from what was written last.
func (s balancers) store(cl *cluster, id arm.ID, body kernel.Object) *kernel.Failure {
	text := string(kernel.Encode(body))
	if s.kernel.Store.Get(id) != nil && cl.written[id.Name()] == text {
		return nil
	}
	if f := s.aksPut(cl, id, body); f != nil {
		return f
	}
	if cl.written == nil {
		cl.written = map[string]string{}
	}
	cl.written[id.Name()] = text
	for p, n := range cl.nodes() { // their interfaces show the load balancers
		s.kernel.Store.Touch(p.nic(n))
	}
	return nil
}

// ruleBase begins the names of the cloud provider's security rules.
const ruleBase = "k8s-azure-lb_allow_IPv4_"

// openPorts writes the cloud provider's rules of the nodes' security group: one for all services
// with the same protocol, ports and sources. The rules of others stay.
func (s balancers) openPorts(cl *cluster) *kernel.Failure {
	r := s.kernel.Store.Get(cl.securityGroup())
	if r == nil {
		return nil
	}
	all := kernel.ListAt(r.Properties(), "securityRules")
	kept := slices.DeleteFunc(slices.Clone(all), func(rule kernel.Object) bool {
		return strings.HasPrefix(kernel.Text(rule, "name"), ruleBase)
	})
	taken := map[int]bool{}
	for _, rule := range kept {
		taken[kernel.NumberOf(rule, "properties", "priority")] = true
	}
	rules := map[string]kernel.Object{}
	var order []string
	for _, v := range cl.Services {
		sources := v.Sources
		if len(sources) == 0 {
			if v.Internal { // the default rules admit calls from the network
				continue
			}
			sources = []string{"Internet"}
		}
		for _, protocol := range []string{"TCP", "UDP"} {
			var ports []string
			for _, port := range v.Ports {
				if port.Protocol == protocol {
					ports = append(ports, fmt.Sprint(port.Port))
				}
			}
			if ports == nil {
				continue
			}
			slices.Sort(ports)
			sum := md5.Sum([]byte(strings.Join(append(append([]string{protocol}, sources...),
				ports...), ",")))
			name := ruleBase + hex.EncodeToString(sum[:])
			if rules[name] == nil {
				order = append(order, name)
				rules[name] = kernel.Object{"protocol": spelledProtocol(protocol),
					"sourcePortRange": "*", "access": "Allow", "direction": "Inbound",
					"destinationPortRanges": kernel.Items(ports)}
				if len(sources) == 1 {
					rules[name]["sourceAddressPrefix"] = sources[0]
				} else {
					rules[name]["sourceAddressPrefixes"] = kernel.Items(sources)
				}
			}
			to, _ := rules[name]["destinationAddressPrefixes"].([]any)
			rules[name]["destinationAddressPrefixes"] = append(to, s.addressOf(cl, v))
		}
	}
	if len(order) == 0 && len(kept) == len(all) {
		return nil
	}
	priority := 500
	out := kernel.Items(kept)
	for _, name := range order {
		for taken[priority] {
			priority++
		}
		taken[priority] = true
		rules[name]["priority"] = priority
		out = append(out, kernel.Object{"name": name, "properties": rules[name]})
	}
	body := kernel.Clone(r.Body)
	kernel.ObjectAt(body, "properties")["securityRules"] = out
	return s.aksPut(cl, r.ID, body)
}

// addressOf returns the address of a service, "" while it has none.
func (s balancers) addressOf(cl *cluster, v Service) string {
	if !v.Internal {
		if r := s.kernel.Store.Get(cl.inNodeGroup(arm.TypePublicIP,
			publicBalancer+"-"+v.namePrefix())); r != nil {
			return kernel.Text(r.Properties(), "ipAddress")
		}
		return ""
	}
	if r := s.kernel.Store.Get(cl.inNodeGroup(arm.TypeLoadBalancer,
		internalBalancer)); r != nil {
		frontends := kernel.ListAt(r.Properties(), "frontendIPConfigurations")
		return kernel.Text(kernel.Named(frontends, v.namePrefix()), "properties",
			"privateIPAddress")
	}
	return ""
}

// SetServices sets a cluster's services of type LoadBalancer, as the cloud provider does, and
// returns the address of each by the service's UID.
func (s *APIServers) SetServices(id arm.ID, services []Service) (map[string]string, error) {
	defer s.kernel.Lock()()
	s.kernel.Happen()
	cl, r := s.Clusters[id.Key()], s.kernel.Store.Get(id)
	if cl == nil || r == nil {
		return nil, fmt.Errorf("no cluster %s", id)
	}
	if !reflect.DeepEqual(cl.Services, services) {
		was := cl.Services
		cl.Services = services
		s.kernel.Store.Changed(r)
		if f := (balancers{s.AKS}).balance(cl,
			kernel.ObjectAt(r.Body, "properties", "networkProfile")); f != nil {
			cl.Services = was // so that the next call tries again
			return nil, fmt.Errorf("%s: %s", f.Code, f.Message)
		}
	}
	addresses := map[string]string{}
	for _, v := range services {
		addresses[v.UID] = balancers{s.AKS}.addressOf(cl, v)
	}
	return addresses, nil
}
