package finding

import (
	"cmp"
	"slices"
)

// Code is the stable name of a kind of finding. Codes are never renamed: people filter on them.
type Code string

// The codes, grouped by what they concern.
const (
	ClusterMissing    Code = "cluster-missing"
	ClusterNotKubenet Code = "cluster-not-kubenet"
	ClusterPodCIDR    Code = "cluster-pod-cidr"

	TableUnknown Code = "table-unknown"
	TableMissing Code = "table-missing"

	AssociationLost  Code = "association-lost"
	AssociationOther Code = "association-other-table"
	SubnetMissing    Code = "subnet-missing"

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
	FabricDiffers    Code = "fabric-differs"
)

// Description is what is known of a code without looking at any network: the docs page of findings is made from it.
type Description struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	// Meaning says what it does to traffic and why it is reported.
	Meaning string `json:"meaning"`
	// Remedy says how it is put right.
	Remedy string `json:"remedy"`
}

// descriptions are those of all codes: of keeping here, and those of the checks of a diagnosis in a file for each family.
var descriptions = slices.Concat(keeping, associations, routes, targets, sharing, gateways, filters, permissions, retirement, azureCNI, beforehand, histories)

var keeping = []Description{
	{ClusterMissing, Error, "The cluster does not exist",
		"ARM answers 404 for the configured cluster. Its routes stay in the targets; the finding says how many. " +
			"With spec.onRemoval: Prune they are deleted, each once it is proven that nothing is behind it.",
		"Correct spec.clusterID. If the cluster is gone for good, set spec.onRemoval: Prune, or see what routekeeper " +
			"prune-orphans would remove; then remove the document."},
	{ClusterNotKubenet, Error, "The cluster does not use kubenet",
		"Only kubenet keeps pod routes in a route table. With any other network plugin there is nothing to copy from one; routes that were copied before a migration stay where they are.",
		"Remove the document, or the routes left behind after a migration to overlay."},
	{ClusterPodCIDR, Error, "The cluster's pod CIDR cannot be used",
		"The pod CIDR is missing, or so wide that it would claim other people's routes, or lies outside the configured spec.podCIDRs. No route can be told to be the cluster's, so none is touched.",
		"Look at networkProfile.podCidr of the cluster, and at spec.podCIDRs."},

	{TableUnknown, Error, "It cannot be told which route table is the cluster's",
		"Neither the config, nor an association, nor the activity log, nor the node resource group names exactly one table. Nothing is written for the cluster: a wrong guess would put the wrong table on its nodes.",
		"Set spec.routeTableID."},
	{TableMissing, Error, "The cluster's route table does not exist",
		"Pods on different nodes cannot reach each other: there is no table to associate. Routes in the targets are left as they are.",
		"Create the table again and associate it with the node subnets; the cluster's cloud provider fills it. A table that AKS made, in the node resource group, " +
			"is AKS's to make: run az aks update, which brings the cluster back to its settings, and check again."},

	{AssociationLost, Error, "A subnet has lost its route table",
		"Packets to pods on other nodes are dropped, or leave by a default route. With egress through a firewall in the same table, the nodes lose that way too.",
		"Associate the table again, or set spec.guard.mode: Enforce."},
	{AssociationOther, Error, "A subnet has another route table than it should",
		"The routes of the table that should be there do not count. Somebody, or Azure Virtual Network Manager, or a policy, put another one in its place.",
		"Find out who did it; then associate the right table, or set spec.guard.onOtherTable: Replace."},
	{SubnetMissing, Error, "A guarded subnet does not exist",
		"ARM answers 404 for it, so its association cannot be kept.",
		"Correct the subnet's ID in spec.guard.subnets, or see whether the cluster's pool still exists."},

	{SourceEmpty, Warning, "The cluster's table holds no route to any of its nodes",
		"Pods on different nodes cannot reach each other by it. Either its routes were lost, and the cloud provider will write them again, or it is not the cluster's table.",
		"See who wrote the table last. If another table is the cluster's, set spec.routeTableID."},
	{SourceHop, Warning, "A route in the cluster's table leads to no node subnet",
		"It looks like a pod route, but its next hop is in none of the cluster's node subnets. It is not copied, because its copies could not be told from other people's routes.",
		"See who wrote the route: the cloud provider writes only addresses of nodes."},
	{PodCIDRsExclude, Warning, "spec.podCIDRs excludes routes of nodes",
		"Pod routes in the cluster's route table lie outside spec.podCIDRs, so they are not" +
			" copied: the pods of these nodes are not reached through the targets.",
		"Widen spec.podCIDRs, or remove it: then all pod CIDRs of the cluster count. " +
			"Nothing, if it is meant."},
	{SurgeShort, Warning, "A node subnet cannot take the next surge",
		"An upgrade makes surge nodes first, as many as the pool's maxSurge says, and each " +
			"takes an address. The node subnet has fewer free: the upgrade will fail.",
		"Free addresses, lower the pool's maxSurge, or move the pool to a larger subnet: " +
			"routekeeper capacity says how large."},
	{DeletesWithheld, Error, "Deletes are withheld",
		"The cluster's table lacks routes that a target has, and nothing proves that their nodes are gone: a network interface holds the next hop, or the interfaces of the nodes were not all seen. Each route that is proven stale is deleted all the same. To delete the route to a living node would cut off its pods; to keep a stale one costs little.",
		"For each route the evidence says what is missing. If the nodes are there, see why the cluster's table lost their routes. Where the network interfaces cannot be read, give the identity read access to the node resource group."},
	{UpdatesWithheld, Error, "Updates are withheld",
		"The cluster's table leads to another next hop than a target, and no network interface of the cluster's nodes is known to have it. The target keeps the next hop that it has: a wrong route must not overwrite a good copy.",
		"See who changed the next hop in the cluster's table: the cloud provider never repairs it. Where the network interfaces cannot be read, give the identity read access to the node resource group."},
	{TargetMissing, Error, "A target route table does not exist",
		"There is nothing to copy the routes to.",
		"Create the table and associate it with its subnet, or remove the target."},
	{TargetIsSource, Error, "A target is a cluster's own route table",
		"A cluster's own table is never written: its cloud provider owns it, and a foreign write makes it fail for a while. " +
			"A table without pod routes counts as one where nodes of a cluster that no config names are in its subnet.",
		"Remove the target."},
	{TargetDrift, Warning, "A target differs, and is only watched",
		"Pod routes are missing, stale or wrong in the target: from its subnets, packets to those pods are dropped or go to the wrong node.",
		"Let routekeeper sync or run keep it; where the target's policy is Observe, routekeeper promote sets it to Sync."},
	{TargetFull, Error, "A target route table has no room",
		"The routes to add do not all fit under the table's limit. As many as fit are added, in the order of their prefixes; the pods of the other nodes are not reachable through this target.",
		"Remove routes, aggregate the unmanaged ones, or, where Azure Virtual Network Manager raised the limit, set maxRoutes."},
	{StaleKept, Info, "Stale routes stay, because the policy is UpsertOnly",
		"Routes to nodes that are gone remain in the target.",
		"Set the target's policy to Sync to have them deleted."},
	{PrefixTaken, Error, "A node's pod CIDR is routed by somebody else",
		"A table holds one route for a prefix. The one that is there leads elsewhere and is not the cluster's, so it stays, and the node's pods are not reachable through this target.",
		"Remove the unmanaged route."},
	{UnmanagedOverlap, Info, "A foreign route covers pod addresses",
		"Packets to pods of nodes that have no route of their own go where the foreign route leads. The nodes' own routes are longer and win.",
		"Nothing, if it is meant."},
	{UnmanagedShadow, Warning, "A foreign route is more specific than a pod route",
		"Packets to some pods go where the foreign route leads instead of to their node.",
		"Remove the foreign route if it is not meant."},
	{ClustersOverlap, Warning, "Two clusters share a target and overlap",
		"Their pod CIDRs overlap, so one table cannot hold the routes of both: for a prefix that both have, the route that is there stays.",
		"Give each cluster a target of its own, or recreate one with another pod CIDR."},

	{AzureUnreachable, Error, "Azure does not answer",
		"Nothing that was asked for a cluster was answered: there was no connection, no answer in time, or an error of Azure's own (408, 5xx). What is not seen is not changed: everything stays as it is until Azure answers again. However many clusters are concerned, it is one finding.",
		"Check the network between this program and Azure Resource Manager (a proxy is taken from HTTPS_PROXY), and https://azure.status.microsoft."},
	{ReadFailed, Error, "A resource could not be read",
		"What is not seen is not changed: everything that depends on this resource is left as it is. All other work goes on.",
		"Where Azure refuses, give the identity read access at the scope the message names; otherwise see the message."},
	{WriteRefused, Error, "Azure refuses a write",
		"A missing permission, a lock or a policy says no. It is tried again after a minute, and then less and less often, but will not help itself.",
		"Give the identity the action that the message names, or remove the lock or the policy assignment."},
	{WriteFailed, Error, "A write failed",
		"What passes by itself was tried several times. It is tried again: what passes with the next round, what does not after a minute, and then less and less often.",
		"See the message."},
	{WriteUndone, Error, "A write is undone as fast as it is made",
		"The change was written and accepted, but reading it back showed it gone: somebody else writes the same resource.",
		"See the activity log for who writes it."},
	{Conflict, Error, "Somebody undoes the same change again and again",
		"A lost route table or a pod route was put right, and undone three times within ten minutes: a pipeline, a policy or another keeper wants it otherwise. The keeper does not give up, but waits ever longer, five minutes at most; in between traffic is broken. It is over once a change has stood for ten minutes.",
		"Correct whoever writes the resource: the finding names who it was, where the activity log shows it. It knows minutes later only."},
	{WriteDropped, Warning, "Reading back showed other fields changed",
		"Besides what was written, other fields differ from what was sent: somebody else changed the resource in the same moment, or Azure dropped them.",
		"Compare the named fields with your templates."},
	{Unsettled, Error, "The last operation on a resource failed",
		"The resource reads as it should, but its provisioning state is Failed: what it says may not be in effect.",
		"Write it again unchanged, with the command the finding names; see the activity log for what failed."},
	{Paused, Info, "The keeper is paused",
		"Somebody told it to change nothing for a while. It goes on looking; what is lost meanwhile stays lost until the pause is over.",
		"routekeeper resume ends it."},
	{ChangesLimited, Warning, "Changes of routes wait for the limit",
		"More routes were to be changed than the limit allows in a minute, over all clusters. " +
			"So a mistake that makes many routes look wrong at once does not change all of them " +
			"before somebody sees it. The changes that wait are made in the next minutes; " +
			"associations never wait.",
		"See whether the changes are meant: routekeeper sync --dry-run shows them. If they are, wait, " +
			"or set --max-changes-per-minute."},
	{FabricDiffers, Error, "Azure's network does not follow a write",
		"A write was accepted and read back, but a minute later Azure still says that packets of " +
			"a node go another way: its effective route, or Network Watcher's next hop, differs from " +
			"the route table. Packets to pods of the named prefix may be lost.",
		"Look at the effective routes of the named network interface again. If they still differ, " +
			"write the resource again unchanged, and open a case with Azure's support."},
}

// Describe returns what is known of a code; for an unknown one, an empty description with severity Error.
func Describe(code Code) Description {
	for _, d := range descriptions {
		if d.Code == code {
			return d
		}
	}
	return Description{Code: code, Severity: Error}
}

// breaking are the codes that, as errors, mean that packets of pods are lost now.
var breaking = []Code{
	AssociationLost, AssociationOther, TableMissing, EgressDropped,
	PoolWithoutTable, NetworkManagerTable, PolicyTable,
	NodeWithoutRoute, RouteUnnoticed, RouteHalf, WrongHop, ClaimedTwice, RouteShadows, ForwardingOff, TableFull, NetworkUnavailable,
	SubnetShared, TableShared, PodsInNetwork,
	GatewayDefaultRoute, GatewaySharesTable, GatewayRoutesMissing, GatewayNoTable, PeeringMissing, EgressRouteMissing, NextHopUnreachable, FilterBlocksPods,
}

// BreaksTraffic reports whether an error of this code means that packets of pods are lost now, and not only that something cannot be
// told or kept.
func BreaksTraffic(code Code) bool { return slices.Contains(breaking, code) }

// All returns the descriptions of all codes, sorted by code.
func All() []Description {
	all := slices.Clone(descriptions)
	slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.Code, b.Code) })
	return all
}
