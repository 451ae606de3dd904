# routekeeper's own identity and rights.

resource "azurerm_user_assigned_identity" "keeper" {
  name                = "${var.name}-keeper"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
}

# Its pods log in as this service account, without a secret.
resource "azurerm_federated_identity_credential" "keeper" {
  count = var.keeper_issuer == null ? 0 : 1

  name                      = "routekeeper"
  user_assigned_identity_id = azurerm_user_assigned_identity.keeper.id
  audience                  = ["api://AzureADTokenExchange"]
  issuer                    = var.keeper_issuer
  subject                   = "system:serviceaccount:${var.keeper_namespace}:${var.keeper_service_account}"
}

data "azurerm_subscription" "main" {}

# What the config names.
locals {
  clusters = {
  }

  # Clusters with guarded node subnets, and those among them whose route table the config does not name.
  guarded_clusters  = []
  discovered_tables = []

  guarded_subnets = [
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/virtualNetworks/shop-vnet/subnets/appgw",
  ]

  targets = [
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/routeTables/appgw-rt",
  ]

  linked_groups = [
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg",
  ]
}

data "azurerm_kubernetes_cluster" "managed" {
  for_each = local.clusters

  name                = element(split("/", each.value), 8)
  resource_group_name = element(split("/", each.value), 4)
}

# Derived values. Azure's IDs are case-insensitive, so keys are in lower case.
locals {
  node_subnets = compact(flatten(values(local.pools)))
  pools        = { for name in local.guarded_clusters : name => data.azurerm_kubernetes_cluster.managed[name].agent_pool_profile[*].vnet_subnet_id }
  node_groups  = { for name in local.guarded_clusters : name => "${data.azurerm_subscription.main.id}/resourceGroups/${data.azurerm_kubernetes_cluster.managed[name].node_resource_group}" }

  # If pools name no subnet, AKS made the network and the table: they are the only ones in the node resource group.
  managed_groups = [for name, subnets in local.pools : local.node_groups[name] if length(compact(subnets)) < length(subnets)]
  table_groups   = [for name in local.discovered_tables : local.node_groups[name]]

  all_subnets       = { for id in concat(local.guarded_subnets, local.node_subnets, local.managed_groups) : lower(id) => id... }
  all_groups        = { for id in concat(local.linked_groups, local.table_groups, local.managed_groups, [for s in local.node_subnets : join("/", slice(split("/", s), 0, 5))]) : lower(id) => id... }
  all_subscriptions = toset([for id in concat(values(local.clusters), local.guarded_subnets, local.node_subnets, local.targets) : "/subscriptions/${lower(split("/", id)[2])}"])
}

# The rights, each only where it is used. None of them writes a cluster's route table.
locals {
  keeper_roles = {
    # reads: on the subscriptions of the clusters and their networks: lists show only what the
    # identity may read, and the activity log belongs to the subscription.
    reads = {
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
      scopes = { for id in local.all_subscriptions : id => id }
    }
    # links: on the resource groups of the route tables, security groups and others that the subnets
    # link to: writing a subnet needs the right to join each of them.
    links = {
      actions = [
        "Microsoft.Network/routeTables/join/action",             # to put a lost table back
        "Microsoft.Network/networkSecurityGroups/join/action",   # to put a lost group back, and so that the subnet keeps its group
        "Microsoft.Network/natGateways/join/action",             # to put a lost NAT gateway back, and so that the subnet keeps its own
        "Microsoft.Network/serviceEndpointPolicies/join/action", # so that the subnet keeps its service endpoint policies
      ]
      scopes = { for key, ids in local.all_groups : key => ids[0] }
    }
    # subnets: on only the subnets that are guarded; if AKS made the network, the node resource
    # group, which has no other subnets.
    subnets = {
      actions = [
        "Microsoft.Network/virtualNetworks/subnets/write", # to put back what was lost
      ]
      scopes = { for key, ids in local.all_subnets : key => ids[0] }
    }
    # targets: on only the tables that pod routes are copied to, or that spec.egress enforces: never
    # a cluster's route table.
    targets = {
      actions = [
        "Microsoft.Network/routeTables/write", # to copy pod routes, and to put egress routes back
      ]
      scopes = { for id in local.targets : lower(id) => id }
    }
  }
}

resource "azurerm_role_definition" "keeper" {
  for_each = { for name, role in local.keeper_roles : name => role if length(role.scopes) > 0 }

  name        = "${var.name} routekeeper ${each.key}"
  scope       = data.azurerm_subscription.main.id
  description = "What routekeeper needs: ${each.key}."

  permissions {
    actions = each.value.actions
  }

  assignable_scopes = local.all_subscriptions
}

resource "azurerm_role_assignment" "keeper" {
  for_each = merge([
    for name, role in local.keeper_roles : {
      for where, id in role.scopes : "${name} ${where}" => { role = name, scope = id }
    }
  ]...)

  scope              = each.value.scope
  role_definition_id = azurerm_role_definition.keeper[each.value.role].role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.keeper.principal_id
  principal_type     = "ServicePrincipal"
}
