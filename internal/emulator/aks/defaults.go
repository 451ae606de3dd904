package aks

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// Dates on which a default of AKS changed, as far as recordings show.
const (
	// kubenet until November 2024, Azure CNI overlay since March 2025, at any api-version
	overlayByDefault   = "2025-03-01"
	nodeImagesByItself = "2023-10-01" // node images are upgraded without a request
	surgeByDefault     = "2024-08-01"
)

// overlayAt reports whether a cluster that names no plugin gets overlay: at first only at preview
// versions, later always.
func overlayAt(c *kernel.Call) bool {
	return c.Since(overlayByDefault) ||
		strings.HasSuffix(c.Version, "-preview") && c.Since("2024-07-01")
}

// enabled returns how AKS shows that a feature is on or off.
func enabled(on bool) kernel.Object { return kernel.Object{"enabled": on} }

func profileOfNetwork(s kernel.Sight) kernel.Object {
	return kernel.ObjectAt(s.Doc, "properties", "networkProfile")
}

func azurePlugin(s kernel.Sight) bool {
	return kernel.Text(profileOfNetwork(s), "networkPlugin") == "azure"
}

func notOverlay(s kernel.Sight) bool {
	return kernel.Text(profileOfNetwork(s), "networkPluginMode") != "overlay"
}

func privateCluster(s kernel.Sight) bool {
	return isPrivate(kernel.ObjectAt(s.Doc, "properties"))
}

// clusterFacts returns the facts of managed clusters; poolFacts are those of their pools.
func clusterFacts(tenantOf func(subscription string) string) []kernel.Fact {
	const p, network = "properties.", "properties.networkProfile."
	all := []kernel.Fact{
		{Path: "sku", Value: kernel.Object{"name": "Basic", "tier": "Free"},
			When: func(s kernel.Sight) bool { return s.Doc["extendedLocation"] != nil }},
		{Path: "sku", Value: kernel.Object{"name": "Base", "tier": "Free"}, Since: "2023-02-01"},
		{Path: "sku", Value: kernel.Object{"name": "Basic", "tier": "Free"}, Before: "2023-02-01"},
		{Path: "kind", Value: "Base", Since: "2024-04-02-preview", Preview: true},
		{Path: "eTag", Value: bodyTag, Since: "2024-04-02-preview"},
		{Path: p + "resourceUID", Since: "2023-10-01",
			Value: func(s kernel.Sight) any { return uniqueID("resource", s.R.ID) }},
		{Path: p + "supportPlan", Value: "KubernetesOfficial", Since: "2023-05-01"},
		{Path: p + "azurePortalFQDN", Value: func(s kernel.Sight) any {
			host, zone, _ := strings.Cut(kernel.Text(s.Doc, "properties", "fqdn"), ".")
			if host == "" { // a private cluster may have no public name
				host, zone = kernel.Text(s.Doc, "properties", "dnsPrefix")+"-"+DigitsOf(s.R.ID),
					"hcp."+kernel.Text(s.Doc, "location")+".azmk8s.io"
			}
			return host + ".portal." + zone
		}},
		{Path: p + "autoUpgradeProfile", Value: kernel.Object{},
			When: kernel.MadeSince(nodeImagesByItself)},
		{Path: p + "autoUpgradeProfile.nodeOSUpgradeChannel", Value: "NodeImage",
			Since: "2023-06-01", When: kernel.MadeSince(nodeImagesByItself)},
		{Path: p + "storageProfile", Value: kernel.Object{}, Since: "2022-07-01"},
		{Path: p + "storageProfile.diskCSIDriver", Value: enabled(true)},
		{Path: p + "storageProfile.diskCSIDriver.version", Value: "v1", Preview: true},
		{Path: p + "storageProfile.fileCSIDriver", Value: enabled(true)},
		{Path: p + "storageProfile.snapshotController", Value: enabled(true)},
		{Path: p + "workloadAutoScalerProfile", Value: kernel.Object{}, Since: "2023-02-01"},
		{Path: p + "securityProfile", Value: kernel.Object{}, Since: "2022-01-01"},
		{Path: p + "securityProfile.azureKeyVaultKms.keyVaultNetworkAccess", Value: "Public",
			Since: "2022-09-01",
			When:  func(s kernel.Sight) bool { return s.At["enabled"] == true }},
		{Path: p + "oidcIssuerProfile", Value: enabled(false), Since: "2022-09-01"},
		{Path: p + "metricsProfile", Value: kernel.Object{"costAnalysis": enabled(false)},
			Since: "2024-04-01"},
		{Path: p + "nodeProvisioningProfile", Value: kernel.Object{"mode": "Manual"},
			Since: "2024-04-01"},
		{Path: p + "bootstrapProfile", Value: kernel.Object{"artifactSource": "Direct"},
			Since: "2024-04-01"},
		{Path: p + "controlPlanePluginProfiles", Value: kernel.Object{
			"azure-monitor-metrics-ccp": kernel.Object{
				"enableV2": true,
			}, "karpenter": kernel.Object{"enableV2": true},
			"live-patching-controller": kernel.Object{
				"enableV2": true,
			}, "static-egress-controller": kernel.Object{"enableV2": true},
		}, Since: "2024-04-01", Preview: true},
		{
			Path:  p + "windowsProfile",
			Value: kernel.Object{"adminUsername": "azureuser"},
			When: func(s kernel.Sight) bool {
				return kernel.Text(profileOfNetwork(s), "networkPlugin") != "kubenet" &&
					(notOverlay(s) || !kernel.MadeSince("2024-01-01")(s))
			},
		},
		{Path: p + "windowsProfile.enableCSIProxy", Value: true},
		{Path: p + "windowsProfile.gmsaProfile.dnsServer", Value: ""},
		{Path: p + "windowsProfile.gmsaProfile.rootDomainName", Value: ""},
		{Path: p + "aadProfile.tenantID",
			Value: func(s kernel.Sight) any { return tenantOf(s.R.ID.Subscription()) }},
		{Path: p + "apiServerAccessProfile.privateDNSZone", Value: "system", When: privateCluster},
		{Path: p + "apiServerAccessProfile.enablePrivateClusterPublicFQDN", Value: true,
			When: privateCluster},
		{Path: p + "privateLinkResources", Value: func(s kernel.Sight) any {
			return []any{kernel.Object{
				"id": string(s.R.ID) + "/privateLinkResources/management", "name": "management",
				"type": arm.TypeCluster +
					"/privateLinkResources", "groupId": "management", "requiredMembers": []any{
					"management"},
			}}
		}, When: privateCluster},
		{
			Path:   network + "loadBalancerProfile",
			Value:  kernel.Object{},
			Since:  "2023-05-01",
			Before: "2024-01-01",
			When: func(s kernel.Sight) bool {
				return strings.HasSuffix(kernel.Text(s.At, "outboundType"), "NATGateway")
			},
		},
		{
			Path: network + "serviceCidrs",
			Value: func(s kernel.Sight) any {
				cidrs := []any{kernel.Text(s.At, "serviceCidr")}
				if len(kernel.List(s.At, "ipFamilies")) == 2 {
					cidrs = append(cidrs, defaultServiceCIDR6)
				}
				return cidrs
			},
			Since: "2021-07-01",
		},
		{Path: network + "dockerBridgeCidr", Value: "172.17.0.1/16", Before: "2023-05-01"},
		{Path: network + "networkDataplane", Value: "azure", Since: "2023-02-01",
			When: azurePlugin},
		{
			Path:  network + "networkPolicy",
			Value: "cilium",
			When: func(s kernel.Sight) bool {
				return kernel.Text(s.At, "networkDataplane") == "cilium"
			},
		},
		{Path: network + "networkPolicy", Value: "none", Since: "2024-01-01"},
		{Path: network + "podLinkLocalAccess", Value: "IMDS", Since: "2024-04-01", Preview: true},
		{Path: network + "loadBalancerProfile.backendPoolType", Value: "nodeIPConfiguration",
			Since: "2023-07-01"},
		{
			Path:  network + "loadBalancerProfile.managedOutboundIPs.countIPv6",
			Value: 1,
			When: func(s kernel.Sight) bool {
				return len(kernel.List(profileOfNetwork(s), "ipFamilies")) == 2
			},
		},
	}
	all = append(all, autoScalerFacts(p+"autoScalerProfile")...)
	return append(all, poolFacts(p+"agentPoolProfiles[].")...)
}

// autoScalerFacts returns the settings of the cluster autoscaler, shown once a pool scales
// by itself (clusters as published, such as AKS#2766).
func autoScalerFacts(path string) []kernel.Fact {
	all := []kernel.Fact{{Path: path, Value: kernel.Object{}, When: func(s kernel.Sight) bool {
		return slices.ContainsFunc(kernel.ListAt(s.At, "agentPoolProfiles"),
			func(p kernel.Object) bool { return p["enableAutoScaling"] == true })
	}}}
	for _, setting := range []struct{ name, value string }{
		{"balance-similar-node-groups", "false"}, {"expander", "random"},
		{"max-empty-bulk-delete", "10"}, {"max-graceful-termination-sec", "600"},
		{"max-node-provision-time", "15m"}, {"max-total-unready-percentage", "45"},
		{"new-pod-scale-up-delay", "0s"}, {"ok-total-unready-count", "3"},
		{"scale-down-delay-after-add", "10m"}, {"scale-down-delay-after-delete", "10s"},
		{"scale-down-delay-after-failure", "3m"}, {"scale-down-unneeded-time", "10m"},
		{"scale-down-unready-time", "20m"}, {"scale-down-utilization-threshold", "0.5"},
		{"scan-interval", "10s"}, {"skip-nodes-with-local-storage", "false"},
		{"skip-nodes-with-system-pods", "true"},
	} {
		all = append(all, kernel.Fact{Path: path + "." + setting.name, Value: setting.value})
	}
	for name, value := range map[string]bool{"daemonset-eviction-for-empty-nodes": false,
		"daemonset-eviction-for-occupied-nodes": true, "ignore-daemonsets-utilization": false} {
		all = append(all, kernel.Fact{Path: path + "." + name, Value: value, Since: "2024-05-01"})
	}
	return all
}

// poolFacts returns the facts of agent pools, below a prefix in a cluster's document and in
// documents of their own.
func poolFacts(prefix string) []kernel.Fact {
	linux := func(s kernel.Sight) bool { return kernel.Text(s.At, "osType") != "Windows" }
	spot := func(s kernel.Sight) bool { return kernel.Text(s.At, "scaleSetPriority") == "Spot" }
	all := []kernel.Fact{
		{Path: "osDiskSizeGB", Value: 128},
		{Path: "osDiskType", Value: "Managed"},
		{Path: "kubeletDiskType", Value: "OS"},
		{Path: "osSKU", Value: "Ubuntu", When: linux},
		{Path: "osSKU", Value: "Windows2022"},
		{Path: "enableFIPS", Value: false},
		{Path: "enableNodePublicIP", Value: false, Before: "2024-06-01"},
		{Path: "enableAutoScaling", Value: false, Since: "2024-04-02-preview"},
		{Path: "scaleDownMode", Value: "Delete", When: kernel.MadeSince("2024-01-01")},
		{
			Path: "securityProfile",
			Value: kernel.Object{"sshAccess": "LocalUser", "enableVTPM": false,
				"enableSecureBoot": false},
			Since: "2024-04-02-preview",
		},
		{Path: "upgradeSettings", Value: kernel.Object{"maxSurge": "10%"},
			When: kernel.MadeSince(surgeByDefault)},
		{Path: "scaleSetEvictionPolicy", Value: "Delete", When: spot},
		{Path: "eTag", Value: bodyTag, Since: "2024-04-02-preview"},
	}
	for i := range all {
		all[i].Path = prefix + all[i].Path
	}
	return all
}

// ownPoolFacts are poolFacts in a pool's own document.
var ownPoolFacts = poolFacts("properties.")

// bodyTag returns AKS's ETag, which has no quotes.
func bodyTag(s kernel.Sight) any {
	return strings.Trim(strings.TrimPrefix(s.R.Tag(), "W/"), `"`)
}

// uniqueID returns an identifier that stays as long as a resource exists: 24 hexadecimal digits.
func uniqueID(what string, id arm.ID) string {
	return strings.ReplaceAll(kernel.GuidOf(what, id), "-", "")[:24]
}

// settleSpotPool gives a pool of spot machines the label and the taint that AKS gives it.
func settleSpotPool(p kernel.Object) {
	if kernel.Text(p, "scaleSetPriority") != "Spot" {
		return
	}
	const name = "kubernetes.azure.com/scalesetpriority"
	labels := kernel.ObjectAt(p, "nodeLabels")
	if labels == nil {
		labels = kernel.Object{}
		p["nodeLabels"] = labels
	}
	labels[name] = "spot"
	taints, _ := p["nodeTaints"].([]any)
	if taint := name + "=spot:NoSchedule"; !slices.Contains(kernel.List(p, "nodeTaints"), taint) {
		p["nodeTaints"] = append(taints, taint)
	}
}
