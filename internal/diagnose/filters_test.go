package diagnose

import (
	"fmt"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
)

// rule is one of a network security group: allow or deny.
func rule(name string, priority int, direction, access, protocol, from, to, ports string) object {
	return object{"name": name, "properties": object{"priority": priority, "direction": direction,
		"access": access, "protocol": protocol,
		"sourceAddressPrefix": from, "destinationAddressPrefix": to, "sourcePortRange": "*",
		"destinationPortRange": ports}}
}

const (
	appgwNSG = netGroup + "/providers/Microsoft.Network/networkSecurityGroups/appgw-nsg"
	nicNSG   = nodeGroup +
		"/providers/Microsoft.Network/networkSecurityGroups/aks-agentpool-12345678-nsg"
)

func TestFilterBlocksPods(t *testing.T) {
	nodesWith := func(rules ...any) *world {
		return healthy(t).put(securityGroup(nodesNSG, rules...))
	}
	denyAll := rule("deny-all", 4000, "Inbound", "Deny", "*", "*", "*", "*")
	onlyVNet := rule("vnet-in", 200, "Inbound", "Allow", "*", "10.42.0.0/16", "*", "*")

	f := nodesWith(onlyVNet, denyAll).finds(finding.FilterBlocksPods, finding.FilterBlocksProbes)
	says(t, f, "rule deny-all of network security group nodes-nsg (inbound, priority 4000) "+
		"blocks pod to pod of cluster shop", "pod to pod: 10.244.0.4 to 10.244.1.4",
		"az network nsg rule create --subscription "+sub+" --resource-group net-rg --nsg-name "+
			"nodes-nsg --name allow-pods-in --priority 3999 --direction Inbound --access Allow "+
			"--protocol '*' --source-address-prefixes 10.244.0.0/16 --source-port-ranges '*' "+
			"--destination-address-prefixes 10.244.0.0/16 ")
	f = nodesWith(denyAll).finds(finding.FilterBlocksPods, finding.FilterBlocksNodes,
		finding.FilterBlocksProbes)
	says(t, f, "blocks pod to pod and node to pod and gateway to pod of cluster shop",
		"--source-address-prefixes 10.42.1.0/24 10.42.2.0/24 10.244.0.0/16 ")
	says(t, nodesWith(rule("no-pods-out", 300, "Outbound", "Deny", "*", "10.244.0.0/16", "*", "*")).
		finds(finding.FilterBlocksPods), "(outbound, priority 300)", "--name allow-pods-out "+
		"--priority 299 --direction Outbound")
	says(t, nodesWith(rule("no-tcp", 300, "Inbound", "Deny", "Tcp", "10.244.0.0/16", "*", "*")).
		finds(finding.FilterBlocksPods), "10.244.0.4 to 10.244.1.4 (tcp)")
	says(t, nodesWith(rule("no-dns", 300, "Inbound", "Deny", "Udp", "10.244.0.0/16", "*", "53")).
		finds(finding.FilterBlocksPods), "(udp port 53)")
	// One node is enough.
	says(t, nodesWith(rule("no-third", 300, "Inbound", "Deny", "*", "*", nodePods(2), "*")).finds(
		finding.FilterBlocksPods), "to 10.244.2.4")

	// Not found: traffic allowed before the deny rule, a deny rule after an allow rule, ports that
	// may be intended. The tag VirtualNetwork also holds the address of the probes.
	nodesWith(rule("pods", 100, "Inbound", "Allow", "*", "10.244.0.0/16", "10.244.0.0/16", "*"),
		onlyVNet, denyAll).finds(finding.FilterBlocksProbes)
	nodesWith(rule("tag", 3000, "Inbound", "Allow", "*", "VirtualNetwork", "VirtualNetwork", "*"),
		denyAll).finds()
	nodesWith(rule("no-telnet", 300, "Inbound", "Deny", "Tcp", "*", "*", "23")).finds()
	nodesWith(rule("no-internet", 300, "Inbound", "Deny", "*", "Internet", "*", "*")).finds()
	nodesWith(rule("no-others", 300, "Inbound", "Deny", "*", "192.168.0.0/16", "*", "*")).finds()

	// The fix uses a free priority and a free name, or says that there is none.
	f = nodesWith(rule("allow-pods-in", 200, "Inbound", "Allow", "Tcp", "10.9.0.0/16", "*", "*"),
		rule("deny-all", 201, "Inbound", "Deny", "*", "*", "*", "*")).finds(
		finding.FilterBlocksPods, finding.FilterBlocksNodes, finding.FilterBlocksProbes)
	says(t, f, "--name allow-pods-in-2 --priority 199")
	says(t, nodesWith(rule("deny-all", 100, "Inbound", "Deny", "*", "*", "*", "*")).finds(
		finding.FilterBlocksPods, finding.FilterBlocksNodes,
		finding.FilterBlocksProbes), "az network nsg rule delete --ids "+string(nodesNSG)+
		"/securityRules/deny-all")

	// The group of a node's network interface.
	onNIC := func(rules ...any) *world {
		return healthy(t).put(securityGroup(nicNSG, rules...)).set(nicID(1), "networkSecurityGroup",
			link(nicNSG))
	}
	onNIC().finds()
	says(t, onNIC(denyAll).finds(finding.FilterBlocksPods, finding.FilterBlocksNodes,
		finding.FilterBlocksProbes), "aks-agentpool-12345678-nsg",
		"10.244.0.4 to 10.244.1.4")
	onNIC(denyAll).without(nicNSG).finds() // not read

	// Traffic within one node meets no group.
	inside := rule("no-node-to-pod", 300, "Inbound", "Deny", "*", "10.42.1.0/24", "10.244.0.0/16",
		"*")
	says(t, nodesWith(inside).finds(finding.FilterBlocksPods), "blocks node to pod of")
	alone := nodesWith(inside).routes(shopTable, podRoute(0)).routes(gwTable,
		podRoute(0)).without(nicID(1)).without(nicID(2))
	alone.props(shop)["agentPoolProfiles"].(list)[0].(object)["count"] = 1
	alone.set(nodes, "ipConfigurations", list{link(nicID(0) + "/ipConfigurations/ipconfig1")}).
		finds()

	// If the table is lost, the default rules deny pods as well; only the cause is reported.
	healthy(t).unset(nodes, "routeTable").names(shopTable).finds(finding.AssociationLost)
}

func TestFilterOfGateway(t *testing.T) {
	with := func(rules ...any) *world {
		return healthy(t).put(securityGroup(appgwNSG, rules...)).set(appgw, "networkSecurityGroup",
			link(appgwNSG))
	}
	with().finds()
	noPods := rule("only-nodes", 500, "Outbound", "Deny", "*", "*", "10.244.0.0/16", "*")
	says(t, with(noPods).finds(finding.FilterBlocksPods), "rule only-nodes of network security "+
		"group appgw-nsg (outbound, priority 500) blocks gateway to pod of cluster shop",
		"10.42.2.4 to 10.244.0.4", "--source-address-prefixes 10.42.2.0/24 --source-port-ranges "+
			"'*' --destination-address-prefixes 10.244.0.0/16")
	// the pods' ports are unknown
	with(rule("some-ports", 400, "Outbound", "Allow", "Tcp", "*", "10.244.0.0/16", "8080"),
		noPods).finds()
	// A gateway that is not known to send to pods, and one whose routes are missing, which is the
	// cause.
	with(noPods).unconfigured().routes(gwTable, outside).finds()
	with().routes(gwTable, podRoute(0), podRoute(1)).finds(finding.TargetDrift)
	// The other side: the inbound rules of the nodes.
	says(t, healthy(t).put(securityGroup(nodesNSG, rule("no-gateway", 300, "Inbound", "Deny", "*",
		"10.42.2.0/24", "*", "*"))).finds(finding.FilterBlocksPods), "no-gateway",
		"blocks gateway to pod of")
}

func TestFilterOfOtherPlugins(t *testing.T) {
	overlay := func(rules ...any) *world {
		return healthy(t).overlay().routes(gwTable).put(securityGroup(nodesNSG, rules...))
	}
	overlay().finds()
	says(t, overlay(rule("no-pods", 300, "Inbound", "Deny", "*", "10.244.0.0/16", "*", "*")).finds(
		finding.FilterBlocksPods), "pod to pod: 10.244.0.4 to 10.244.1.4")
	overlay(rule("no-others", 300, "Inbound", "Deny", "*", "10.240.0.0/16", "*", "*")).finds()
	gated := func() *world {
		return overlay().put(securityGroup(appgwNSG, rule("no-pods", 300, "Outbound", "Deny", "*",
			"*", "10.244.0.0/16", "*"))).set(appgw, "networkSecurityGroup", link(appgwNSG))
	}
	gated().finds() // nothing shows that this gateway sends to pods
	says(t, gated().set(shop, "addonProfiles", ingress).finds(finding.FilterBlocksPods),
		"blocks gateway to pod of cluster shop")
	far := overlay(rule("no-far", 300, "Inbound", "Deny", "*", "10.244.70.0/24", "*", "*")).
		kubernetes()
	far.kube[shop.Key()].Nodes[0].PodCIDRs = parsed("10.244.70.0/24")
	says(t, far.finds(finding.FilterBlocksPods), "10.244.70.4 to ")

	flat := func(rules ...any) *world {
		w := healthy(t).overlay().routes(gwTable).put(securityGroup(nodesNSG, rules...))
		delete(w.props(shop)["networkProfile"].(object), "networkPluginMode")
		return w
	}
	flat().finds()
	says(t, flat(rule("no-inside", 300, "Inbound", "Deny", "*", "10.42.1.0/24", "10.42.1.0/24",
		"*")).finds(finding.FilterBlocksPods), "pod to pod: 10.42.1.4 to 10.42.1.5")
	podSubnet := vnet + "/subnets/pods"
	own := func(rules ...any) *world {
		w := flat().put(securityGroup(appgwNSG, rules...)).addSubnet(podSubnet,
			object{"addressPrefix": "10.42.64.0/20", "networkSecurityGroup": link(appgwNSG)})
		w.props(shop)["agentPoolProfiles"].(list)[0].(object)["podSubnetID"] = string(podSubnet)
		return w
	}
	own().finds()
	says(t, own(rule("no-nodes", 300, "Inbound", "Deny", "*", "10.42.1.0/24", "*", "*")).finds(
		finding.FilterBlocksPods), "node to pod: 10.42.1.4 to 10.42.64.",
		fmt.Sprintf("--destination-address-prefixes %s", "10.42.64.0/20"))
}
