package finding

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

// permissions are the codes of permissions and locks.
var permissions = []Description{
	{IdentityLacks, Warning, "The cluster's identity lacks a permission",
		"AKS and the cluster's cloud provider use this identity. Without rights on a " +
			"bring-your-own route table, new nodes get no route. Without rights on a " +
			"bring-your-own subnet, pools cannot grow or be upgraded. Running nodes continue " +
			"to work until then. Azure does not document whether the identity needs a right on " +
			"a pod subnet: that it has none is info.",
		"Assign the role that the finding names, or a custom role with the listed actions. " +
			"AKS can take an hour to see a new assignment."},
	{AddonLacks, Error, "The identity of the ingress add-on lacks a permission",
		"The ingress add-on (AGIC) uses an identity that AKS creates for it. It writes the " +
			"Application Gateway, reads the gateway's resource group, and joins the gateway's " +
			"subnet. Without any of these rights its pod fails, and the gateway does not learn " +
			"of new pods.",
		"Assign the role that the finding names. If routekeeper cluster create built the " +
			"cluster, run it again. A new assignment can take 10 minutes to take effect."},
	{CallerLacks, Error, "The identity that manages the routes lacks a permission",
		"The config asks for actions that the current identity may not perform: Azure will " +
			"refuse the writes. Without a config this is info.",
		"Assign the role that the finding names, or a custom role with the listed actions. " +
			"A new assignment can take 10 minutes to take effect."},
	{RightsUnread, Info, "Permissions could not be read",
		"At some scopes it is unknown whether an identity has the rights it needs. This " +
			"does not mean that it lacks them.",
		"Give the identity that runs the diagnosis the role Reader there."},
	{ResourceLocked, Warning, "A lock prevents necessary writes",
		"A read-only lock refuses every write at its scope and below: pod routes of the " +
			"cloud provider, associations that the guard repairs, routes of targets. AKS " +
			"refuses to change a cluster while anything in its node resource group has a lock, " +
			"even one that only forbids deletes. Elsewhere a delete lock does not stop " +
			"routekeeper, which removes routes by writing their table.",
		"Remove the lock, or lock only resources that need no changes."},
	{PolicyOpposes, Warning, "An assigned policy is in the way of the guard",
		"A custom policy of Azure Policy (deny, modify, append or deployIfNotExists) that is " +
			"assigned at the scope of a guarded subnet or target, or above it, refuses a write " +
			"of it as the config wants it, or changes the write. Then a repair fails, or is " +
			"undone. It is an info where the rule cannot be evaluated. Exemptions count. " +
			"Policies that Azure ships are not read.",
		"Change the policy or its parameters, or exempt the network from it."},
	{NodeGroupLocked, Warning, "The node resource group is locked down",
		"Only AKS may change resources in the node resource group, including the cluster's " +
			"route table. Only AKS can then repair a lost association. Whether other " +
			"identities may associate the table with their subnets is not documented.",
		"When the association is lost, run az aks update. Or lift the lockdown: az aks " +
			"update --nrg-lockdown-restriction-level Unrestricted."},
}
