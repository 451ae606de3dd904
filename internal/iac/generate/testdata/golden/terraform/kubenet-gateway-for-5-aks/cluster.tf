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
    table = azurerm_role_assignment.cluster_table.id
  }
}

resource "azurerm_kubernetes_cluster" "main" {
  name                = var.name
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  dns_prefix          = var.name
  tags                = local.tags

  default_node_pool {
    name           = "system"
    vm_size        = "Standard_D4s_v5"
    node_count     = 3
    max_pods       = 110
    vnet_subnet_id = azurerm_subnet.nodes.id

    # Azure's default. Without the block, every plan would remove it (azurerm#24020).
    upgrade_settings {
      max_surge = "10%"
    }
  }

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.cluster.id]
  }

  network_profile {
    # Azure retires kubenet on 31 March 2028; its successor is Azure CNI Overlay.
    network_plugin = "kubenet"
    outbound_type  = "loadBalancer"
    pod_cidr       = "10.244.0.0/16"
    service_cidr   = "10.0.0.0/16"
    dns_service_ip = "10.0.0.10"
  }

  ingress_application_gateway {
    gateway_id = azurerm_application_gateway.main.id
  }

  # Required from version 5 on. Manual: the node pools are those named here.
  node_provisioning_profile {
    mode = "Manual"
  }

  # For workload identity, which lets pods log in to Azure without a secret.
  oidc_issuer_enabled       = true
  workload_identity_enabled = true

  # The subnets have their tables when the cluster is made.
  depends_on = [
    azurerm_subnet_route_table_association.nodes,
    azurerm_subnet_route_table_association.gateway,
    time_sleep.cluster_role,
  ]
}
