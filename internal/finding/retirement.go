package finding

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

// retirement are the codes of the migration away from kubenet.
var retirement = []Description{
	{KubenetRetired, Info, "kubenet is retired on 31 March 2028",
		"Migrate to Azure CNI Overlay. The migration reimages all node pools at once and " +
			"cannot be reversed. Pod addresses stay in the pod CIDR, but no longer need a " +
			"route table.",
		"Fix what blocks the migration, then run the az aks update that the finding names."},
	{ClusterMigrating, Info, "The cluster migrates to Azure CNI Overlay",
		"AKS moves the nodes one after another. Until the last one has moved, the route table " +
			"and the targets keep the routes of all nodes, because pods on both kinds of nodes " +
			"use them. A route table that is taken off a node subnet is not put back: AKS may " +
			"do this itself.",
		"Follow it with routekeeper migrate watch. When it has ended, remove the cluster from " +
			"the config, or set spec.source: Nodes."},
	{MigrationTable, Warning, "Another subnet has the cluster's route table",
		"The migration to Azure CNI Overlay fails while a subnet outside the cluster, such " +
			"as an Application Gateway's, is associated with the cluster's table.",
		"Give that subnet its own table, and make it a target until the migration is done. " +
			"After that, an Application Gateway learns the pod addresses by itself."},
	{MigrationOrphans, Info, "The migration will leave pod routes behind",
		"AKS removes the pod routes from the cluster's route table, or deletes the table. Copies " +
			"in other tables stay and take up room. Microsoft documents that machines outside " +
			"the cluster cannot reach overlay pods, so do not rely on the copies.",
		"After the migration, run routekeeper sync prune."},
	{MigrationPodCIDR, Warning, "The pod CIDR does not fit the migration",
		"Azure CNI Overlay gives each node a /24 of the pod CIDR, as kubenet does. It " +
			"refuses a pod CIDR that overlaps the nodes' virtual network or the service CIDR. " +
			"Microsoft's page says that the migration can expand the pod CIDR; " +
			"azure-aks-docs#172 reports that it cannot.",
		"Try the migration with a wider --pod-cidr on a test cluster first. If AKS refuses, " +
			"create a new cluster with a pod CIDR that fits."},
	{MigrationIdentity, Warning, "The cluster has no user-assigned identity",
		"The migration removes the route table from the node subnets. AKS documents this " +
			"only for a user-assigned identity.",
		"Give the cluster a user-assigned identity with rights on its network."},
	{MigrationPolicy, Warning, "A network policy engine is installed",
		"AKS migrates only clusters without a network policy engine, and removes one from " +
			"Kubernetes 1.30 on. " +
			"Without the engine, nothing enforces network policies.",
		"Upgrade to 1.30 if needed, uninstall the engine, migrate, and install one that works " +
			"with overlay."},
	{MigrationWindows, Warning, "A node pool runs Windows",
		"Windows nodes need containerd and build 20348.1668 or later: earlier builds " +
			"translate source addresses wrongly on overlay.",
		"Upgrade the pool's node image first."},
	{MigrationVersion, Warning, "Kubernetes is too old for the migration",
		"AKS migrates clusters with version 1.27 or later.",
		"Upgrade the cluster first."},
	{MigrationPoolKind, Warning, "A node pool is an availability set",
		"Azure CNI Overlay does not support availability sets.",
		"Replace the pool with one of scale sets."},
	{MigrationNameLength, Warning, "A name is too long for overlay",
		"With Azure CNI Overlay the names of the node subnet, its virtual network and " +
			"their resource group become node labels, which hold 63 characters.",
		"Move the pool to a subnet with shorter names."},
	{MigrationMachines, Warning, "A node pool has machines that overlay does not support",
		"Azure CNI Overlay does not support virtual machines of the DCsv2 series.",
		"Add a pool of another size, such as DCasv5, move the pods there, and delete the pool."},
	{MigrationContainers, Warning, "The subnet for Application Gateway for Containers is no /24",
		"With overlay, Application Gateway for Containers needs a subnet of exactly /24, for one " +
			"deployment. With another size the migration ends in an outage. It does not support " +
			"kubenet at all, so install it after the migration.",
		"Create a subnet of /24 that is delegated to " +
			"Microsoft.ServiceNetworking/trafficControllers, and use that one."},
}
