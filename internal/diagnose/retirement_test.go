package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestRetirement: each kubenet cluster gets the remaining days, the blockers and the effects.
func TestRetirement(t *testing.T) {
	f := healthy(t).finds(finding.KubenetRetired)
	if f.Severity != finding.Info || !strings.Contains(f.Message, "in 496 days") ||
		!strings.HasSuffix(f.Fix, "--network-plugin azure --network-plugin-mode overlay") ||
		!slices.Equal(f.Evidence, []string{"no blocker found",
			"not checked: a custom azure-ip-masq-agent configuration, which can break " +
				"connections after the migration, and an old ConfigMap " +
				"azure-ip-masq-agent-config in kube-system, which you must delete first",
			"AKS will remove the pod routes from route table shop-rt and leave the others in it"}) {
		t.Errorf("%v %s %q fix %s", f.Severity, f.Message, f.Evidence, f.Fix)
	}
	f = healthy(t).managed().finds(finding.KubenetRetired)
	if !slices.Contains(f.Evidence, "AKS will delete route table "+managedTable.Name()+
		", including all other routes in it") {
		t.Errorf("%q", f.Evidence)
	}
	both := healthy(t).set(shop, "addonProfiles",
		object{"ingressApplicationGateway": object{"enabled": true,
			"config": object{"effectiveApplicationGatewayId": string(gateway)}}})
	both.props(shop)["networkProfile"].(object)["podCidrs"] = list{"10.244.0.0/16", "fd00:244::/64"}
	if f := both.finds(finding.KubenetRetired); len(f.Evidence) != 5 ||
		!strings.Contains(f.Evidence[3], "Gateway shop-agw will learn") ||
		!strings.Contains(f.Evidence[4], "AKS migrates it, but IPv6 does not work") {
		t.Errorf("%q", f.Evidence)
	}
	w := healthy(t).set(shop, "kubernetesVersion", "1.26.9")
	w.c.Today = time.Date(2028, 3, 30, 23, 0, 0, 0, time.UTC)
	w.finds(finding.KubenetRetired, finding.MigrationVersion)
	for _, f := range w.check() {
		if f.Code == finding.KubenetRetired && (f.Severity != finding.Info ||
			!strings.Contains(f.Message, "in 1 days") ||
			!strings.HasPrefix(f.Evidence[0], "blocker: cluster shop has Kubernetes 1.26.9")) {
			t.Errorf("the last day: %s %q", f.Message, f.Evidence)
		}
	}
	w = healthy(t)
	w.c.Today = time.Date(2028, 4, 2, 1, 0, 0, 0, time.UTC)
	if f := w.finds(finding.KubenetRetired); f.Severity != finding.Warning ||
		!strings.Contains(f.Message, "2 days ago") {
		t.Errorf("afterwards: %v %s", f.Severity, f.Message)
	}
	// A cluster with Azure CNI needs no migration.
	for _, f := range onAzureCNI(t).check() {
		if f.Code == finding.KubenetRetired || strings.HasPrefix(string(f.Code), "migration-") {
			t.Errorf("on Azure CNI: %s", f.Message)
		}
	}
}

func TestMigrationTable(t *testing.T) {
	shared := func() *world { return healthy(t).set(appgw, "routeTable", link(shopTable)) }
	var found finding.Finding
	for _, f := range shared().check() {
		if f.Code == finding.MigrationTable {
			found = f
		}
	}
	if found.Resource != string(appgw) ||
		!strings.Contains(found.Message, "subnet shop-vnet/appgw of Application Gateway shop-agw "+
			"has route table shop-rt of cluster shop") {
		t.Errorf("%s %s", found.Resource, found.Message)
	}
	// The table may name a subnet that was not read; a subnet that was read is more current.
	elsewhere := netGroup + "/providers/Microsoft.Network/virtualNetworks/other/subnets/appgw"
	healthy(t).set(shopTable, "subnets", list{link(nodes), link(elsewhere)}).finds(
		finding.MigrationTable)
	healthy(t).set(shopTable, "subnets", list{link(nodes), link(appgw)}).finds()
	// The subnet that AKS made is a node subnet, even if it was not read.
	own := nodeGroup +
		"/providers/Microsoft.Network/virtualNetworks/aks-vnet-12345678/subnets/aks-subnet"
	healthy(t).set(shopTable, "subnets", list{link(nodes), link(own)}).finds()
}

func TestMigrationOrphans(t *testing.T) {
	f := healthy(t).finds(finding.MigrationOrphans)
	if f.Severity != finding.Info || !slices.Equal(f.Evidence, []string{string(gwTable)}) {
		t.Errorf("%v %q", f.Severity, f.Evidence)
	}
	w := healthy(t).routes(gwTable, route("all", "10.244.0.0/16", "VirtualAppliance", "10.42.9.9"),
		route("other", "10.99.0.0/24", "VirtualAppliance", nodeAddr(0)))
	for _, f := range w.check() {
		if f.Code == finding.MigrationOrphans {
			t.Errorf("without copies: %s", f.Message)
		}
	}
}

func TestMigrationPodCIDR(t *testing.T) {
	pool := func(count, most int, surge string) list {
		return list{object{"name": "nodepool1", "count": count, "vnetSubnetID": string(nodes),
			"enableAutoScaling": most > 0, "maxCount": most, "upgradeSettings": object{
				"maxSurge": surge}}}
	}
	// four nodes
	narrow := func(w *world) *world {
		return w.set(shop, "networkProfile", profile("10.244.0.0/22"))
	}
	f := narrow(healthy(t)).set(shop, "agentPoolProfiles",
		pool(3, 4, "1")).finds(finding.MigrationPodCIDR)
	if !strings.Contains(f.Message, "can grow to 5 nodes") ||
		!strings.Contains(f.Message, "pod CIDR 10.244.0.0/22 has room for 4") ||
		!strings.Contains(f.Fix, "--pod-cidr") {
		t.Errorf("%s fix %s", f.Message, f.Fix)
	}
	narrow(healthy(t)).set(shop, "agentPoolProfiles", pool(3, 0, "1")).finds()
	narrow(healthy(t)).set(shop, "agentPoolProfiles", pool(3, 4, "0")).finds()

	overlaps := func(w *world) []string {
		var subjects []string
		for _, f := range w.check() {
			if f.Code == finding.MigrationPodCIDR {
				subjects = append(subjects, f.Subject)
			}
		}
		return subjects
	}
	for name, tt := range map[string]struct {
		change func(*world)
		want   []string
	}{
		"nothing": {func(w *world) {}, nil},
		"the network": {func(w *world) {
			w.set(vnet, "addressSpace",
				object{"addressPrefixes": list{"10.42.0.0/16", "10.244.128.0/20"}})
		}, []string{"10.244.0.0/16 10.244.128.0/20"}},
		"a peering": {func(w *world) {
			w.set(vnet, "virtualNetworkPeerings",
				list{object{"name": "hub",
					"properties": object{"remoteVirtualNetwork": link(vnet + "-hub"),
						"remoteAddressSpace": object{"addressPrefixes": list{"10.244.0.0/14"}}}}})
		}, []string{"10.244.0.0/16 10.244.0.0/14"}},
		"the services": {func(w *world) {
			w.props(shop)["networkProfile"].(object)["serviceCidrs"] = list{"10.244.64.0/18"}
		}, []string{"10.244.0.0/16 10.0.0.0/16", "10.244.0.0/16 10.244.64.0/18"}[1:]},
		"a neighbour": {func(w *world) {
			w.set(vnet, "addressSpace",
				object{"addressPrefixes": list{"10.42.0.0/16", "10.245.0.0/16"}})
		}, nil},
	} {
		w := healthy(t)
		tt.change(w)
		if got := overlaps(w); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// profile is the network profile of a healthy cluster with another pod CIDR.
func profile(podCIDR string) object {
	return object{"networkPlugin": "kubenet", "podCidr": podCIDR, "podCidrs": list{podCIDR},
		"serviceCidr": "10.0.0.0/16", "networkPolicy": "none"}
}

// TestMigrationConditions: the conditions of AKS for the migration.
func TestMigrationConditions(t *testing.T) {
	identity := func(w *world, doc any) *world {
		w.docs[shop.Key()]["identity"] = doc
		return w
	}
	pool := func(field string, value any) *world {
		w := healthy(t)
		w.props(shop)["agentPoolProfiles"].(list)[0].(object)[field] = value
		return w
	}
	policy := func(name string) *world {
		w := healthy(t)
		w.props(shop)["networkProfile"].(object)["networkPolicy"] = name
		return w
	}
	long := netGroup + "/providers/Microsoft.Network/virtualNetworks/" +
		arm.ID(strings.Repeat("v", 64)) + "/subnets/nodes"
	for name, tt := range map[string]struct {
		w    *world
		code finding.Code
	}{
		"a system-assigned identity": {
			identity(healthy(t), object{"type": "SystemAssigned", "principalId": principal}),
			finding.MigrationIdentity},
		"a service principal": {
			identity(healthy(t), nil).set(shop, "servicePrincipalProfile",
				object{"clientId": me}), finding.MigrationIdentity},
		"an unknown identity": {identity(healthy(t), nil), ""},
		"calico":              {policy("calico"), finding.MigrationPolicy},
		"an unknown policy":   {policy(""), ""},
		"Windows":             {pool("osType", "Windows"), finding.MigrationWindows},
		"an availability set": {pool("type", "AvailabilitySet"), finding.MigrationPoolKind},
		"virtual machines":    {pool("type", "VirtualMachines"), ""},
		"Kubernetes 1.26": {healthy(t).set(shop, "kubernetesVersion", "1.26.9"),
			finding.MigrationVersion},
		"Kubernetes 1.27": {healthy(t).set(shop, "kubernetesVersion", "1.27.0"), ""},
		"Kubernetes of an unknown version": {healthy(t).set(shop, "kubernetesVersion", "latest"),
			""},
		"a long name": {pool("vnetSubnetID", string(long)), finding.MigrationNameLength},
	} {
		var got finding.Code
		for _, f := range tt.w.check() {
			if strings.HasPrefix(string(f.Code), "migration-") &&
				f.Code != finding.MigrationOrphans {
				got = f.Code
				if !strings.Contains(f.Message, "overlay") {
					t.Errorf("%s: %s", name, f.Message)
				}
			}
		}
		if got != tt.code {
			t.Errorf("%s: found %q, want %q", name, got, tt.code)
		}
	}
}

// TestPolicyVersion: AKS removes a network policy engine only from Kubernetes 1.30 on.
func TestPolicyVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.29.4": "az aks upgrade", "1.30.0": "--network-policy none", "1.31": "--network-policy " +
			"none", "": "--network-policy none",
	} {
		w := healthy(t).set(shop, "kubernetesVersion", version)
		w.props(shop)["networkProfile"].(object)["networkPolicy"] = "calico"
		if f := w.finds(finding.MigrationPolicy); !strings.Contains(f.Fix, want) {
			t.Errorf("%q: %s", version, f.Fix)
		}
	}
}

// TestMigratingCluster: while a cluster migrates, its routes are no leftovers and its network
// plugin is no mistake, with and without a config; the only finding says that it migrates. With
// the same document after the operation, it has left kubenet.
func TestMigratingCluster(t *testing.T) {
	for name, configs := range map[string]bool{"with a config": true, "without": false} {
		for state, want := range map[string][]finding.Code{
			"Updating":  {finding.ClusterMigrating},
			"Succeeded": {finding.ClusterNotKubenet, finding.RoutesOrphaned},
		} {
			w := healthy(t)
			c := w.c.Configs
			w.overlay().set(shop, "provisioningState", state)
			if configs {
				w.c.Configs = c
			}
			got := map[finding.Code]bool{}
			for _, f := range w.check() {
				got[f.Code] = true
				if state == "Updating" && strings.Contains(f.Message+f.Advice, "left") {
					t.Errorf("%s: %s %s", name, f.Message, f.Advice)
				}
			}
			for _, code := range []finding.Code{finding.ClusterMigrating, finding.RoutesOrphaned,
				finding.ClusterNotKubenet, finding.KubenetRetired, finding.AssociationLost} {
				if expected := slices.Contains(want, code) &&
					(configs || code != finding.ClusterNotKubenet); got[code] != expected {
					t.Errorf("%s, %s: %s found: %t", name, state, code, got[code])
				}
			}
		}
	}
}
