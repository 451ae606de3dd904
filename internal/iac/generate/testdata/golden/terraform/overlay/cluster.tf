# The cluster's identity comes first: it has to have its rights on the subnet before the cluster is made, and an
# identity that is made with the cluster cannot have any.
resource "azurerm_user_assigned_identity" "cluster" {
  name                = "${var.name}-cluster"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
}

# What it needs on the subnet, and no more. Network Contributor has it as well, with all the rest of the network.
resource "azurerm_role_definition" "cluster" {
  name        = "${var.name} cluster network"
  scope       = azurerm_resource_group.main.id
  description = "What the AKS cluster ${var.name} needs on the network that it was brought."

  permissions {
    actions = [
      "Microsoft.Network/routeTables/read",  # the cloud provider reads the table
      "Microsoft.Network/routeTables/write", # and writes it whole, one route a node
      "Microsoft.Network/routeTables/routes/read",
      "Microsoft.Network/routeTables/routes/write",
      "Microsoft.Network/routeTables/routes/delete",
      "Microsoft.Network/virtualNetworks/subnets/read", # nodes are put into the subnet
      "Microsoft.Network/virtualNetworks/subnets/join/action",
    ]
  }

  assignable_scopes = [azurerm_resource_group.main.id]
}

resource "azurerm_role_assignment" "cluster_subnet" {
  scope              = azurerm_subnet.nodes.id
  role_definition_id = azurerm_role_definition.cluster.role_definition_resource_id
  principal_id       = azurerm_user_assigned_identity.cluster.principal_id
  principal_type     = "ServicePrincipal"
}

# A new role takes a while to count. Made too early, the cluster is refused with CustomRouteTableMissingPermission: apply again then.
resource "time_sleep" "cluster_role" {
  create_duration = var.role_propagation

  triggers = {
    subnet = azurerm_role_assignment.cluster_subnet.id
  }
}

resource "azurerm_kubernetes_cluster" "main" {
  name                = var.name
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  dns_prefix          = var.name

  default_node_pool {
    name           = "system"
    vm_size        = var.node_vm_size
    node_count     = var.node_count
    vnet_subnet_id = azurerm_subnet.nodes.id
  }

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.cluster.id]
  }

  network_profile {
    network_plugin      = "azure"
    network_plugin_mode = "overlay"
    pod_cidr            = var.pod_cidr
    service_cidr        = var.service_cidr
    dns_service_ip      = var.dns_service_ip
    outbound_type       = "loadBalancer"
  }

  # Required from version 5 on. Manual: the node pools are those named here.
  node_provisioning_profile {
    mode = "Manual"
  }

  # For workload identity, which lets pods log in to Azure without a secret.
  oidc_issuer_enabled       = true
  workload_identity_enabled = true

  # The table has to be on the subnet when the cluster is made.
  depends_on = [
    azurerm_subnet_network_security_group_association.nodes,
    time_sleep.cluster_role,
  ]
}
