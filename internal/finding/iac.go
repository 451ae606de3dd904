package finding

// The codes of infrastructure code: what it would do before it is applied.
const (
	IaCStrips       Code = "iac-strips"
	IaCMayStrip     Code = "iac-may-strip"
	IaCAnotherTable Code = "iac-another-table"
	IaCFlaps        Code = "iac-flaps"
	IaCRecreates    Code = "iac-recreates"
	IaCDestroys     Code = "iac-destroys-cluster"
	IaCRoutes       Code = "iac-removes-routes"
	IaCMayRoutes    Code = "iac-may-remove-routes"
	IaCUseless      Code = "iac-useless-protection"
	IaCUnknown      Code = "iac-not-understood"
	IaCNote         Code = "iac-note"
)

// beforehand are the codes of infrastructure code.
var beforehand = []Description{
	{IaCStrips, Error, "Applying it takes away a subnet's route table",
		"Packets to pods on other nodes would be dropped, or leave by a default route; with egress through a firewall in the same table, the nodes would lose that way too. It is a warning for a subnet that is not known to carry pods.",
		"Name the table in the code that writes the subnet, or keep that code from writing it: the finding says which."},
	{IaCMayStrip, Warning, "Applying it may take away a subnet's route table",
		"The subnet is written without a table, and nothing in the file shows whether Azure has one: state that was not refreshed (-refresh=false) does not know what others associated. It is a note for a subnet that is not known to carry pods.",
		"Look at the subnet in Azure, or check again with --live; then name the table in the code."},
	{IaCAnotherTable, Error, "Applying it gives a subnet another route table",
		"The routes of the present table would not count any more, the pod routes among them. It is a warning for a subnet that is not known to carry pods.",
		"Name the present table in the code."},
	{IaCFlaps, Error, "Applying it leaves a subnet without a route table for a moment",
		"The association is destroyed and made anew, in two writes; between them packets to pods are lost, and for good when the second one fails. It is a warning for a subnet that is not known to carry pods.",
		"Keep the association: a moved block for a new address, unchanged arguments."},
	{IaCRecreates, Error, "Applying it deletes a subnet while its network stays",
		"Azure refuses while machines are in the subnet, and the apply ends in the middle, with the association gone; an empty one comes back without what others put on it. It is a warning for a subnet that is not known to carry pods.",
		"Keep the subnet's name and network, or move the machines out of it first."},
	{IaCDestroys, Error, "Applying it destroys a cluster",
		"Everything that runs on the cluster is lost. A replaced cluster is an empty one with another identity and other nodes, and the pod routes of the old one stay in every other route table. Some changes of a few characters do it: the finding names the attribute that forces the replacement.",
		"Leave the attribute as it is, or build the new cluster beside the old one and move to it. lifecycle { prevent_destroy = true } stops such a plan."},
	{IaCRoutes, Error, "Applying it removes pod routes from a route table",
		"Pods of the nodes that the routes lead to cannot be reached through the table any more. The cluster's cloud provider writes them back only into the cluster's own table, and only after a while.",
		"Keep the code from writing the routes whole: lifecycle { ignore_changes = [route] }, or a resource for each route."},
	{IaCMayRoutes, Warning, "Applying it may remove pod routes from a route table",
		"The routes of the table are written whole, and nothing in the file shows whether Azure has pod routes among them. It is a note for a table that no subnet known to carry pods uses.",
		"Look at the table in Azure, or check again with --live."},
	{IaCUseless, Warning, "A protection in the code protects nothing",
		"Somebody believes to be safe, and is not: what is ignored there is not what takes the table away.",
		"Replace it with the protection that the finding names."},
	{IaCUnknown, Warning, "A part of the code was not understood",
		"Something may have been missed there: nothing is guessed.",
		"See the message; check what it names by hand."},
	{IaCNote, Info, "Something to know about the code",
		"It breaks no traffic, but may stop an apply or mislead.",
		"See the message."},
}
