# No subnet blocks here: changing a block writes the whole subnet, and removes what others have linked to it.
# Without any, the provider leaves the subnets alone.
resource "azurerm_virtual_network" "main" {
  name                = "${var.name}-vnet"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  address_space       = ["10.224.0.0/16"]
  tags                = local.tags
}

# The cluster's route table. The cloud provider writes a route for each node into it: without this table pods
# on different nodes do not reach each other.
resource "azurerm_route_table" "nodes" {
  name                = "${var.name}-nodes-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags

  lifecycle {
    # The routes are separate resources or belong to the cloud provider: a plan must not remove them.
    ignore_changes = [route]
    # Replacing the table (to rename or move it) would take it off its subnets. Remove this to delete the network.
    prevent_destroy = true
  }
}

# The gateway sends to pods directly, so it needs the pod routes too: routekeeper copies them into this table.
resource "azurerm_route_table" "gateway" {
  name                = "${var.name}-gateway-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags

  lifecycle {
    # The routes are routekeeper's.
    ignore_changes  = [route]
    prevent_destroy = true
  }
}

# A separate resource: the provider reads the subnet before writing it, so the subnet keeps its table.
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
    # Replacing an association removes the table first.
    prevent_destroy = true
  }
}

# For the Application Gateway only.
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
    # Replacing an association removes the table first.
    prevent_destroy = true
  }
}
