package finding

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/docs"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Code is the stable name of a kind of finding. Codes are never renamed, because people filter by
// them.
type Code string

// The codes of a keeper, grouped by what they concern.
const (
	ClusterMissing    Code = "cluster-missing"
	ClusterNotKubenet Code = "cluster-not-kubenet"
	ClusterPodCIDR    Code = "cluster-pod-cidr"

	TableUnknown Code = "table-unknown"
	TableMissing Code = "table-missing"

	AssociationLost  Code = "association-lost"
	AssociationOther Code = "association-other-table"
	SubnetMissing    Code = "subnet-missing"
	DeleteRefused    Code = "delete-refused"
	GuardPaused      Code = "guard-paused"
	GuardTagInvalid  Code = "guard-tag-invalid"
	GuardEnded       Code = "guard-ended"

	SourceEmpty      Code = "source-empty"
	SourceHop        Code = "source-hop-outside"
	PodCIDRsExclude  Code = "pod-cidrs-exclude-nodes"
	SurgeShort       Code = "surge-does-not-fit"
	DeletesWithheld  Code = "deletes-withheld"
	UpdatesWithheld  Code = "updates-withheld"
	TargetMissing    Code = "target-missing"
	TargetIsSource   Code = "target-is-source"
	TargetDrift      Code = "target-drift"
	TargetFull       Code = "target-full"
	StaleKept        Code = "stale-routes-kept"
	PrefixTaken      Code = "prefix-taken"
	UnmanagedOverlap Code = "unmanaged-overlap"
	UnmanagedShadow  Code = "unmanaged-shadow"
	ClustersOverlap  Code = "clusters-overlap"

	AzureUnreachable Code = "azure-unreachable"
	ReadFailed       Code = "read-failed"
	WriteRefused     Code = "write-refused"
	WriteFailed      Code = "write-failed"
	WriteUndone      Code = "write-undone"
	WriteDropped     Code = "write-dropped-fields"
	Unsettled        Code = "last-operation-failed"
	Conflict         Code = "conflict"
	Paused           Code = "paused"
	ChangesLimited   Code = "changes-limited"
	ChangesWithheld  Code = "changes-withheld"
	TooManyOpenFiles Code = "too-many-open-files"
	AnotherKeeper    Code = "another-keeper"
)

// Codes of associations, in addition to those of package plan.
const (
	PoolWithoutTable    Code = "pool-without-table"
	NetworkManagerTable Code = "network-manager-table"
	PolicyTable         Code = "policy-table"
	TableElsewhere      Code = "table-elsewhere"
	EgressInTable       Code = "egress-in-cluster-table"
	EgressDropped       Code = "egress-dropped"
)

// Codes of the routes in a cluster's route table, and of the nodes they lead to.
const (
	NodeWithoutRoute   Code = "node-without-route"
	RouteUnnoticed     Code = "missing-route-unnoticed"
	RouteHalf          Code = "dual-stack-half"
	RouteToGoneNode    Code = "route-to-gone-node"
	WrongHop           Code = "wrong-next-hop"
	HopNotNode         Code = "next-hop-not-a-node"
	ClaimedTwice       Code = "pod-cidr-claimed-twice"
	RouteInPodCIDR     Code = "route-in-pod-cidr"
	RouteShadows       Code = "route-shadows-pods"
	ForwardingOff      Code = "ip-forwarding-off"
	TableFilling       Code = "table-filling"
	TableFull          Code = "table-full"
	NetworkUnavailable Code = "network-unavailable"
	ClusterStopped     Code = "cluster-stopped"
	KubernetesUnread   Code = "kubernetes-unread"
	NodesDisagree      Code = "nodes-disagree"
	NodeNotReady       Code = "node-not-ready"
	NodesUnread        Code = "nodes-unread"
	KubeloginMissing   Code = "kubelogin-missing"
	OverlayRoutes      Code = "overlay-routes"
)

// Codes of pod routes in tables that no config manages.
const (
	RoutesOrphaned Code = "routes-orphaned"
	RoutesUnkept   Code = "routes-unkept"
)

// Codes of clusters and networks that interfere with each other.
const (
	SubnetShared    Code = "subnet-shared"
	TableShared     Code = "table-shared"
	PodCIDRsOverlap Code = "pod-cidrs-overlap"
	PodsInNetwork   Code = "pod-cidr-in-network"
	ServicesOverlap Code = "service-cidr-overlap"
	ReservedRange   Code = "reserved-range"
)

// Codes of gateways and egress.
const (
	GatewayDefaultRoute  Code = "gateway-default-route"
	GatewaySharesTable   Code = "gateway-shares-table"
	GatewayRoutesMissing Code = "gateway-routes-missing"
	GatewayNoTable       Code = "gateway-no-table"
	PeeringMissing       Code = "peering-missing"
	PeeringForwarding    Code = "peering-forwarding"
	EgressRouteMissing   Code = "egress-route-missing"
	EgressHopGone        Code = "egress-hop-gone"
	EgressRouteLost      Code = "egress-route-lost"
	EgressBypassed       Code = "egress-bypassed"
	NextHopUnreachable   Code = "next-hop-unreachable"
	EgressDiffers        Code = "egress-differs"

	EgressRulesMissing    Code = "egress-rules-missing"
	EgressFirewallUnknown Code = "egress-firewall-unknown"
	GatewayMissing        Code = "gateway-missing"
	GatewayDiffers        Code = "gateway-differs"
	GatewayNotV2          Code = "gateway-not-v2"
	GatewayStopped        Code = "gateway-stopped"
)

// Codes of network security groups.
const (
	FilterBlocksPods   Code = "filter-blocks-pods"
	FilterBlocksNodes  Code = "filter-blocks-nodes"
	FilterBlocksAPI    Code = "filter-blocks-api-server"
	FilterBlocksProbes Code = "filter-blocks-probes"
	FilterBlocksEgress Code = "filter-blocks-egress"
)

// Codes of permissions and locks.
const (
	IdentityLacks   Code = "identity-lacks-permission"
	AddonLacks      Code = "add-on-lacks-permission"
	CallerLacks     Code = "caller-lacks-permission"
	RightsUnread    Code = "rights-unread"
	ResourceLocked  Code = "resource-locked"
	NodeGroupLocked Code = "node-group-locked-down"
	PolicyOpposes   Code = "policy-opposes"
)

// Codes of the migration away from kubenet.
const (
	KubenetRetired      Code = "kubenet-retired"
	ClusterMigrating    Code = "cluster-migrating"
	MigrationTable      Code = "migration-gateway-on-table"
	MigrationOrphans    Code = "migration-orphans"
	MigrationPodCIDR    Code = "migration-pod-cidr"
	MigrationIdentity   Code = "migration-identity"
	MigrationPolicy     Code = "migration-policy"
	MigrationWindows    Code = "migration-windows"
	MigrationVersion    Code = "migration-version"
	MigrationPoolKind   Code = "migration-pool-kind"
	MigrationNameLength Code = "migration-name-length"
	MigrationMachines   Code = "migration-vm-size"
	MigrationContainers Code = "migration-agc-subnet"
)

// Codes of Azure CNI clusters.
const (
	PodOutside       Code = "pod-outside-pod-subnet"
	NodeOutside      Code = "node-outside-node-subnet"
	SubnetUsedTwice  Code = "subnet-used-twice"
	SubnetDelegated  Code = "subnet-delegated"
	ContainersSubnet Code = "agc-subnet"
	// AutoProvisionedSubnet is about nodes that node auto-provisioning made.
	AutoProvisionedSubnet Code = "auto-provisioned-subnet"
	AddressesExhausted    Code = "addresses-exhausted"
	AddressesNearly       Code = "addresses-nearly-exhausted"
	AddressesShort        Code = "addresses-short-at-maximum"
)

// Codes of infrastructure code that was not applied yet.
const (
	IaCStrips       Code = "iac-strips"
	IaCMayStrip     Code = "iac-may-strip"
	IaCAnotherTable Code = "iac-another-table"
	IaCFlaps        Code = "iac-flaps"
	IaCRecreates    Code = "iac-recreates"
	IaCDestroys     Code = "iac-destroys-cluster"
	IaCMigrates     Code = "iac-starts-migration"
	IaCRoutes       Code = "iac-removes-routes"
	IaCMayRoutes    Code = "iac-may-remove-routes"
	IaCUseless      Code = "iac-useless-protection"
	IaCUnknown      Code = "iac-not-understood"
	IaCNote         Code = "iac-note"
)

// The code of the history.
const (
	HistoryDegraded Code = "history-degraded"
)

// Codes of messages to people.
const (
	NotifyFailed   Code = "notify-failed"
	PauseForgotten Code = "pause-forgotten"
	Silenced       Code = "silenced"
	SilenceEnded   Code = "silence-ended"
)

// Description explains a code.
type Description struct {
	Code     Code
	Severity Severity
	Title    string
	// Meaning says what the problem does to traffic, and why it is reported. Remedy says how to fix
	// it.
	Meaning, Remedy string
	// Page is Microsoft's page about it, or "" if the finding is about routekeeper itself or about
	// infrastructure code.
	Page string
}

// descriptions are those of docs/findings.md. It has a section for each code, with a paragraph each
// for the title and the severity, the meaning, the remedy, and Microsoft's page if there is one.
var descriptions = lazy.Value(func() map[Code]Description { return read(docs.Findings) })

func read(page string) map[Code]Description {
	all := map[Code]Description{}
	page = strings.ReplaceAll(page, "\r\n", "\n")
	for _, section := range strings.Split(page, "\n## ")[1:] {
		parts := strings.Split(strings.TrimSpace(section), "\n\n")
		for i := range parts {
			parts[i] = strings.ReplaceAll(parts[i], "\n", " ")
		}
		title, severity, _ := strings.Cut(strings.TrimPrefix(parts[1], "**"), ".** Severity: ")
		d := Description{Code: Code(parts[0]), Title: title, Meaning: parts[2],
			Remedy: strings.TrimPrefix(parts[3], "What to do: ")}
		if err := d.Severity.UnmarshalText([]byte(strings.TrimSuffix(severity, "."))); err != nil {
			panic(err) // the page is embedded, and a test reads it
		}
		if len(parts) > 4 {
			d.Page = strings.TrimSuffix(strings.TrimPrefix(parts[4], "Microsoft's page: <"), ">")
		}
		all[d.Code] = d
	}
	return all
}

// Describe returns the description of a code. An unknown code has an empty one with severity Error.
func Describe(code Code) Description {
	if d, known := descriptions()[code]; known {
		return d
	}
	return Description{Code: code, Severity: Error}
}

// All returns the descriptions of all codes, sorted by code.
func All() []Description {
	return slices.SortedFunc(maps.Values(descriptions()), func(a, b Description) int {
		return cmp.Compare(a.Code, b.Code)
	})
}

// keeping has the codes about the tables and subnets that a keeper manages.
var keeping = []Code{
	ClusterMissing, ClusterNotKubenet, ClusterPodCIDR, TableUnknown, TableMissing, AssociationLost,
	AssociationOther, SubnetMissing, DeleteRefused, GuardPaused, GuardTagInvalid, GuardEnded,
	SourceEmpty, SourceHop, PodCIDRsExclude, SurgeShort, DeletesWithheld, UpdatesWithheld,
	TargetMissing, TargetIsSource, TargetDrift, TargetFull, StaleKept, PrefixTaken,
	UnmanagedOverlap,
	UnmanagedShadow, ClustersOverlap, AzureUnreachable, ReadFailed, WriteRefused, WriteFailed,
	WriteUndone, WriteDropped, Unsettled, Conflict, Paused, ChangesLimited, ChangesWithheld,
	TooManyOpenFiles, AnotherKeeper,
}

// breaking has the codes whose errors mean that pods lose packets now.
var breaking = []Code{
	AssociationLost, AssociationOther, TableMissing, EgressDropped,
	PoolWithoutTable, NetworkManagerTable, PolicyTable,
	NodeWithoutRoute, RouteUnnoticed, RouteHalf, WrongHop, ClaimedTwice, RouteShadows,
	ForwardingOff, TableFull, NetworkUnavailable,
	SubnetShared, TableShared, PodsInNetwork,
	GatewayDefaultRoute, GatewaySharesTable, GatewayRoutesMissing, GatewayNoTable, PeeringMissing,
	EgressRouteMissing, EgressRouteLost, EgressHopGone, NextHopUnreachable, FilterBlocksPods,
	FilterBlocksNodes, FilterBlocksAPI,
}

// BreaksTraffic reports whether an error of this code means that pods lose packets now.
func BreaksTraffic(code Code) bool { return slices.Contains(breaking, code) }

// Threatens reports whether a finding of this code is about the delivery of packets, now or soon,
// and not about plans such as a migration.
func Threatens(code Code) bool {
	return BreaksTraffic(code) || slices.Contains(keeping, code)
}
