# Do not add subnet blocks here. A change to a block rewrites its subnet and drops links that others made.
# Without blocks, the provider leaves the subnets alone.
resource "azurerm_virtual_network" "main" {
  name                = "${var.name}-vnet"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  address_space       = ["10.224.0.0/16"]
  tags                = local.tags
}

# The cluster's route table. The cloud provider writes one route for each node into it. Without this table,
# pods on different nodes cannot reach each other.
resource "azurerm_route_table" "nodes" {
  name                = "${var.name}-nodes-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags

  lifecycle {
    # A plan must not remove routes: the cloud provider writes them.
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
  address_prefixes     = ["10.224.0.0/20"]

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
