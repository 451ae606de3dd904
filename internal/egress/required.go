package egress

// AsOf is the date on which these pages were read. The table copies Microsoft's page
// outbound-rules-control-egress, commit 126786f03e56 of MicrosoftDocs/azure-aks-docs, and adds what
// later pages say: packages.aks.azure.com replaced acs-mirror.azureedge.net (AKS#4792), and the
// names of Azure Backup (azure/backup/quick-install-backup-extension). "For any addons that aren't
// explicitly stated here, the core requirements cover it": workload identity, image cleaner, the
// cost analysis add-on in two of the clouds, and others have no rows.
const AsOf = "22 November 2026"

// cloud is an Azure cloud.
type cloud int

const (
	public cloud = iota
	government
	china
)

// required is a destination that a cluster's nodes must reach. REGION stands for the cluster's
// region, API for the name of its API server.
type required struct {
	// names are by cloud. A cloud that is missing needs none.
	names map[cloud]string
	// port is 443 with HTTPS or 80 with HTTP. If it names a protocol, only a network rule can allow
	// the destination.
	port string
	// tagged is set if the FQDN tag AzureKubernetesService includes the destination.
	tagged bool
	// service is a service tag that may replace the name in a network rule, or "".
	service string
	needed  func(*subject) need // nil: every cluster needs it
}

// everywhere returns a name that is the same in all clouds.
func everywhere(name string) map[cloud]string {
	return map[cloud]string{public: name, government: name, china: name}
}

// in returns the names of the clouds, in the order public, Government, China, or "" for none.
func in(names ...string) map[cloud]string {
	out := map[cloud]string{}
	for i, name := range names {
		if name != "" {
			out[cloud(i)] = name
		}
	}
	return out
}

const (
	monitor    = "AzureMonitor"
	azureCloud = "AzureCloud"

	kindFlux   = "microsoft.flux"
	kindBackup = "microsoft.dataprotection.kubernetes"
)

// table has the rules for names, and then those for addresses.
var table = []required{
	// A private cluster's API server has an address in its own network.
	{in("*.hcp.REGION.azmk8s.io", "*.hcp.REGION.cx.aks.containerservice.azure.us",
		"*.hcp.REGION.cx.prod.service.azk8s.cn"), "443", true, "", notPrivate},
	{in("", "", "*.tun.REGION.cx.prod.service.azk8s.cn"), "443", true, "", notPrivate},
	{everywhere("mcr.microsoft.com"), "443", true, "", nil},
	{everywhere("*.data.mcr.microsoft.com"), "443", true, "", nil},
	{in("mcr-0001.mcr-msedge.net"), "443", true, "", nil},
	{in("management.azure.com", "management.usgovcloudapi.net", "management.chinacloudapi.cn"),
		"443", true, "", nil},
	{in("login.microsoftonline.com", "login.microsoftonline.us", "login.chinacloudapi.cn"), "443",
		true, "", nil},
	{everywhere("packages.microsoft.com"), "443", true, "", nil},
	{in("packages.aks.azure.com", "packages.aks.azure.com", "*.azk8s.cn"), "443", true, "", nil},
	{in("acs-mirror.azureedge.net", "acs-mirror.azureedge.net"), "443", true, "",
		when("node images are from before June 2025")},

	{everywhere("nvidia.github.io"), "443", false, "", gpu},
	{everywhere("us.download.nvidia.com"), "443", false, "", gpu},
	{everywhere("download.docker.com"), "443", false, "", gpu},

	{everywhere("onegetcdn.azureedge.net"), "443", false, "", windows},
	{everywhere("go.microsoft.com"), "443", false, "", windows},
	{everywhere("*.mp.microsoft.com"), "80", false, "", windows},
	{everywhere("www.msftconnecttest.com"), "80", false, "", windows},
	{everywhere("ctldl.windowsupdate.com"), "80", false, "", windows},

	{in("", "", "login.microsoftonline.cn"), "443", false, "", or(defender, cost)},
	{in("dc.services.visualstudio.com", "dc.services.visualstudio.us",
		"dc.services.visualstudio.cn"), "443", false, monitor, addon("omsagent")},
	{in("*.ods.opinsights.azure.com", "*.ods.opinsights.azure.us", "*.ods.opinsights.azure.cn"),
		"443", false, monitor, or(addon("omsagent"), defender)},
	{in("*.oms.opinsights.azure.com", "*.oms.opinsights.azure.us", "*.oms.opinsights.azure.cn"),
		"443", false, monitor, or(addon("omsagent"), defender)},
	{in("*.monitoring.azure.com"), "443", false, monitor, or(addon("omsagent"), metrics)},
	{in("REGION.ingest.monitor.azure.com"), "443", false, monitor, or(addon("omsagent"), metrics)},
	{in("", "global.handler.control.monitor.azure.us", "global.handler.control.monitor.azure.cn"),
		"443", false, monitor, or(addon("omsagent"), metrics)},
	{in("REGION.handler.control.monitor.azure.com", "REGION.handler.control.monitor.azure.us",
		"REGION.handler.control.monitor.azure.cn"), "443", false, monitor,
		or(addon("omsagent"), metrics)},

	{in("data.policy.core.windows.net", "data.policy.azure.us", "data.policy.azure.cn"), "443",
		false, "", addon("azurepolicy")},
	{in("store.policy.core.windows.net", "store.policy.azure.us", "store.policy.azure.cn"), "443",
		false, "", addon("azurepolicy")},
	{in("dc.services.visualstudio.com"), "443", false, "", func(c *subject) need {
		if addon("omsagent")(c) != no { // once
			return no
		}
		return addon("azurepolicy")(c)
	}},

	{in("vault.azure.net", "*.vault.usgovcloudapi.net"), "443", false, "",
		addon("azurekeyvaultsecretsprovider")},

	{in("REGION.dp.kubernetesconfiguration.azure.com",
		"REGION.dp.kubernetesconfiguration.azure.us"),
		"443", false, "", extension("")},
	{in("*.ingestion.msftcloudes.com"), "443", false, "", extension("")},
	{in("*.microsoftmetrics.com"), "443", false, "", extension("")},
	{in("arcmktplaceprod.azurecr.io"), "443", false, "", marketplace},
	{in("arcmktplaceprod.centralindia.data.azurecr.io"), "443", false, "", marketplace},
	{in("arcmktplaceprod.japaneast.data.azurecr.io"), "443", false, "", marketplace},
	{in("arcmktplaceprod.westus2.data.azurecr.io"), "443", false, "", marketplace},
	{in("arcmktplaceprod.westeurope.data.azurecr.io"), "443", false, "", marketplace},
	{in("arcmktplaceprod.eastus.data.azurecr.io"), "443", false, "", marketplace},
	{in("marketplaceapi.microsoft.com"), "443", false, "", marketplace},
	// The page of Azure Backup has no narrower names.
	{in("*.core.windows.net", "", "*.core.chinacloudapi.cn"), "443", false, "", backup},
	{in("*.microsoft.com", "", "*.microsoft.com"), "443", false, "", backup},
	{in("*.azure.com", "", "*.azure.com"), "443", false, "", backup},
	{in("*.azmk8s.io", "", "*.azmk8s.io"), "443", false, "", backup},
	{in("*.digicert.com", "", "*.digicert.com"), "80", false, "", backup},
	{in("*.digicert.cn", "", "*.digicert.cn"), "80", false, "", backup},
	{in("*.geotrust.com", "", "*.geotrust.com"), "80", false, "", backup},
	{in("*.msocsp.com", "", "*.msocsp.com"), "80", false, "", backup},

	{everywhere("AzureCloud.REGION"), "1194/UDP", false, azureCloud, tunnel},
	{everywhere("AzureCloud.REGION"), "9000/TCP", false, azureCloud, tunnel},
	{in("", "", "AzureCloud.REGION"), "22/TCP", false, azureCloud, tunnel},
	{everywhere("ntp.ubuntu.com"), "123/UDP", false, "", ntp},
	{everywhere("API"), "443/TCP", false, azureCloud, direct},
}
