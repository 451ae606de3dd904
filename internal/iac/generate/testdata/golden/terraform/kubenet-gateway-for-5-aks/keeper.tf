# The keeper's identity. None of its rights allows writing the cluster's route table.
resource "azurerm_user_assigned_identity" "keeper" {
  name                = "${var.name}-keeper"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags
}

data "azurerm_subscription" "main" {}

# Reads: on the subscriptions of the clusters and their networks: lists show only what the identity
# may read, and the activity log belongs to the subscription.
resource "azurerm_role_definition" "keeper_reads" {
  role_definition_id = uuidv5(local.namespace, "${local.cluster_id}-keeper-reads")
  name               = "${var.name} routekeeper reads (${substr(uuidv5(local.namespace, "${local.cluster_id}-keeper-reads"), 0, 8)})"
  scope              = data.azurerm_subscription.main.id
  description        = "What routekeeper needs: reads."

  permissions {
    actions = [
      "Microsoft.ContainerService/managedClusters/read",                  # clusters: their pools, pod CIDRs and identities
      "Microsoft.Network/virtualNetworks/read",                           # networks with their subnets and peerings
      "Microsoft.Network/virtualNetworks/subnets/read",                   # the fresh read before and after each write of a subnet
      "Microsoft.Network/routeTables/read",                               # pod routes, in the clusters' route tables and in targets
      "Microsoft.Network/networkSecurityGroups/read",                     # doctor: rules that block pods
      "Microsoft.Network/applicationGateways/read",                       # doctor: gateways that need pod routes
      "Microsoft.Network/azureFirewalls/read",                            # whether the firewall of spec.egress has the address of its routes
      "Microsoft.Network/loadBalancers/read",                             # whether a load balancer has the next hop of a default route, or of spec.egress
      "Microsoft.Network/networkInterfaces/read",                         # which addresses nodes hold: proof for deletes
      "Microsoft.Compute/virtualMachineScaleSets/read",                   # the nodes' scale sets
      "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read", # the addresses of nodes in scale sets
      "Microsoft.Insights/eventtypes/values/read",                        # the activity log: which table is a cluster's, and who stripped it
      "Microsoft.Authorization/locks/read",                               # doctor: locks that stop repairs
      "Microsoft.Authorization/policyAssignments/read",                   # doctor: policies that refuse or undo repairs
      "Microsoft.Authorization/policyDefinitions/read",                   # doctor: their rules
      "Microsoft.Authorization/policySetDefinitions/read",                # doctor: the rules of assigned initiatives
      "Microsoft.Authorization/policyExemptions/read",                    # doctor: what they leave alone
      "Microsoft.Authorization/permissions/read",                         # doctor: its own rights
      "Microsoft.Authorization/roleAssignments/read",                     # doctor: whether the clusters' identities have what they need
      "Microsoft.Authorization/roleDefinitions/read",                     # doctor: the actions of these roles
      "Microsoft.Authorization/denyAssignments/read",                     # doctor: deny assignments, which override roles
      "Microsoft.Network/locations/operations/read",                      # to follow its own writes, if Azure requires it
    ]
  }

  assignable_scopes = [data.azurerm_subscription.main.id]
}

resource "azurerm_role_assignment" "keeper_reads_subscription" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-keeper-reads-assignment")
  scope              = data.azurerm_subscription.main.id
  role_definition_id = azurerm_role_definition.keeper_reads.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.keeper.principal_id
  principal_type     = "ServicePrincipal"
}

# Links: on the resource groups of the route tables, security groups and others that the subnets
# link to: writing a subnet needs the right to join each of them.
resource "azurerm_role_definition" "keeper_links" {
  role_definition_id = uuidv5(local.namespace, "${local.cluster_id}-keeper-links")
  name               = "${var.name} routekeeper links (${substr(uuidv5(local.namespace, "${local.cluster_id}-keeper-links"), 0, 8)})"
  scope              = azurerm_resource_group.main.id
  description        = "What routekeeper needs: links."

  permissions {
    actions = [
      "Microsoft.Network/routeTables/join/action",             # to put a lost table back
      "Microsoft.Network/networkSecurityGroups/join/action",   # to put a lost group back, and so that the subnet keeps its group
      "Microsoft.Network/natGateways/join/action",             # to put a lost NAT gateway back, and so that the subnet keeps its own
      "Microsoft.Network/serviceEndpointPolicies/join/action", # so that the subnet keeps its service endpoint policies
    ]
  }

  assignable_scopes = [azurerm_resource_group.main.id]
}

resource "azurerm_role_assignment" "keeper_links_group" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-keeper-links-${lower(azurerm_resource_group.main.id)}")
  scope              = azurerm_resource_group.main.id
  role_definition_id = azurerm_role_definition.keeper_links.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.keeper.principal_id
  principal_type     = "ServicePrincipal"
}

# Subnets: on only the subnets that are guarded; if AKS made the network, the node resource group,
# which has no other subnets.
resource "azurerm_role_definition" "keeper_subnets" {
  role_definition_id = uuidv5(local.namespace, "${local.cluster_id}-keeper-subnets")
  name               = "${var.name} routekeeper subnets (${substr(uuidv5(local.namespace, "${local.cluster_id}-keeper-subnets"), 0, 8)})"
  scope              = azurerm_resource_group.main.id
  description        = "What routekeeper needs: subnets."

  permissions {
    actions = [
      "Microsoft.Network/virtualNetworks/subnets/write", # to put back what was lost
    ]
  }

  assignable_scopes = [azurerm_resource_group.main.id]
}

resource "azurerm_role_assignment" "keeper_subnets_nodes" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-keeper-subnets-${lower(azurerm_subnet.nodes.id)}")
  scope              = azurerm_subnet.nodes.id
  role_definition_id = azurerm_role_definition.keeper_subnets.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.keeper.principal_id
  principal_type     = "ServicePrincipal"
}

resource "azurerm_role_assignment" "keeper_subnets_gateway" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-keeper-subnets-${lower(azurerm_subnet.gateway.id)}")
  scope              = azurerm_subnet.gateway.id
  role_definition_id = azurerm_role_definition.keeper_subnets.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.keeper.principal_id
  principal_type     = "ServicePrincipal"
}

# Targets: on only the tables that pod routes are copied to, or that spec.egress enforces: never a
# cluster's route table.
resource "azurerm_role_definition" "keeper_targets" {
  role_definition_id = uuidv5(local.namespace, "${local.cluster_id}-keeper-targets")
  name               = "${var.name} routekeeper targets (${substr(uuidv5(local.namespace, "${local.cluster_id}-keeper-targets"), 0, 8)})"
  scope              = azurerm_resource_group.main.id
  description        = "What routekeeper needs: targets."

  permissions {
    actions = [
      "Microsoft.Network/routeTables/write", # to copy pod routes, and to put egress routes back
    ]
  }

  assignable_scopes = [azurerm_resource_group.main.id]
}

resource "azurerm_role_assignment" "keeper_targets_gateway" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-keeper-targets-${lower(azurerm_route_table.gateway.id)}")
  scope              = azurerm_route_table.gateway.id
  role_definition_id = azurerm_role_definition.keeper_targets.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.keeper.principal_id
  principal_type     = "ServicePrincipal"
}

# The keeper's pods log in as its service account, without a secret. Its workload in the cluster:
#   terraform output -raw keeper_manifest | kubectl apply -f -
resource "azurerm_federated_identity_credential" "keeper" {
  name                      = "routekeeper"
  user_assigned_identity_id = azurerm_user_assigned_identity.keeper.id
  audience                  = ["api://AzureADTokenExchange"]
  issuer                    = azurerm_kubernetes_cluster.main.oidc_issuer_url
  subject                   = "system:serviceaccount:routekeeper:routekeeper"
}
