package emulator

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Dates since which AKS does something for what is made, as far as recordings tell.
const (
	// kubenet until November 2024, Azure CNI overlay in March 2025, at any api-version
	overlayByDefault   = "2025-03-01"
	nodeImagesByItself = "2023-10-01" // node images are upgraded without a request
	surgeByDefault     = "2024-08-01"
)

// overlayAt reports whether AKS makes a cluster overlay that names no plugin: first at preview
// versions, then at all.
func overlayAt(c *call) bool {
	return c.since(overlayByDefault) ||
		strings.HasSuffix(c.version, "-preview") && c.since("2024-07-01")
}

// enabled is how AKS says of a feature whether it is on.
func enabled(on bool) object { return object{"enabled": on} }

func profileOfNetwork(s sight) object { return objectAt(s.doc, "properties", "networkProfile") }

func azurePlugin(s sight) bool { return text(profileOfNetwork(s), "networkPlugin") == "azure" }

func notOverlay(s sight) bool { return text(profileOfNetwork(s), "networkPluginMode") != "overlay" }

func privateCluster(s sight) bool {
	return objectAt(s.doc, "properties", "apiServerAccessProfile")["enablePrivateCluster"] == true
}

// clusterFacts are of managed clusters; the ones of their pools are poolFacts.
func clusterFacts(issuerOf func(cluster *resource) string,
	tenantOf func(subscription string) string) []fact {
	const p, network = "properties.", "properties.networkProfile."
	all := []fact{
		{
			path:  "sku",
			value: object{"name": "Basic", "tier": "Free"},
			when:  func(s sight) bool { return s.doc["extendedLocation"] != nil },
		},
		{path: "sku", value: object{"name": "Base", "tier": "Free"}, since: "2023-02-01"},
		{path: "sku", value: object{"name": "Basic", "tier": "Free"}, before: "2023-02-01"},
		{path: "kind", value: "Base", since: "2024-04-02-preview", preview: true},
		{path: "eTag", value: bodyTag, since: "2024-04-02-preview"},
		{
			path:  p + "resourceUID",
			value: func(s sight) any { return uniqueID("resource", s.r.id) },
			since: "2023-10-01",
		},
		{path: p + "supportPlan", value: "KubernetesOfficial", since: "2023-05-01"},
		{path: p + "azurePortalFQDN", value: func(s sight) any {
			host, zone, _ := strings.Cut(text(objectAt(s.doc, "properties"), "fqdn"), ".")
			if host == "" { // a private cluster may have no public name
				host, zone = text(
					objectAt(s.doc, "properties"),
					"dnsPrefix",
				)+"-"+digitsOf(
					s.r.id,
				), "hcp."+text(
					s.doc,
					"location",
				)+".azmk8s.io"
			}
			return host + ".portal." + zone
		}},
		{path: p + "autoUpgradeProfile", value: object{}, when: madeSince(nodeImagesByItself)},
		{
			path:  p + "autoUpgradeProfile.nodeOSUpgradeChannel",
			value: "NodeImage",
			since: "2023-06-01",
			when:  madeSince(nodeImagesByItself),
		},
		{path: p + "storageProfile", value: object{}, since: "2022-07-01"},
		{path: p + "storageProfile.diskCSIDriver", value: enabled(true)},
		{path: p + "storageProfile.diskCSIDriver.version", value: "v1", preview: true},
		{path: p + "storageProfile.fileCSIDriver", value: enabled(true)},
		{path: p + "storageProfile.snapshotController", value: enabled(true)},
		{path: p + "workloadAutoScalerProfile", value: object{}, since: "2023-02-01"},
		{path: p + "securityProfile", value: object{}, since: "2022-01-01"},
		{path: p + "oidcIssuerProfile", value: enabled(false), since: "2022-09-01"},
		{
			path:  p + "oidcIssuerProfile.issuerURL",
			value: func(s sight) any { return issuerOf(s.r) },
			when:  func(s sight) bool { return s.at["enabled"] == true },
		},
		{
			path:  p + "metricsProfile",
			value: object{"costAnalysis": enabled(false)},
			since: "2024-04-01",
		},
		{path: p + "nodeProvisioningProfile", value: object{"mode": "Manual"}, since: "2024-04-01"},
		{
			path:  p + "bootstrapProfile",
			value: object{"artifactSource": "Direct"},
			since: "2024-04-01",
		},
		{path: p + "controlPlanePluginProfiles", value: object{
			"azure-monitor-metrics-ccp": object{
				"enableV2": true,
			}, "karpenter": object{"enableV2": true},
			"live-patching-controller": object{
				"enableV2": true,
			}, "static-egress-controller": object{"enableV2": true},
		}, since: "2024-04-01", preview: true},
		{
			path:  p + "windowsProfile",
			value: object{"adminUsername": "azureuser"},
			when: func(s sight) bool {
				return text(profileOfNetwork(s), "networkPlugin") != "kubenet" &&
					(notOverlay(s) || !madeSince("2024-01-01")(s))
			},
		},
		{path: p + "windowsProfile.enableCSIProxy", value: true},
		{path: p + "windowsProfile.gmsaProfile.dnsServer", value: ""},
		{path: p + "windowsProfile.gmsaProfile.rootDomainName", value: ""},
		{
			path:  p + "aadProfile.tenantID",
			value: func(s sight) any { return tenantOf(s.r.id.Subscription()) },
		},
		{path: p + "apiServerAccessProfile.privateDNSZone", value: "system", when: privateCluster},
		{
			path:  p + "apiServerAccessProfile.enablePrivateClusterPublicFQDN",
			value: true,
			when:  privateCluster,
		},
		{path: p + "privateLinkResources", value: func(s sight) any {
			return []any{object{
				"id": string(s.r.id) + "/privateLinkResources/management", "name": "management",
				"type": arm.TypeCluster +
					"/privateLinkResources", "groupId": "management", "requiredMembers": []any{
					"management"},
			}}
		}, when: privateCluster},
		{
			path:   network + "loadBalancerProfile",
			value:  object{},
			since:  "2023-05-01",
			before: "2024-01-01",
			when: func(s sight) bool {
				return strings.HasSuffix(text(s.at, "outboundType"), "NATGateway")
			},
		},
		{
			path:  network + "serviceCidrs",
			value: func(s sight) any { return []any{text(s.at, "serviceCidr")} },
			since: "2021-07-01",
		},
		{path: network + "dockerBridgeCidr", value: "172.17.0.1/16", before: "2023-05-01"},
		{
			path:  network + "networkDataplane",
			value: "azure",
			since: "2023-02-01",
			when:  azurePlugin,
		},
		{
			path:  network + "networkPolicy",
			value: "cilium",
			when:  func(s sight) bool { return text(s.at, "networkDataplane") == "cilium" },
		},
		{path: network + "networkPolicy", value: "none", since: "2024-01-01"},
		{path: network + "podLinkLocalAccess", value: "IMDS", since: "2024-04-01", preview: true},
		{
			path:  network + "loadBalancerProfile.backendPoolType",
			value: "nodeIPConfiguration",
			since: "2023-07-01",
		},
		{
			path:  network + "loadBalancerProfile.managedOutboundIPs.countIPv6",
			value: 1,
			when: func(s sight) bool {
				return len(list(profileOfNetwork(s), "ipFamilies")) == 2
			},
		},
	}
	return append(all, poolFacts(p+"agentPoolProfiles[].")...)
}

// poolFacts are of agent pools: under a prefix in a cluster's document, and in documents of their
// own.
func poolFacts(prefix string) []fact {
	linux := func(s sight) bool { return text(s.at, "osType") != "Windows" }
	spot := func(s sight) bool { return text(s.at, "scaleSetPriority") == "Spot" }
	all := []fact{
		{path: "osDiskSizeGB", value: 128},
		{path: "osDiskType", value: "Managed"},
		{path: "kubeletDiskType", value: "OS"},
		{path: "osSKU", value: "Ubuntu", when: linux},
		{path: "osSKU", value: "Windows2022"},
		{path: "enableFIPS", value: false},
		{path: "enableNodePublicIP", value: false, before: "2024-06-01"},
		{path: "enableAutoScaling", value: false, since: "2024-04-02-preview"},
		{path: "scaleDownMode", value: "Delete", when: madeSince("2024-01-01")},
		{
			path:  "securityProfile",
			value: object{"sshAccess": "LocalUser", "enableVTPM": false, "enableSecureBoot": false},
			since: "2024-04-02-preview",
		},
		{
			path:  "upgradeSettings",
			value: object{"maxSurge": "10%"},
			when:  madeSince(surgeByDefault),
		},
		{path: "scaleSetEvictionPolicy", value: "Delete", when: spot},
		{path: "eTag", value: bodyTag, since: "2024-04-02-preview"},
	}
	for i := range all {
		all[i].path = prefix + all[i].path
	}
	return all
}

// ownPoolFacts are poolFacts in a pool's own document.
var ownPoolFacts = poolFacts("properties.")

// bodyTag is AKS's ETag, which has no quotes.
func bodyTag(s sight) any {
	return strings.Trim(strings.TrimPrefix(s.r.tag(), "W/"), `"`)
}

// uniqueID is what Azure calls something that lives as long as a resource does: 24 hexadecimal
// digits.
func uniqueID(what string, id arm.ID) string {
	guid := uuid.NewSHA1(uuid.Nil, []byte(what+" "+id.Key())).String()
	return strings.ReplaceAll(guid, "-", "")[:24]
}

// issuerOf is a cluster's OIDC issuer.
func (s *aks) issuerOf(r *resource) string {
	own := uuid.NewSHA1(uuid.Nil, []byte("issuer "+r.id.Key())).String()
	return "https://" + text(
		r.body,
		"location",
	) + ".oic.prod-aks.azure.com/" + s.kernel.tenantOf(
		r.id.Subscription(),
	) + "/" + own + "/"
}

// settleSpotPool gives a pool of spot machines the label and the taint that AKS gives it.
func settleSpotPool(p object) {
	if text(p, "scaleSetPriority") != "Spot" {
		return
	}
	const name = "kubernetes.azure.com/scalesetpriority"
	labels := objectAt(p, "nodeLabels")
	if labels == nil {
		labels = object{}
		p["nodeLabels"] = labels
	}
	labels[name] = "spot"
	taints, _ := p["nodeTaints"].([]any)
	if taint := name + "=spot:NoSchedule"; !slices.Contains(list(p, "nodeTaints"), taint) {
		p["nodeTaints"] = append(taints, taint)
	}
}
