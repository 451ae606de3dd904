# What exists. Nothing here is declared, so an apply or a destroy never replaces or deletes it.
locals {
  network_id     = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub"
  node_table_id  = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net/providers/Microsoft.Network/routeTables/plain"
  node_subnet_id = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/tabled"
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

# For the Application Gateway only. It is made in the existing network.
resource "azurerm_subnet" "gateway" {
  name                 = "${var.name}-gateway-${substr(uuidv5(local.namespace, "${local.cluster_id}-subnet gateway"), 0, 8)}"
  resource_group_name  = "net"
  virtual_network_name = "hub"
  address_prefixes     = ["10.240.16.0/24"]

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
