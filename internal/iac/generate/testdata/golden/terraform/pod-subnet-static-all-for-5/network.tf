# Do not add subnet blocks here. A change to a block rewrites its subnet and drops links that others made.
# Without blocks, the provider leaves the subnets alone.
resource "azurerm_virtual_network" "main" {
  name                = "${var.name}-vnet"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  address_space       = ["10.240.0.0/12", "10.130.0.0/16"]
  tags                = local.tags
}

# Sends egress traffic to the firewall.
resource "azurerm_route_table" "nodes" {
  name                = "${var.name}-nodes-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags

  lifecycle {
    # A plan must not remove routes: they are separate resources.
    ignore_changes = [route]
    # Terraform would replace the table to rename or move it, and its subnets would have none meanwhile.
    # Remove this line to destroy the network.
    prevent_destroy = true
  }
}

# A separate resource: changing it does not rewrite the table's other routes.
resource "azurerm_route" "egress" {
  name                   = "egress"
  resource_group_name    = azurerm_resource_group.main.name
  route_table_name       = azurerm_route_table.nodes.name
  address_prefix         = "0.0.0.0/0"
  next_hop_type          = "VirtualAppliance"
  next_hop_in_ip_address = "10.100.0.4"
}

# A separate resource: the provider reads the subnet before it writes it, so the subnet keeps its table.
resource "azurerm_subnet" "nodes" {
  name                 = "nodes"
  resource_group_name  = azurerm_resource_group.main.name
  virtual_network_name = azurerm_virtual_network.main.name
  address_prefixes     = ["10.240.0.0/20"]

  lifecycle {
    prevent_destroy = true
  }
}

resource "azurerm_subnet_route_table_association" "nodes" {
  subnet_id      = azurerm_subnet.nodes.id
  route_table_id = azurerm_route_table.nodes.id

  lifecycle {
    # Replacing an association first takes the table off the subnet.
    prevent_destroy = true
  }
}

# The pods' subnet.
resource "azurerm_subnet" "pods" {
  name                 = "pods"
  resource_group_name  = azurerm_resource_group.main.name
  virtual_network_name = azurerm_virtual_network.main.name
  address_prefixes     = ["10.130.0.0/21"]

  lifecycle {
    prevent_destroy = true
  }
}

resource "azurerm_subnet_route_table_association" "pods" {
  subnet_id      = azurerm_subnet.pods.id
  route_table_id = azurerm_route_table.nodes.id

  lifecycle {
    # Replacing an association first takes the table off the subnet.
    prevent_destroy = true
  }
}

# The subnet of the Application Gateway, which nothing else may use.
resource "azurerm_subnet" "gateway" {
  name                 = "gateway"
  resource_group_name  = azurerm_resource_group.main.name
  virtual_network_name = azurerm_virtual_network.main.name
  address_prefixes     = ["10.130.8.0/24"]

  lifecycle {
    prevent_destroy = true
  }
}
