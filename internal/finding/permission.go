package finding

// The codes of permissions and locks.
const (
	IdentityLacks   Code = "identity-lacks-permission"
	AddonLacks      Code = "add-on-lacks-permission"
	CallerLacks     Code = "caller-lacks-permission"
	RightsUnread    Code = "rights-unread"
	ResourceLocked  Code = "resource-locked"
	NodeGroupLocked Code = "node-group-locked-down"
)

// permissions are the codes of permissions and locks.
var permissions = []Description{
	{IdentityLacks, Warning, "The cluster's identity lacks a permission",
		"AKS and the cluster's cloud provider act as this identity. Without it on a route table that was brought, new nodes get no route; without it on a subnet that was brought, pools cannot grow or be upgraded. What runs goes on until then.",
		"Assign the role that the finding names, or a custom role with the actions it lists. AKS can take an hour to see a new assignment."},
	{AddonLacks, Error, "The identity of the ingress add-on lacks a permission",
		"The ingress add-on (AGIC) acts as an identity that AKS makes for it. It writes the " +
			"Application Gateway, reads the gateway's resource group, and joins the gateway's subnet. " +
			"Without one of these its pod fails, and the gateway does not learn of new pods.",
		"Assign the role that the finding names, or run routekeeper cluster create again where it " +
			"has built the cluster. A new assignment can take 10 minutes to count."},
	{CallerLacks, Error, "The identity that keeps the routes lacks a permission",
		"What the config asks for takes actions that the identity this was run with may not do: writes will be refused. Where nothing is configured yet it is only told.",
		"Assign the role that the finding names, or a custom role with the actions it lists. A new assignment can take 10 minutes to count."},
	{RightsUnread, Info, "Permissions could not be read",
		"Whether an identity may do what it has to could not be told at some scopes. That is no sign that it may not.",
		"Give the identity that runs the diagnosis the role Reader there."},
	{ResourceLocked, Warning, "A lock stands in the way",
		"A read-only lock refuses every write at its scope and below it: pod routes that the cloud provider has to write, associations that the guard has to put back, targets that have to be synced. AKS refuses to change a cluster while anything in its node resource group has a lock, also one that only forbids deletes. Elsewhere a lock against deletes stops nothing that this program does: it removes routes by writing their table.",
		"Remove the lock, or lock something else than what has to change."},
	{NodeGroupLocked, Warning, "The node resource group is locked down",
		"Only AKS may change what is in the node resource group, the cluster's route table included. A lost association can then be put back by AKS alone; whether others may join the table to their subnets is not documented.",
		"Run az aks update when the association is lost, or lift the lockdown: az aks update --nrg-lockdown-restriction-level Unrestricted."},
}
