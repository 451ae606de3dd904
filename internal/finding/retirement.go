package finding

// The codes of the way off kubenet.
const (
	KubenetRetired      Code = "kubenet-retired"
	MigrationTable      Code = "migration-gateway-on-table"
	MigrationOrphans    Code = "migration-orphans"
	MigrationPodCIDR    Code = "migration-pod-cidr"
	MigrationIdentity   Code = "migration-identity"
	MigrationPolicy     Code = "migration-policy"
	MigrationWindows    Code = "migration-windows"
	MigrationVersion    Code = "migration-version"
	MigrationPoolKind   Code = "migration-pool-kind"
	MigrationNameLength Code = "migration-name-length"
)

// retirement are the codes of the way off kubenet.
var retirement = []Description{
	{KubenetRetired, Info, "kubenet is retired on 31 March 2028",
		"The way on is Azure CNI Overlay. The migration reimages all node pools at once, and there is no way back. Pod addresses stay in the pod CIDR, but no route table leads to them any more.",
		"Put right what stands in the way, then run the az aks update that the finding names."},
	{MigrationTable, Warning, "Another subnet has the cluster's route table",
		"The migration to Azure CNI Overlay fails while a subnet that is not the cluster's, such as an Application Gateway's, is associated with the cluster's table.",
		"Give that subnet a table of its own, and make it a target until the migration is done. After it an Application Gateway learns the pods' addresses by itself."},
	{MigrationOrphans, Info, "The migration will leave pod routes behind",
		"AKS removes the pod routes from the cluster's own table, or deletes it. Copies in other tables stay, lead to nodes that forward nothing any more, and take up room.",
		"Run routekeeper prune-orphans after the migration."},
	{MigrationPodCIDR, Warning, "The pod CIDR is not fit for the migration",
		"Azure CNI Overlay gives each node a /24 of the pod CIDR, as kubenet does, and refuses a pod CIDR that overlaps with the virtual network of the nodes or the service CIDR. The migration is the moment at which it can be changed.",
		"Name another or a wider one with --pod-cidr when migrating."},
	{MigrationIdentity, Warning, "The cluster has no user-assigned identity",
		"The migration takes the route table off the node subnets, which AKS documents to work with a user-assigned identity only.",
		"Give the cluster a user-assigned identity with rights on its network."},
	{MigrationPolicy, Warning, "A network policy engine is installed",
		"AKS migrates only clusters without a network policy engine, and removes one from Kubernetes 1.30 on. " +
			"Without the engine, nothing enforces network policies.",
		"Upgrade to 1.30 if needed, uninstall the engine, migrate, and install one that works with overlay."},
	{MigrationWindows, Warning, "A node pool runs Windows",
		"Windows nodes need containerd, and the build 20348.1668 or later: earlier ones translate source addresses wrongly on overlay.",
		"Upgrade the pool's node image first."},
	{MigrationVersion, Warning, "Kubernetes is too old for the migration",
		"AKS migrates clusters from version 1.27 on.",
		"Upgrade the cluster first."},
	{MigrationPoolKind, Warning, "A node pool is an availability set",
		"Azure CNI Overlay does not support availability sets.",
		"Replace the pool by one of scale sets."},
	{MigrationNameLength, Warning, "A name is too long for overlay",
		"With Azure CNI Overlay the names of the nodes' subnet, of its virtual network and of their resource group become labels of nodes, which hold 63 characters.",
		"Move the pool to a subnet with shorter names."},
}
