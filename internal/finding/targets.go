package finding

// The codes of pod routes in tables that nobody keeps.
const (
	RoutesOrphaned Code = "routes-orphaned"
	RoutesUnkept   Code = "routes-unkept"
)

// targets are the codes of pod routes in tables that nobody keeps.
var targets = []Description{
	{RoutesOrphaned, Warning, "Routes of a cluster that is gone",
		"They lead to addresses that no node has any more: copies that were left behind when a cluster was deleted or left kubenet, which nothing removes. They take room in the table, hide default routes from the addresses they cover, and hand traffic to whoever gets the address next. Where it is not proven that no node has the address it is only worth knowing (info), with what is missing for a proof.",
		"See what routekeeper prune-orphans would remove; with --yes it does."},
	{RoutesUnkept, Warning, "Copies of pod routes that no config keeps",
		"Somebody copied the cluster's pod routes into a table, and no config names it as a target: with every node that comes or goes the copies drift further from the truth, and traffic from that table's subnets to the nodes that are missing or wrong is lost. While they still agree with the cluster's own table it is only worth knowing (info).",
		"Make the table a target, or remove the copies."},
}
