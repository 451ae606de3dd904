# routekeeper's own identity and rights.

resource "azurerm_user_assigned_identity" "keeper" {
  name                = "${var.name}-keeper"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
}

# Its pods log in as this service account, without a secret.
resource "azurerm_federated_identity_credential" "keeper" {
  name                      = "routekeeper"
  user_assigned_identity_id = azurerm_user_assigned_identity.keeper.id
  audience                  = ["api://AzureADTokenExchange"]
  issuer                    = coalesce(var.keeper_issuer, azurerm_kubernetes_cluster.main.oidc_issuer_url)
  subject                   = "system:serviceaccount:${var.keeper_namespace}:${var.keeper_service_account}"
}

data "azurerm_subscription" "main" {}

# The rights, each only where it is used. None of them writes a cluster's own table.
locals {
  keeper_roles = {
    # reads: on the subscriptions of the clusters and their networks: lists there show only what may be read, and
    # the activity log is the subscription's.
    reads = {
      actions = [
        "Microsoft.ContainerService/managedClusters/read",                  # clusters: their pools, pod CIDRs and identities
        "Microsoft.Network/virtualNetworks/read",                           # networks with their subnets and peerings
        "Microsoft.Network/virtualNetworks/subnets/read",                   # the fresh read before and after each write of a subnet
        "Microsoft.Network/routeTables/read",                               # pod routes, in the clusters' own tables and in targets
        "Microsoft.Network/networkSecurityGroups/read",                     # doctor: rules that block pods
        "Microsoft.Network/applicationGateways/read",                       # doctor: gateways that need pod routes
        "Microsoft.Network/networkInterfaces/read",                         # which addresses nodes hold: proof for deletes
        "Microsoft.Compute/virtualMachineScaleSets/read",                   # the nodes' scale sets
        "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read", # the addresses of nodes in scale sets
        "Microsoft.Insights/eventtypes/values/read",                        # the activity log: which table is a cluster's, and who stripped it
        "Microsoft.Authorization/locks/read",                               # doctor: locks that stop repairs
        "Microsoft.Authorization/permissions/read",                         # doctor: what it may do itself
        "Microsoft.Authorization/roleAssignments/read",                     # doctor: whether the clusters' identities have what they need
        "Microsoft.Authorization/roleDefinitions/read",                     # doctor: what their roles allow
        "Microsoft.Authorization/denyAssignments/read",                     # doctor: what is denied for all that
        "Microsoft.Network/locations/operations/read",                      # following its own writes, should Azure ask for it
      ]
      scopes = { subscription = data.azurerm_subscription.main.id }
    }
    # links: on the resource groups of route tables, security groups and the like that the subnets link to: writing
    # a subnet takes a right to join each of them again.
    links = {
      actions = [
        "Microsoft.Network/routeTables/join/action",             # to put a lost table back
        "Microsoft.Network/networkSecurityGroups/join/action",   # so that the subnet keeps its security group
        "Microsoft.Network/natGateways/join/action",             # so that the subnet keeps its NAT gateway
        "Microsoft.Network/serviceEndpointPolicies/join/action", # so that the subnet keeps its service endpoint policies
      ]
      scopes = { network = azurerm_resource_group.main.id }
    }
    # subnets: on the subnets whose route table is guarded, and no others; where AKS made the network, the node
    # resource group, which has no others.
    subnets = {
      actions = [
        "Microsoft.Network/virtualNetworks/subnets/write", # to put a lost table back
      ]
      scopes = { nodes = azurerm_subnet.nodes.id, gateway = azurerm_subnet.gateway.id }
    }
    # targets: on the tables that pod routes are copied to, and no others: never a cluster's own.
    targets = {
      actions = [
        "Microsoft.Network/routeTables/write", # to copy pod routes
      ]
      scopes = { gateway = azurerm_route_table.gateway.id }
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

  assignable_scopes = [data.azurerm_subscription.main.id]
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
