resource "azurerm_resource_group" "net" {
  name     = "shop-net-s16"
  location = "westeurope"
}
resource "azurerm_route_table" "nodes" {
  name                = "shop-nodes-rt"
  location            = azurerm_resource_group.net.location
  resource_group_name = azurerm_resource_group.net.name
}
resource "azurerm_route_table" "gateway" {
  name                = "shop-gateway-rt"
  location            = azurerm_resource_group.net.location
  resource_group_name = azurerm_resource_group.net.name
}
resource "azurerm_virtual_network" "shop" {
  name                = "shop-vnet"
  location            = azurerm_resource_group.net.location
  resource_group_name = azurerm_resource_group.net.name
  address_space       = ["10.240.0.0/16"]
}
resource "azurerm_subnet" "nodes" {
  name                 = "aks-nodes"
  resource_group_name  = azurerm_resource_group.net.name
  virtual_network_name = azurerm_virtual_network.shop.name
  address_prefixes     = ["10.240.0.0/24"]
}
resource "azurerm_subnet_route_table_association" "nodes" {
  subnet_id      = azurerm_subnet.nodes.id
  route_table_id = azurerm_route_table.nodes.id
}
resource "azurerm_nat_gateway" "nodes" {
  name                = "shop-nat"
  location            = azurerm_resource_group.net.location
  resource_group_name = azurerm_resource_group.net.name
}
resource "azurerm_network_security_group" "nodes" {
  name                = "shop-nsg"
  location            = azurerm_resource_group.net.location
  resource_group_name = azurerm_resource_group.net.name
}
