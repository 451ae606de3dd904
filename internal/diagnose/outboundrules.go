package diagnose

import "routekeeper.dev/routekeeper/internal/inventory"

// outboundAsOf is the state of Microsoft's page outbound-rules-control-egress that the table below
// copies: commit 126786f03e56 of MicrosoftDocs/azure-aks-docs, read on 22 November 2026. It has the
// rules of Azure's public cloud for names. Rules for addresses are left out: none is required for
// clusters with the konnectivity agent and nodes made after March 2021.
const outboundAsOf = "22 November 2026"

// endpoint is what a cluster's nodes must reach. REGION stands for the cluster's region.
type endpoint struct {
	name string
	port string // 443 with HTTPS, 80 with HTTP
	// tagged is set if the FQDN tag AzureKubernetesService has it.
	tagged bool
	needed func(*inventory.Cluster) bool // nil: by every cluster
}

var endpoints = []endpoint{
	{"*.hcp.REGION.azmk8s.io", "443", true, func(c *inventory.Cluster) bool {
		return c.PrivateZone == "" // private clusters need none
	}},
	{"mcr.microsoft.com", "443", true, nil},
	{"*.data.mcr.microsoft.com", "443", true, nil},
	{"mcr-0001.mcr-msedge.net", "443", true, nil},
	{"management.azure.com", "443", true, nil},
	{"login.microsoftonline.com", "443", true, nil},
	{"packages.microsoft.com", "443", true, nil},
	{"acs-mirror.azureedge.net", "443", true, nil},

	{"onegetcdn.azureedge.net", "443", false, windows},
	{"go.microsoft.com", "443", false, windows},
	{"*.mp.microsoft.com", "80", false, windows},
	{"www.msftconnecttest.com", "80", false, windows},
	{"ctldl.windowsupdate.com", "80", false, windows},

	{"dc.services.visualstudio.com", "443", false, ifAddon("omsagent", "azurepolicy")},
	{"*.ods.opinsights.azure.com", "443", false, ifAddon("omsagent")},
	{"*.oms.opinsights.azure.com", "443", false, ifAddon("omsagent")},
	{"*.monitoring.azure.com", "443", false, ifAddon("omsagent")},
	{"REGION.ingest.monitor.azure.com", "443", false, ifAddon("omsagent")},
	{"REGION.handler.control.monitor.azure.com", "443", false, ifAddon("omsagent")},
	{"data.policy.core.windows.net", "443", false, ifAddon("azurepolicy")},
	{"store.policy.core.windows.net", "443", false, ifAddon("azurepolicy")},
	{"vault.azure.net", "443", false, ifAddon("azurekeyvaultsecretsprovider")},
}
