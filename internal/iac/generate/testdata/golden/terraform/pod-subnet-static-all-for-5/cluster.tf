# The cluster's identity comes first: it needs its rights before the cluster is made.
resource "azurerm_user_assigned_identity" "cluster" {
  name                = "${var.name}-cluster"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags
}

# Exactly what the cluster needs on its network. Network Contributor allows much more.
resource "azurerm_role_definition" "cluster" {
  role_definition_id = uuidv5(local.namespace, "${local.cluster_id}-role")
  name               = "${var.name} cluster network (${substr(uuidv5(local.namespace, "${local.cluster_id}-role"), 0, 8)})"
  scope              = azurerm_resource_group.main.id
  description        = "What the AKS cluster ${local.owner} needs on its network. Made by routekeeper."

  permissions {
    actions = [
      "Microsoft.Network/virtualNetworks/subnets/read",
      "Microsoft.Network/virtualNetworks/subnets/join/action",
      "Microsoft.Network/routeTables/read",
      "Microsoft.Network/routeTables/write",
      "Microsoft.Network/routeTables/routes/read",
      "Microsoft.Network/routeTables/routes/write",
      "Microsoft.Network/routeTables/routes/delete",
    ]
  }

  assignable_scopes = [azurerm_resource_group.main.id]
}

resource "azurerm_role_assignment" "cluster_nodes" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-assignment-${lower(azurerm_subnet.nodes.id)}")
  scope              = azurerm_subnet.nodes.id
  role_definition_id = azurerm_role_definition.cluster.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.cluster.principal_id
  principal_type     = "ServicePrincipal" # so that Azure does not look for it where it is not known yet
}

resource "azurerm_role_assignment" "cluster_pods" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-assignment-${lower(azurerm_subnet.pods.id)}")
  scope              = azurerm_subnet.pods.id
  role_definition_id = azurerm_role_definition.cluster.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.cluster.principal_id
  principal_type     = "ServicePrincipal" # so that Azure does not look for it where it is not known yet
}

resource "azurerm_role_assignment" "cluster_table" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-assignment-${lower(azurerm_route_table.nodes.id)}")
  scope              = azurerm_route_table.nodes.id
  role_definition_id = azurerm_role_definition.cluster.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.cluster.principal_id
  principal_type     = "ServicePrincipal" # so that Azure does not look for it where it is not known yet
}

# A new role takes effect after a minute or two, at most an hour. If the cluster is refused for lack of
# permissions, apply again.
resource "time_sleep" "cluster_role" {
  create_duration = var.role_propagation

  triggers = {
    nodes = azurerm_role_assignment.cluster_nodes.id
    pods  = azurerm_role_assignment.cluster_pods.id
    table = azurerm_role_assignment.cluster_table.id
  }
}

# By azapi: azurerm has no argument for blocks of pod addresses (podIPAllocationMode).
resource "azapi_resource" "cluster" {
  type      = "Microsoft.ContainerService/managedClusters@2025-10-01"
  name      = var.name
  parent_id = azurerm_resource_group.main.id
  location  = azurerm_resource_group.main.location
  tags      = local.tags

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.cluster.id]
  }

  body = {
    properties = {
      addonProfiles = {
        ingressApplicationGateway = {
          config = {
            applicationGatewayId = azurerm_application_gateway.main.id
          }
          enabled = true
        }
      }
      agentPoolProfiles = [{
        name                = "system"
        mode                = "System"
        availabilityZones   = ["1", "2", "3"]
        count               = 3
        enableAutoScaling   = true
        maxCount            = 5
        maxPods             = 110
        minCount            = 2
        podIPAllocationMode = "StaticBlock"
        podSubnetID         = azurerm_subnet.pods.id
        vmSize              = "Standard_D4s_v5"
        vnetSubnetID        = azurerm_subnet.nodes.id
        }, {
        name                = "user"
        mode                = "User"
        count               = 2
        maxPods             = 60
        podIPAllocationMode = "StaticBlock"
        podSubnetID         = azurerm_subnet.pods.id
        vmSize              = "Standard_D8s_v5"
        vnetSubnetID        = azurerm_subnet.nodes.id
        }, {
        name                = "batch"
        mode                = "User"
        availabilityZones   = ["2"]
        count               = 1
        enableAutoScaling   = true
        maxCount            = 4
        maxPods             = 110
        minCount            = 1
        podIPAllocationMode = "StaticBlock"
        podSubnetID         = azurerm_subnet.pods.id
        vmSize              = "Standard_F8s_v2"
        vnetSubnetID        = azurerm_subnet.nodes.id
      }]
      apiServerAccessProfile = {
        enablePrivateCluster = true
      }
      dnsPrefix         = var.name
      kubernetesVersion = "1.33"
      networkProfile = {
        dnsServiceIP  = "10.0.0.10"
        networkPlugin = "azure"
        networkPolicy = "calico"
        outboundType  = "userDefinedRouting"
        serviceCidr   = "10.0.0.0/16"
      }
      oidcIssuerProfile = {
        enabled = true
      }
      securityProfile = {
        workloadIdentity = {
          enabled = true
        }
      }
    }
  }

  response_export_values = ["properties.addonProfiles", "properties.oidcIssuerProfile"]

  # The subnets have their tables when the cluster is made, and the route to the firewall is in place.
  depends_on = [
    azurerm_subnet_route_table_association.nodes,
    azurerm_subnet_route_table_association.pods,
    azurerm_route.egress,
    time_sleep.cluster_role,
  ]
}
