package generate

// KeeperRole is one of the keeper's roles. There are several because each is assigned in different
// places: permissions to read in many, permissions to write in few. None of them can write a
// cluster's route table: only the cluster's cloud provider may.
type KeeperRole struct {
	// Name is the end of the role's name, Where describes the scopes that it is assigned at.
	Name, Where string
	Actions     []KeeperAction
}

// KeeperAction is an action of an Azure role, and its purpose.
type KeeperAction struct{ Action, Why string }

// CredentialsRole returns a fifth role, for clusters whose config has source: Nodes. The keeper
// logs in to their Kubernetes API with the credentials that AKS gives, unless it runs in the
// cluster itself.
func CredentialsRole() KeeperRole {
	return KeeperRole{"credentials", "the clusters whose config has source: Nodes", []KeeperAction{
		{"Microsoft.ContainerService/managedClusters/listClusterUserCredential/action",
			"to read the nodes in the cluster's Kubernetes API"},
	}}
}

// KeeperRoles returns the minimum for init, sync, run and doctor. Package azure uses each action,
// and a test shows that without it something is refused or missing.
func KeeperRoles() []KeeperRole {
	return []KeeperRole{
		{"reads", "the subscriptions of the clusters and their networks: lists show only what " +
			"the identity may read, and the activity log belongs to the subscription",
			[]KeeperAction{
				{"Microsoft.ContainerService/managedClusters/read",
					"clusters: their pools, pod CIDRs and identities"},
				{"Microsoft.Network/virtualNetworks/read",
					"networks with their subnets and peerings"},
				{"Microsoft.Network/virtualNetworks/subnets/read",
					"the fresh read before and after each write of a subnet"},
				{"Microsoft.Network/routeTables/read",
					"pod routes, in the clusters' route tables and in targets"},
				{"Microsoft.Network/networkSecurityGroups/read", "doctor: rules that block pods"},
				{"Microsoft.Network/applicationGateways/read",
					"doctor: gateways that need pod routes"},
				{"Microsoft.Network/azureFirewalls/read",
					"whether the firewall of spec.egress has the address of its routes"},
				{"Microsoft.Network/loadBalancers/read",
					"whether a load balancer has the next hop of a default route, or of " +
						"spec.egress"},
				{"Microsoft.Network/networkInterfaces/read",
					"which addresses nodes hold: proof for deletes"},
				{"Microsoft.Compute/virtualMachineScaleSets/read", "the nodes' scale sets"},
				{"Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read",
					"the addresses of nodes in scale sets"},
				{"Microsoft.Insights/eventtypes/values/read",
					"the activity log: which table is a cluster's, and who stripped it"},
				{"Microsoft.Authorization/locks/read", "doctor: locks that stop repairs"},
				{"Microsoft.Authorization/policyAssignments/read",
					"doctor: policies that refuse or undo repairs"},
				{"Microsoft.Authorization/policyDefinitions/read", "doctor: their rules"},
				{"Microsoft.Authorization/policySetDefinitions/read",
					"doctor: the rules of assigned initiatives"},
				{"Microsoft.Authorization/policyExemptions/read", "doctor: what they leave alone"},
				{"Microsoft.Authorization/permissions/read", "doctor: its own rights"},
				{"Microsoft.Authorization/roleAssignments/read",
					"doctor: whether the clusters' identities have what they need"},
				{"Microsoft.Authorization/roleDefinitions/read",
					"doctor: the actions of these roles"},
				{"Microsoft.Authorization/denyAssignments/read",
					"doctor: deny assignments, which override roles"},
				{"Microsoft.Network/locations/operations/read",
					"to follow its own writes, if Azure requires it"},
			}},
		{"links", "the resource groups of the route tables, security groups and others that the " +
			"subnets link to: writing a subnet needs the right to join each of them",
			[]KeeperAction{
				{"Microsoft.Network/routeTables/join/action", "to put a lost table back"},
				{"Microsoft.Network/networkSecurityGroups/join/action",
					"to put a lost group back, and so that the subnet keeps its group"},
				{"Microsoft.Network/natGateways/join/action",
					"to put a lost NAT gateway back, and so that the subnet keeps its own"},
				{"Microsoft.Network/serviceEndpointPolicies/join/action",
					"so that the subnet keeps its service endpoint policies"},
			}},
		{"subnets", "only the subnets that are guarded; if AKS made the network, the " +
			"node resource group, which has no other subnets", []KeeperAction{
			{"Microsoft.Network/virtualNetworks/subnets/write", "to put back what was lost"},
		}},
		{"targets", "only the tables that pod routes are copied to, or that spec.egress " +
			"enforces: never a cluster's route table",
			[]KeeperAction{
				{"Microsoft.Network/routeTables/write",
					"to copy pod routes, and to put egress routes back"},
			}},
	}
}
