package finding

import (
	"cmp"
	"slices"
)

// Code is the stable name of a kind of finding. Codes are never renamed, because people filter by
// them.
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
	DeleteRefused    Code = "delete-refused"
	GuardPaused      Code = "guard-paused"
	GuardTag         Code = "guard-tag-invalid"
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

// Description explains a code. The docs page of findings is made from it.
type Description struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	// Meaning says what the problem does to traffic, and why it is reported.
	Meaning string `json:"meaning"`
	// Remedy says how to fix it.
	Remedy string `json:"remedy"`
}

// descriptions are those of all codes: of package plan here, of the diagnosis in a file for each
// family.
var descriptions = slices.Concat(keeping, associations, routes, targets, sharing, gateways, filters,
	permissions, retirement, azureCNI, beforehand, histories, notifying)

var keeping = []Description{
	{ClusterMissing, Error, "The cluster does not exist",
		"ARM answers 404 for the configured cluster. Its routes stay in the targets; the " +
			"finding says how many. With spec.onRemoval: Prune, each route is deleted once it " +
			"is proven that no machine uses its next hop.",
		"Correct spec.clusterID. If the cluster is gone for good, set spec.onRemoval: " +
			"Prune, or run routekeeper sync prune to see what it would remove. Then remove " +
			"the document."},
	{ClusterNotKubenet, Error, "The cluster does not use kubenet",
		"Only kubenet stores pod routes in a route table. With any other network plugin " +
			"there are no routes to copy. Routes copied before a migration stay where they " +
			"are.",
		"Remove the document from the config. After a migration to overlay, set " +
			"spec.onRemoval: Prune first: the keeper then deletes the leftover routes."},
	{ClusterPodCIDR, Error, "The cluster's pod CIDR cannot be used",
		"The pod CIDR is missing, lies outside spec.podCIDRs, or is so wide that it would " +
			"claim unmanaged routes. No route can be identified as the cluster's, so none is " +
			"changed.",
		"Check networkProfile.podCidr of the cluster, and spec.podCIDRs in the config."},

	{TableUnknown, Error, "The cluster's route table cannot be identified",
		"Neither the config, nor an association, nor the activity log, nor the node " +
			"resource group names exactly one table. Nothing is written for the cluster: a " +
			"wrong guess would put the wrong table on its nodes.",
		"Set spec.routeTableID."},
	{TableMissing, Error, "The cluster's route table does not exist",
		"Pods on different nodes cannot reach each other: there is no table to associate. " +
			"Routes in the targets stay as they are.",
		"Create the table again and associate it with the node subnets; the cluster's " +
			"cloud provider fills it. If AKS made the table (it was in the node resource " +
			"group), AKS must make it again: run az aks update, which brings the cluster back " +
			"to its settings, and check again."},

	{AssociationLost, Error, "A subnet has lost what it must have",
		"It has no route table, NAT gateway or network security group any more. Without its " +
			"table, a kubenet cluster's packets to pods on other nodes are dropped, and egress " +
			"through a firewall is dropped or goes past the firewall. Without its NAT gateway, " +
			"egress is dropped or goes another way.",
		"Put it back, or set spec.guard.mode: Enforce, for a network security group also " +
			"spec.guard.securityGroups: Enforce."},
	{AssociationOther, Error, "A subnet has another one than it must have",
		"It has another route table, NAT gateway or network security group, so the expected " +
			"one has no effect. Another user, a policy or Azure Virtual Network Manager " +
			"replaced it.",
		"Find out who replaced it. Then put the expected one in its place, or set " +
			"spec.guard.onOtherTable: Replace."},
	{SubnetMissing, Error, "A guarded subnet does not exist",
		"ARM answers 404 for the subnet, so its association cannot be guarded.",
		"Correct the subnet's ID in spec.guard.subnets, or check whether the cluster's " +
			"node pool still exists."},

	{DeleteRefused, Warning, "Azure refused to delete what a subnet must have",
		"Someone tried to delete a route table, NAT gateway or network security group after " +
			"it was put back on a subnet. Azure deletes none that a subnet has. The finding says " +
			"for a day who tried, as the activity log shows it.",
		"If it is removed on purpose, first take it out of spec.guard.subnets, or pause the " +
			"cluster. Otherwise ask the identity's owner why it must go."},

	{GuardPaused, Warning, "A tag on a network pauses the guard of its subnets",
		"What its subnets lose is reported, and not put back, until the time in the tag " +
			"routekeeper-guard-paused-until. Everyone who may write tags of the network can set " +
			"it.",
		"Nothing, if the removal is on purpose. Otherwise remove the tag."},
	{GuardTag, Warning, "A tag that should pause the guard has no effect",
		"The value of the tag routekeeper-guard-paused-until is not a time in RFC 3339, has " +
			"passed, or is more than 7 days ahead. The guard puts back what the subnets lose.",
		"Remove the tag, or set it to a time such as 2030-01-31T18:00:00Z."},

	{GuardEnded, Warning, "The guard of a table that kubenet used has ended",
		"spec.guard.subnets names the table that the cluster had while it used kubenet, or one " +
			"that AKS made for a kubenet cluster. AKS takes such a table off the subnets when " +
			"the cluster leaves kubenet, so it is not put back. Everything else stays guarded.",
		"Name the table that the subnet must have, or remove routeTableID there."},

	{SourceEmpty, Warning, "The cluster's route table holds no route to any of its nodes",
		"Pods on different nodes cannot reach each other through this table. Either its " +
			"routes were lost and the cloud provider will write them again, or it is not the " +
			"cluster's table.",
		"Check who wrote the table last. If another table is the cluster's, set " +
			"spec.routeTableID."},
	{SourceHop, Warning, "A route in the cluster's route table leads outside the node subnets",
		"The route looks like a pod route, but its next hop is in none of the cluster's " +
			"node subnets. It is not copied, because its copies would look like unmanaged " +
			"routes.",
		"Check who wrote the route: the cloud provider writes only addresses of nodes."},
	{PodCIDRsExclude, Warning, "spec.podCIDRs excludes routes of nodes",
		"Pod routes in the cluster's route table lie outside spec.podCIDRs, so they are " +
			"not copied. Pods on these nodes cannot be reached through the targets.",
		"Widen spec.podCIDRs, or remove it: then all pod CIDRs of the cluster count. If " +
			"the exclusion is intended, do nothing."},
	{SurgeShort, Warning, "A subnet or the pod CIDR cannot take the next surge",
		"An upgrade first creates surge nodes, as many as the pool's maxSurge says. Each needs " +
			"an address in its subnet; with pods in the node subnet also its pods' addresses; " +
			"batches of 16 from a pod subnet; with kubenet and overlay a /24 of the pod CIDR. " +
			"Too few are free: the upgrade will fail.",
		"Free addresses, lower the pool's maxSurge, or move the pool to a larger subnet. " +
			"routekeeper cluster capacity says how large."},
	{DeletesWithheld, Error, "Deletes are withheld",
		"The cluster's table lacks routes that a target has, and nothing proves that their " +
			"nodes are gone: a network interface holds the next hop, or not all network " +
			"interfaces could be read. It is an info if each of these nodes has a route to " +
			"another pod CIDR, and only a write of the table by the cluster itself is missing. " +
			"Routes that are proven stale are still deleted. " +
			"Deleting the route to a living node would cut off its pods; a stale route costs " +
			"little.",
		"The evidence says for each route what proof is missing. If the nodes exist, find " +
			"out why the cluster's table lost their routes. If the network interfaces cannot " +
			"be read, give the identity read access to the node resource group."},
	{UpdatesWithheld, Error, "Updates are withheld",
		"The cluster's table has another next hop than a target, and nothing proves it: no " +
			"known network interface of the cluster's nodes has that address, or the node that " +
			"had the pod CIDR exists and may still have it. The target keeps its next hop: a " +
			"wrong route must not overwrite a good copy.",
		"Check who changed the next hop in the cluster's table; the cloud provider never " +
			"repairs it. If the network interfaces cannot be read, give the identity read " +
			"access to the node resource group."},
	{TargetMissing, Error, "A target route table does not exist",
		"There is no table to copy the routes to.",
		"Create the table and associate it with its subnet, or remove the target."},
	{TargetIsSource, Error, "A target is a cluster's route table",
		"routekeeper never writes a cluster's route table. The cloud provider owns it, and a " +
			"write by anyone else makes the cloud provider fail for a while. A table without pod " +
			"routes counts as a cluster's own if its subnet holds nodes of a cluster that the " +
			"config does not name.",
		"Remove the target."},
	{TargetDrift, Warning, "A target differs and is only observed",
		"Pod routes are missing, stale or wrong in the target. Packets from its subnets to " +
			"those pods are dropped or reach the wrong node.",
		"Run routekeeper sync, or let routekeeper run manage the target. If the target's " +
			"policy is Observe, set it to Sync with routekeeper promote."},
	{TargetFull, Error, "A target route table has no room",
		"The routes to add exceed the table's limit. As many as fit are added, in the " +
			"order of their prefixes. Pods on the other nodes cannot be reached through this " +
			"target.",
		"Remove routes, or aggregate the unmanaged ones. If Azure Virtual Network Manager " +
			"raised the limit, set maxRoutes."},
	{StaleKept, Info, "Stale routes stay because the policy is UpsertOnly",
		"Routes to nodes that are gone remain in the target.",
		"To delete them, set the target's policy to Sync."},
	{PrefixTaken, Error, "An unmanaged route occupies a node's pod CIDR",
		"A table holds one route per prefix. The existing route leads elsewhere and is not " +
			"the cluster's, so it stays. The node's pods cannot be reached through this " +
			"target.",
		"Remove the unmanaged route."},
	{UnmanagedOverlap, Info, "An unmanaged route covers pod addresses",
		"Packets to pods on nodes without a route of their own follow the unmanaged route. " +
			"The routes of the nodes are more specific and win.",
		"If the route is intended, do nothing. Otherwise remove it."},
	{UnmanagedShadow, Warning, "An unmanaged route is more specific than a pod route",
		"Packets to some pods follow the unmanaged route instead of reaching their node.",
		"Remove the unmanaged route unless it is intended."},
	{ClustersOverlap, Warning, "Two clusters share a target and overlap",
		"The pod CIDRs of the clusters overlap, so one table cannot hold the routes of " +
			"both. For a prefix of both clusters, the existing route stays.",
		"Give each cluster its own target, or recreate one cluster with another pod CIDR."},

	{AzureUnreachable, Error, "Azure does not answer",
		"No call for a cluster was answered: there was no connection, no answer in time, " +
			"or an Azure error (408, 5xx). routekeeper changes nothing that it cannot read, so " +
			"everything stays as it is until Azure answers again. One finding covers all " +
			"affected clusters.",
		"Check the network path to Azure Resource Manager (a proxy is taken from " +
			"HTTPS_PROXY), and https://azure.status.microsoft."},
	{ReadFailed, Error, "A resource could not be read",
		"routekeeper changes nothing that it cannot read: whatever depends on this " +
			"resource stays as it is. All other work continues.",
		"If Azure refuses the read, give the identity read access at the scope in the " +
			"message. Otherwise follow the message."},
	{WriteRefused, Error, "Azure refuses a write",
		"A permission is missing, or a lock or a policy forbids the write, so the harm in " +
			"the message stays. The write is retried after one minute, then at growing " +
			"intervals, but it cannot succeed before the cause is removed.",
		"Give the identity the action named in the message, or remove the lock or the " +
			"policy assignment."},
	{WriteFailed, Error, "A write failed",
		"Transient errors were retried several times. The next check retries them again; " +
			"other errors are retried after one minute, then at growing intervals.",
		"Follow the message."},
	{WriteUndone, Error, "A write was undone at once",
		"Azure accepted the change, but reading it back showed it gone: another writer " +
			"changes the same resource.",
		"Check the activity log for the other writer."},
	{Conflict, Error, "Another writer repeatedly undoes the same change",
		"The keeper repaired a lost route table or a pod route, and the repair was undone " +
			"three times within ten minutes: a pipeline, a policy or another keeper wants " +
			"another state. The keeper does not give up, but waits longer before each repair, " +
			"up to five minutes. Traffic is broken in between. The conflict ends once a change " +
			"has held for ten minutes.",
		"Correct the other writer. The finding names it if the activity log shows it; the " +
			"log lags by a few minutes."},
	{WriteDropped, Warning, "Other fields changed during a write",
		"Reading the resource back shows changes that were not sent: another writer " +
			"changed it at the same moment, or Azure dropped fields.",
		"Compare the named fields with your templates."},
	{Unsettled, Error, "The last operation on a resource failed",
		"The resource reads as expected, but its provisioning state is Failed: its " +
			"settings may not be in effect.",
		"Write the resource again unchanged, with the command in the finding. Check the " +
			"activity log for the failed operation."},
	{Paused, Info, "The keeper or a cluster is paused",
		"A person has paused the keeper, or one cluster: no changes are made. Checks continue, " +
			"but what is lost stays lost until the pause ends.",
		"To end the pause, run routekeeper pause end, with the name of the cluster if only one " +
			"is paused."},
	{ChangesWithheld, Error, "The controller must not make a change",
		"The change is needed, but the controller must not make it: a resource lies outside the " +
			"scopes that the namespace of the ClusterRoutes object may use, or the controller " +
			"has lost the Kubernetes API server, and with it the proof that no other replica " +
			"writes. Associations are repaired even then.",
		"The message says which. Add the scope to the file that --scopes names, or move the " +
			"object to a namespace that may use it. If the API server is lost, the changes are " +
			"made once it answers again."},
	{ChangesLimited, Warning, "Route changes exceed the limit per minute",
		"More routes need a change than the limit allows per minute over all clusters. The " +
			"limit keeps a mistake that makes many routes look wrong from changing all of them " +
			"before you see it. The remaining changes follow in the next minutes. Associations " +
			"never wait.",
		"Check whether the changes are intended: routekeeper sync --dry-run shows them. If " +
			"they are, wait, or raise --max-changes-per-minute."},
	{AnotherKeeper, Warning, "Another keeper manages the same clusters",
		"Two keepers do no harm: each write checks the document's ETag and is planned again, so " +
			"what one has done the other finds done, and neither undoes the other. But each has " +
			"its own pauses, limits and memory, and a shared history mixes their checks. A " +
			"keeper with the same history is noticed by the history's lock. One elsewhere is " +
			"noticed once it made the same change at the same moment in three checks within an " +
			"hour.",
		"Stop one of the two. For a standby, run the controller with several replicas: a Lease " +
			"says which one works."},
	{TooManyOpenFiles, Warning, "No more files can be opened",
		"The process, or the machine, has reached its limit of open files. Connections count as " +
			"files, so calls to Azure, the history, and reloads of the config, certificates and " +
			"secrets can fail. What was read before stays in use: a pause file that cannot be " +
			"opened neither starts nor ends a pause. Callers of the listener get at most half of " +
			"the files, so they cannot cause it alone if the limit is 64 or more.",
		"Raise the limit: LimitNOFILE= in the systemd unit, ulimit -n in a shell, or the limit " +
			"of the container runtime; for the whole machine, sysctl fs.file-max. Without a " +
			"listener, the keeper needs some 20 files."},
}

// Describe returns the description of a code. An unknown code has an empty one with severity Error.
func Describe(code Code) Description {
	for _, d := range descriptions {
		if d.Code == code {
			return d
		}
	}
	return Description{Code: code, Severity: Error}
}

// breaking are the codes that, as errors, mean that pods lose packets now.
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

// Threatens reports whether a finding of this code says something about the delivery of packets,
// now or soon, and not about plans such as a migration.
func Threatens(code Code) bool {
	return BreaksTraffic(code) || slices.ContainsFunc(keeping, func(d Description) bool {
		return d.Code == code
	})
}

// All returns the descriptions of all codes, sorted by code.
func All() []Description {
	all := slices.Clone(descriptions)
	slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.Code, b.Code) })
	return all
}
