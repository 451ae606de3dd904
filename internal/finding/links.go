package finding

// Microsoft's pages that explain what findings are about, by the last part of their address.
const (
	microsoft = "https://learn.microsoft.com/azure/"

	pageKubenet     = microsoft + "aks/configure-kubenet"
	pageMigration   = microsoft + "aks/update-azure-cni"
	pageOverlay     = microsoft + "aks/concepts-network-azure-cni-overlay"
	pagePodSubnet   = microsoft + "aks/concepts-network-azure-cni-pod-subnet"
	pagePlanning    = microsoft + "aks/concepts-network-ip-address-planning"
	pageUpgrade     = microsoft + "aks/upgrade-aks-cluster"
	pageEgress      = microsoft + "aks/egress-outboundtype"
	pageOutbound    = microsoft + "aks/outbound-rules-control-egress"
	pageEgressUDR   = microsoft + "aks/egress-udr"
	pageLockdown    = microsoft + "aks/node-resource-group-lockdown"
	pageStop        = microsoft + "aks/start-stop-cluster"
	pageRoutes      = microsoft + "virtual-network/virtual-networks-udr-overview"
	pageRouteTable  = microsoft + "virtual-network/manage-route-table"
	pageRouting     = microsoft + "virtual-network/diagnose-network-routing-problem"
	pageSubnet      = microsoft + "virtual-network/virtual-network-manage-subnet"
	pageDelegation  = microsoft + "virtual-network/subnet-delegation-overview"
	pagePeering     = microsoft + "virtual-network/virtual-network-peering-overview"
	pageAPIServer   = microsoft + "aks/api-server-vnet-integration"
	pageProbes      = microsoft + "load-balancer/load-balancer-custom-probe-overview"
	pageInterface   = microsoft + "virtual-network/virtual-network-network-interface"
	pageManager     = microsoft + "virtual-network-manager/concept-user-defined-route"
	pageGateway     = microsoft + "application-gateway/configuration-infrastructure"
	pageIngress     = microsoft + "application-gateway/ingress-controller-overview"
	pageIngressHelp = microsoft + "application-gateway/ingress-controller-troubleshoot"
	pageContainers  = microsoft + "application-gateway/for-containers/container-networking"
	pageExemption   = microsoft + "governance/policy/concepts/exemption-structure"
	pageRoles       = microsoft + "role-based-access-control/troubleshooting"
	pageLock        = microsoft + "azure-resource-manager/management/lock-resources"
	pageLimits      = microsoft +
		"azure-resource-manager/management/azure-subscription-service-limits"
	pageTags       = microsoft + "azure-resource-manager/management/tag-resources"
	pageThrottling = microsoft + "azure-resource-manager/management/request-limits-and-throttling"
	pageBicep      = microsoft + "azure-resource-manager/bicep/scenarios-virtual-networks"
)

// pages are Microsoft's pages by code.
var pages = map[Code]string{
	AssociationLost: pageKubenet, AssociationOther: pageKubenet, PoolWithoutTable: pageKubenet,
	NetworkManagerTable: pageManager, PolicyTable: pageExemption, TableElsewhere: pageRouteTable,
	PolicyOpposes: pageExemption,
	EgressInTable: pageEgressUDR, EgressDropped: pageEgressUDR, EgressRouteMissing: pageEgressUDR,
	EgressRouteLost: pageEgressUDR,
	EgressBypassed:  pageEgressUDR, EgressDiffers: pageEgress, EgressRulesMissing: pageOutbound,
	EgressFirewallUnknown: pageOutbound, NextHopUnreachable: pageRoutes,

	ClusterNotKubenet: pageKubenet, TableUnknown: pageKubenet, TableMissing: pageKubenet,
	SourceEmpty: pageKubenet, SourceHop: pageKubenet, SubnetMissing: pageSubnet,
	DeleteRefused: pageSubnet, GuardPaused: pageTags, GuardTag: pageTags,
	GuardEnded:     pageKubenet,
	TargetIsSource: pageKubenet, TargetFull: pageLimits, TargetMissing: pageRouteTable,
	PrefixTaken: pageRoutes, UnmanagedOverlap: pageRoutes, UnmanagedShadow: pageRoutes,

	NodeWithoutRoute: pageKubenet, RouteUnnoticed: pageKubenet, RouteHalf: pageKubenet,
	RouteToGoneNode: pageKubenet, WrongHop: pageKubenet, HopNotNode: pageKubenet,
	RouteInPodCIDR: pageRoutes, RouteShadows: pageRoutes, ForwardingOff: pageInterface,
	TableFilling: pageLimits, TableFull: pageLimits, NetworkUnavailable: pageKubenet,
	SubnetShared: pageKubenet, TableShared: pageKubenet, PodCIDRsOverlap: pageKubenet,
	PodsInNetwork: pagePlanning, ServicesOverlap: pagePlanning, ReservedRange: pagePlanning,
	FilterBlocksPods: pageOverlay, FilterBlocksNodes: pageOverlay,
	FilterBlocksAPI: pageAPIServer, FilterBlocksProbes: pageProbes,
	FilterBlocksEgress: pageOutbound, ClusterStopped: pageStop,

	AddressesExhausted: pagePlanning, AddressesNearly: pagePlanning, AddressesShort: pagePlanning,
	SurgeShort: pageUpgrade, PodOutside: pagePodSubnet, NodeOutside: pagePodSubnet,
	SubnetUsedTwice: pagePodSubnet, SubnetDelegated: pageDelegation,
	ContainersSubnet: pageContainers,

	GatewayDefaultRoute: pageGateway, GatewaySharesTable: pageGateway,
	GatewayRoutesMissing: pageIngressHelp, GatewayNoTable: pageIngressHelp,
	GatewayMissing: pageIngressHelp, GatewayDiffers: pageIngressHelp,
	GatewayStopped: pageIngressHelp, GatewayNotV2: pageIngress, PeeringMissing: pagePeering,
	PeeringForwarding: pagePeering,

	IdentityLacks: pageKubenet, AddonLacks: pageIngressHelp, CallerLacks: pageRoles,
	RightsUnread: pageRoles, WriteRefused: pageRoles, ResourceLocked: pageLock,
	NodeGroupLocked: pageLockdown, AzureUnreachable: pageThrottling,

	KubenetRetired: pageMigration, ClusterMigrating: pageMigration,
	MigrationTable: pageMigration, MigrationOrphans: pageMigration,
	MigrationPodCIDR: pageOverlay, MigrationIdentity: pageMigration,
	MigrationPolicy: pageMigration, MigrationWindows: pageMigration,
	MigrationVersion: pageMigration, MigrationPoolKind: pageOverlay,
	MigrationNameLength: pageOverlay, MigrationMachines: pageOverlay,
	MigrationContainers: pageContainers,

	IaCStrips: pageBicep, IaCMayStrip: pageBicep, IaCAnotherTable: pageSubnet, IaCFlaps: pageSubnet,
	IaCRecreates: pageBicep, IaCMigrates: pageMigration, IaCRoutes: pageRouteTable,
	IaCMayRoutes: pageRouteTable,
}

// Page returns the address of Microsoft's page about what a code reports, "" where there is none:
// then the finding is about routekeeper itself or about infrastructure code.
func (d Description) Page() string { return pages[d.Code] }
