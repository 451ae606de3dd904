package diagnose

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// withAddon makes the ingress add-on drive the gateway.
func withAddon(t *testing.T, tier string) *world {
	w := healthy(t).set(gateway, "sku", object{"name": tier, "tier": tier})
	return w.set(shop, "addonProfiles", object{"ingressApplicationGateway": object{"enabled": true,
		"config": object{"effectiveApplicationGatewayId": string(gateway)}}})
}

func TestIngressAddon(t *testing.T) {
	withAddon(t, "Standard_v2").finds()
	withAddon(t, "WAF_v2").finds()
	f := withAddon(t, "Standard").finds(finding.GatewayNotV2)
	says(t, f, "Application Gateway shop-agw", "tier Standard")
	f = withAddon(t, "Standard_v2").set(gateway, "operationalState",
		"Stopped").finds(finding.GatewayStopped)
	says(t, f, "is stopped", "az network application-gateway start --ids "+string(gateway))

	gone := withAddon(t, "Standard_v2").absent(gateway).unset(appgw,
		"applicationGatewayIPConfigurations")
	if f := gone.finds(finding.GatewayMissing); f.Resource != string(gateway) {
		t.Errorf("on %s", f.Resource)
	}
	// A gateway that was not read may exist, and a disabled add-on drives none.
	withAddon(t, "Standard_v2").without(gateway).finds()
	off := withAddon(t, "Standard")
	off.props(shop)["addonProfiles"].(object)["ingressApplicationGateway"].(object)["enabled"] =
		false
	off.finds()
	differs := withAddon(t, "Standard_v2")
	config := differs.props(shop)["addonProfiles"].(object)["ingressApplicationGateway"].(object)["config"].(object)
	config["applicationGatewayId"] = string(gateway) + "2"
	says(t, differs.finds(finding.GatewayDiffers), "drives Application Gateway shop-agw,",
		"its settings name shop-agw2", "--appgw-id "+string(gateway)+"2")
	config["applicationGatewayId"] = strings.ToUpper(string(gateway))
	differs.finds()
	nameless := withAddon(t, "Standard_v2")
	delete(nameless.props(shop)["addonProfiles"].(object)["ingressApplicationGateway"].(object),
		"config")
	says(t, nameless.finds(finding.GatewayMissing), "but has no Application Gateway")
}

func TestEgressDiffers(t *testing.T) {
	to := func(hopType, hop string) *world {
		return healthy(t).routes(shopTable,
			append(pods(), route("egress", "0.0.0.0/0", hopType, hop))...)
	}
	f := to("VirtualAppliance", "10.42.3.4").finds(finding.EgressDiffers)
	says(t, f, "outboundType loadBalancer", "egress in shop-rt sends 0.0.0.0/0", "to 10.42.3.4")
	to("Internet", "").finds()
	to("VirtualAppliance", "10.42.3.4").profile("outboundType", "none").finds()
	nat := func() *world { return healthy(t).profile("outboundType", "userAssignedNATGateway") }
	says(t, nat().finds(finding.EgressDiffers), "outboundType userAssignedNATGateway", "has none")
	nat().set(nodes, "natGateway", link(netGroup+"/providers/Microsoft.Network/natGateways/nat")).
		finds()
}

func TestNodeNotReady(t *testing.T) {
	w := healthy(t).kubernetes()
	since := func(d time.Duration) *world {
		w.kube[shop.Key()].Nodes[1].Unready = &inventory.Condition{Reason: "KubeletNotReady",
			Since: w.c.Today.Add(-d)}
		return w
	}
	says(t, since(5*time.Minute).finds(finding.NodeNotReady), "1 node is not Ready", nodeName(1),
		"KubeletNotReady")
	since(time.Minute).finds() // it may be in progress
}

// TestPodOnOtherNodesCIDR: an address of another node's part of the pod CIDR is outside, with
// overlay and with kubenet.
func TestPodOnOtherNodesCIDR(t *testing.T) {
	for name, w := range map[string]func() *world{
		"overlay": func() *world { return onOverlay(t) },
		"kubenet": func() *world { return healthy(t).kubernetes() },
	} {
		t.Run(name, func(t *testing.T) {
			w().pod(2, false, "10.244.2.9").finds()
			f := w().pod(2, false, "10.244.1.9").finds(finding.PodOutside)
			says(t, f, "on node "+nodeName(2)+" (10.244.1.9)",
				"is outside the pod CIDR of its node")
			says(t, w().pod(2, false, "10.42.1.77").finds(finding.PodOutside),
				"is outside the pod CIDR (10.244.0.0/16")
			unknown := w().pod(2, false, "10.244.1.9")
			unknown.kube[shop.Key()].Nodes[2].PodCIDRs = []netip.Prefix(nil)
			if name == "overlay" { // with kubenet, its route is then missing too
				unknown.finds()
			}
		})
	}
}

// TestAddonLacks: the add-on's identity needs its roles on a gateway that AKS did not make. Unread
// rights are not missing rights.
func TestAddonLacks(t *testing.T) {
	const who = "99999999-0000-0000-0000-000000000001"
	with := func(actions ...string) *world {
		w := withAddon(t, "Standard_v2")
		addon := w.props(shop)["addonProfiles"].(object)["ingressApplicationGateway"].(object)
		addon["identity"] = object{"objectId": strings.ToUpper(who)}
		return w.mighty().may(who, gateway, actions...)
	}
	with("*").finds()
	f := with("*/read").finds(finding.AddonLacks)
	says(t, f, "the identity of the ingress add-on of cluster shop lacks "+
		"Microsoft.Network/applicationGateways/write on", "--assignee-object-id "+who)
	withAddon(t, "Standard_v2").mighty().finds()
}
