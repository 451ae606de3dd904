package finding

// Codes of pod routes in tables that no config manages.
const (
	RoutesOrphaned Code = "routes-orphaned"
	RoutesUnkept   Code = "routes-unkept"
)

// targets are the codes of pod routes in tables that no config manages.
var targets = []Description{
	{RoutesOrphaned, Warning, "Routes of a cluster that is gone",
		"These routes lead to addresses that no node has any more. They are copies left " +
			"behind when a cluster was deleted or left kubenet, and nothing removes them. They " +
			"take room in the table, hide default routes from the addresses they cover, and " +
			"send traffic to the next machine that gets the address. If it is not proven that " +
			"no node has the address, this is info, with the missing proof.",
		"Run routekeeper sync prune: it shows what it would remove, and asks."},
	{RoutesUnkept, Warning, "Copies of pod routes that no config manages",
		"The cluster's pod routes were copied into a table that no config names as a target. The " +
			"copies drift as nodes come and go, and traffic from the table's subnets to missing " +
			"or wrong nodes is lost. While they still match the cluster's route table, this is " +
			"info.",
		"Make the table a target, or remove the copies."},
}
