package finding

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

// beforehand are the codes of infrastructure code.
var beforehand = []Description{
	{IaCStrips, Error, "Applying this code removes what a subnet has",
		"Packets to pods on other nodes would be dropped, or leave through a default route, if " +
			"the route table is lost. If it also routes egress through a firewall, the nodes " +
			"would lose their egress too. Without its NAT gateway, the subnet's packets to the " +
			"internet leave by another address, or are dropped. Without its network security " +
			"group, the group's rules filter nothing. For a subnet that is not known to hold " +
			"pods and is not guarded, this is a warning.",
		"Name the table, gateway or group in the code that writes the subnet, or stop that " +
			"code from writing it. The finding says which."},
	{IaCMayStrip, Warning, "Applying this code may remove what a subnet has",
		"The code writes the subnet without a table, gateway or group, and nothing in the file " +
			"shows whether Azure has one: state that was not refreshed (-refresh=false) misses " +
			"associations made elsewhere. For a subnet that is not known to hold pods, this is " +
			"a note.",
		"Check the subnet in Azure, or run the check again with --live. Then name it " +
			"in the code."},
	{IaCAnotherTable, Error, "Applying this code replaces what a subnet has",
		"The routes of the present table, pod routes included, would lose their effect, and so " +
			"would the addresses of a NAT gateway and the rules of a network security group. " +
			"For a subnet that is not known to hold pods, this is a warning.",
		"Name the present one in the code."},
	{IaCFlaps, Error, "Applying this code briefly takes away what a subnet has",
		"The apply destroys the association and creates it again, in two writes. Packets " +
			"to pods or to the internet are lost in between, or pass without a filter, and for " +
			"good if the second write fails. For a subnet that is not known to hold pods, this " +
			"is a warning.",
		"Keep the association: use a moved block for a new address, and leave its " +
			"arguments unchanged."},
	{IaCRecreates, Error, "Applying this code deletes a subnet, or its network",
		"Azure refuses to delete a subnet with machines in it, and the apply stops " +
			"halfway, with the association gone. An empty subnet comes back without settings " +
			"made outside the code. For a subnet that is not known to hold pods, this is a " +
			"warning.",
		"Keep the names of the subnet and its network, or move the machines out of it first."},
	{IaCDestroys, Error, "Applying this code destroys a cluster",
		"Everything that runs on the cluster is lost. A replacement is an empty cluster " +
			"with another identity and other nodes, and the pod routes of the old one stay in " +
			"every other route table. Changing a few characters can be enough: the finding " +
			"names the attribute that forces the replacement.",
		"Leave the attribute as it is, or build the new cluster next to the old one and " +
			"move to it. lifecycle { prevent_destroy = true } stops such a plan."},
	{IaCMigrates, Warning, "Applying this code starts the migration off kubenet",
		"The cluster changes from kubenet to Azure CNI Overlay in place. All node pools are " +
			"reimaged at once, AKS removes the pod routes or the whole route table, and there is " +
			"no way back. AKS refuses it while something blocks, such as a subnet outside the " +
			"cluster with its table.",
		"Run routekeeper migrate plan first, and apply the code only if the cluster is ready."},
	{IaCRoutes, Error, "Applying this code removes pod routes from a route table",
		"Pods on the nodes of these routes can no longer be reached through the table. The " +
			"cluster's cloud provider writes routes back only into the cluster's route table, " +
			"and only after a while.",
		"Stop the code from writing the complete list of routes: use lifecycle { " +
			"ignore_changes = [route] }, or one resource per route."},
	{IaCMayRoutes, Warning, "Applying this code may remove pod routes from a route table",
		"The code writes the complete list of the table's routes, and nothing in the file " +
			"shows whether Azure has pod routes among them. For a table that no subnet known " +
			"to hold pods uses, this is a note.",
		"Check the table in Azure, or run the check again with --live."},
	{IaCUseless, Warning, "A safeguard in the code protects nothing",
		"This looks like a safeguard but is not one: what it ignores is not what removes " +
			"the table.",
		"Replace it with the safeguard named in the finding."},
	{IaCUnknown, Warning, "A part of the code was not understood",
		"The check may have missed something there: it does not guess.",
		"Follow the message, and check what it names by hand."},
	{IaCNote, Info, "A note about the code",
		"It breaks no traffic, but may stop an apply or mislead.",
		"Follow the message."},
}
