package diagnose

import (
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
)

// filtered is a healthy overlay cluster whose nodes have a security group with these rules. Its API
// server has a public name.
func filtered(t *testing.T, rules ...any) *world {
	w := healthy(t).overlay().routes(gwTable).put(securityGroup(nodesNSG, rules...))
	return w.set(shop, "fqdn", "shop-1.hcp.westeurope.azmk8s.io")
}

func deny(name, direction, protocol, from, to, ports string) object {
	return rule(name, 300, direction, "Deny", protocol, from, to, ports)
}

func allow(name string, priority int, to string) object {
	return rule(name, priority, "Outbound", "Allow", "*", "*", to, "*")
}

func TestFilterBlocksNodes(t *testing.T) {
	filtered(t).finds()
	says(t, filtered(t, deny("no-nodes", "Inbound", "*", "10.42.1.0/24", "10.42.1.0/24", "*")).
		finds(finding.FilterBlocksNodes), "rule no-nodes of network security group nodes-nsg "+
		"(inbound, priority 300) blocks node to node of cluster shop",
		"node to node: 10.42.1.4 to 10.42.1.5 (any protocol): rule no-nodes",
		"--name allow-nodes-in --priority 299 --direction Inbound --access Allow --protocol '*' "+
			"--source-address-prefixes 10.42.1.0/24 --source-port-ranges '*' "+
			"--destination-address-prefixes 10.42.1.0/24 --destination-port-ranges '*'")
	// The nodes' addresses are the pods' of Azure CNI: one finding.
	flat := filtered(t, deny("no-nodes", "Inbound", "*", "10.42.1.0/24", "10.42.1.0/24", "*"))
	delete(flat.props(shop)["networkProfile"].(object), "networkPluginMode")
	flat.finds(finding.FilterBlocksPods)
	filtered(t, deny("no-telnet", "Inbound", "Tcp", "*", "*", "23")).finds()
}

func TestFilterBlocksProbes(t *testing.T) {
	f := filtered(t, deny("no-probes", "Inbound", "*", "AzureLoadBalancer", "*", "*")).
		finds(finding.FilterBlocksProbes)
	says(t, f, "blocks load balancer probe to node of cluster shop", "168.63.129.16 to 10.42.1.4",
		"--source-address-prefixes AzureLoadBalancer --source-port-ranges '*' "+
			"--destination-address-prefixes 10.42.1.0/24 --destination-port-ranges '*'")
	says(t, filtered(t, deny("no-node-ports", "Inbound", "Tcp", "*", "*", "30000-32767")).
		finds(finding.FilterBlocksProbes), "168.63.129.16 to 10.42.1.4 (tcp port 31000)")
	filtered(t, deny("no-strangers", "Inbound", "*", "Internet", "*", "*")).finds()
	filtered(t, rule("probes", 200, "Inbound", "Allow", "Tcp", "168.63.129.16", "*", "*"),
		deny("no-node-ports", "Inbound", "Tcp", "*", "*", "30000-32767")).finds()
}

func TestFilterBlocksPublicAPI(t *testing.T) {
	f := filtered(t, deny("no-azure", "Outbound", "*", "*", "AzureCloud", "*")).
		finds(finding.FilterBlocksAPI)
	says(t, f, "rule no-azure of network security group nodes-nsg (outbound, priority 300) blocks "+
		"node to API server of cluster shop",
		"10.42.1.4 to shop-1.hcp.westeurope.azmk8s.io (tcp port 443)",
		"--name allow-api-server-out --priority 299 --direction Outbound --access Allow "+
			"--protocol Tcp --source-address-prefixes 10.42.1.0/24 --source-port-ranges '*' "+
			"--destination-address-prefixes AzureCloud.westeurope --destination-port-ranges 443")
	// Regions are parts of AzureCloud, and other services' tags are not.
	filtered(t, allow("here", 200, "AzureCloud.WestEurope"),
		deny("no-azure", "Outbound", "*", "*", "AzureCloud", "*")).finds()
	filtered(t, deny("no-sql", "Outbound", "*", "*", "Sql", "*")).finds()
	// Azure's other region may have it: not known, so nothing is claimed.
	filtered(t, deny("no-north", "Outbound", "*", "*", "AzureCloud.northeurope", "*")).finds()
	filtered(t, deny("no-range", "Outbound", "*", "*", "20.0.0.0/8", "*")).finds()
	filtered(t, deny("no-http", "Outbound", "Tcp", "*", "*", "80")).finds()
}

func TestFilterBlocksPrivateAPI(t *testing.T) {
	endpoint := nodeGroup + "/providers/Microsoft.Network/networkInterfaces/kube-apiserver.nic.1"
	private := func(rules ...any) *world {
		w := filtered(t, rules...).put(object{"id": string(endpoint), "name": endpoint.Name(),
			"properties": object{"ipConfigurations": list{object{"name": "c", "properties": object{
				"privateIPAddress": "10.42.1.200", "subnet": link(nodes)}}}}})
		return w.set(shop, "apiServerAccessProfile", object{"enablePrivateCluster": true,
			"privateDNSZone": "system"}).set(shop, "privateFQDN", "shop.privatelink.azmk8s.io")
	}
	private().finds()
	private(deny("no-azure", "Outbound", "*", "*", "AzureCloud", "*")).finds()
	says(t, private(deny("no-https", "Outbound", "Tcp", "*", "10.42.1.200", "443")).
		finds(finding.FilterBlocksAPI), "10.42.1.4 to 10.42.1.200 (tcp port 443)",
		"--destination-address-prefixes 10.42.1.200/32 --destination-port-ranges 443")
	// Groups apply to private endpoints only if the subnet says so.
	private(deny("no-endpoint", "Inbound", "Tcp", "*", "10.42.1.200", "443")).finds()

	api, apiNSG := vnet+"/subnets/api", nodesNSG.Parent().Group()+
		"/providers/Microsoft.Network/networkSecurityGroups/api-nsg"
	integrated := func(rules ...any) *world {
		w := filtered(t).put(securityGroup(apiNSG, rules...)).addSubnet(api, object{
			"addressPrefix": "10.42.9.0/28", "networkSecurityGroup": link(apiNSG)})
		return w.set(shop, "apiServerAccessProfile",
			object{"enableVnetIntegration": true, "subnetId": string(api)})
	}
	integrated().finds()
	f := integrated(deny("no-vnet", "Inbound", "Tcp", "VirtualNetwork", "*", "*")).
		finds(finding.FilterBlocksAPI)
	says(t, f, "of network security group api-nsg (inbound, priority 300) blocks node to API "+
		"server (port 443) and node to API server (port 4443) of cluster shop",
		"10.42.1.4 to 10.42.9.4 (tcp port 443)", "--protocol Tcp --source-address-prefixes "+
			"10.42.1.0/24 --source-port-ranges '*' --destination-address-prefixes 10.42.9.0/28 "+
			"--destination-port-ranges 443 4443")
	says(t, integrated(deny("no-probes", "Inbound", "*", "AzureLoadBalancer", "*", "*")).
		finds(finding.FilterBlocksAPI), "168.63.129.16 to 10.42.9.4 (port 9988)",
		"--protocol '*' --source-address-prefixes AzureLoadBalancer ",
		"--destination-port-ranges 9988")
	// One page says TCP, the other UDP: a rule for one of them proves nothing.
	integrated(deny("no-udp", "Inbound", "Udp", "AzureLoadBalancer", "*", "*")).finds()
}

func TestFilterBlocksEgress(t *testing.T) {
	noInternet := deny("no-internet", "Outbound", "*", "*", "Internet", "*")
	f := filtered(t, allow("api", 200, "AzureCloud.westeurope"), noInternet).muted(
		finding.FilterBlocksAPI).finds()
	if f.Code != "" {
		t.Error("AzureCloud may hold what AKS requires, but a finding says that it does not")
	}
	f = filtered(t, noInternet).muted(finding.FilterBlocksAPI).finds(finding.FilterBlocksEgress)
	says(t, f, "rule no-internet of network security group nodes-nsg (outbound, priority 300) "+
		"blocks egress to 7 required destinations of cluster shop",
		"node to mcr.microsoft.com:443: 10.42.1.4 to mcr.microsoft.com (tcp port 443)",
		"--name allow-egress-out --priority 298 --direction Outbound --access Allow --protocol "+
			"Tcp --source-address-prefixes 10.42.1.0/24 --source-port-ranges '*' "+
			"--destination-address-prefixes Internet --destination-port-ranges 443")
	// Tags of services that are not required do not help.
	f = filtered(t, allow("login", 200, "AzureActiveDirectory"), allow("api", 201, "AzureMonitor"),
		noInternet).muted(finding.FilterBlocksAPI).finds(finding.FilterBlocksEgress)
	says(t, f, "node to mcr.microsoft.com:443:")
	if strings.Contains(strings.Join(f.Evidence, " "), "login.microsoftonline.com") ||
		strings.Contains(strings.Join(f.Evidence, " "), "packages.microsoft.com") {
		t.Errorf("%q: the tag of Entra ID is allowed, and that of packages is unknown", f.Evidence)
	}
	// Clusters that are isolated need none of it.
	filtered(t, noInternet).profile("outboundType", "none").muted(finding.FilterBlocksAPI).finds()

	// The network's own DNS servers.
	dns := filtered(t, deny("no-dns", "Outbound", "Udp", "*", "10.42.77.0/24", "53"))
	dns.set(vnet, "dhcpOptions", object{"dnsServers": list{"10.42.77.4"}})
	says(t, dns.finds(finding.FilterBlocksEgress), "blocks node to 10.42.77.4:53/udp of cluster "+
		"shop", "--protocol Udp --source-address-prefixes 10.42.1.0/24 --source-port-ranges '*' "+
		"--destination-address-prefixes 10.42.77.4/32 --destination-port-ranges 53")

	// A default route makes the tags Internet and VirtualNetwork overlap, so only a rule for all
	// addresses is certain.
	routed := func(rules ...any) *world {
		return filtered(t, rules...).routes(shopTable, route("out", "0.0.0.0/0",
			"VirtualAppliance", "10.42.3.4")).muted(finding.FilterBlocksAPI).muted(
			finding.EgressDiffers)
	}
	routed(noInternet).finds()
	says(t, routed(deny("no-https", "Outbound", "Tcp", "*", "*", "443")).finds(
		finding.FilterBlocksEgress), "--destination-address-prefixes '*' ")
}
