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

# The gateway sends to pods directly, so its subnet needs the pod routes too. routekeeper copies them into this table.
resource "azurerm_route_table" "gateway" {
  name                = "${var.name}-gateway-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags

  lifecycle {
    # routekeeper writes the routes.
    ignore_changes  = [route]
    prevent_destroy = true
  }
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

# The subnet of the Application Gateway, which nothing else may use.
resource "azurerm_subnet" "gateway" {
  name                 = "gateway"
  resource_group_name  = azurerm_resource_group.main.name
  virtual_network_name = azurerm_virtual_network.main.name
  address_prefixes     = ["10.224.16.0/24"]

  lifecycle {
    prevent_destroy = true
  }
}

resource "azurerm_subnet_route_table_association" "gateway" {
  subnet_id      = azurerm_subnet.gateway.id
  route_table_id = azurerm_route_table.gateway.id

  lifecycle {
    # Replacing an association first takes the table off the subnet.
    prevent_destroy = true
  }
}
