# No subnet blocks in here: a change of one writes its subnet anew, without what others have linked to it. Without any, the provider
# leaves the subnets alone.
resource "azurerm_virtual_network" "main" {
  name                = "${var.name}-vnet"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  address_space       = [var.address_space]
}

# On its own the subnet is read before it is written, and keeps its table, whoever put it there.
resource "azurerm_subnet" "nodes" {
  name                 = "nodes"
  resource_group_name  = azurerm_resource_group.main.name
  virtual_network_name = azurerm_virtual_network.main.name
  address_prefixes     = [var.node_prefix]

  lifecycle {
    prevent_destroy = true
  }
}

resource "azurerm_network_security_group" "nodes" {
  name                = "${var.name}-nodes-nsg"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name

  # Pods keep their addresses on the way to other nodes: said here, so that it holds whatever is denied below.
  security_rule {
    name                       = "pods"
    description                = "Pods to nodes and to pods on other nodes"
    priority                   = 100
    direction                  = "Inbound"
    access                     = "Allow"
    protocol                   = "*"
    source_address_prefix      = var.pod_cidr
    source_port_range          = "*"
    destination_address_prefix = "*"
    destination_port_range     = "*"
  }

  security_rule {
    name                         = "nodes-and-gateway"
    description                  = "Nodes and the gateway to nodes and pods"
    priority                     = 110
    direction                    = "Inbound"
    access                       = "Allow"
    protocol                     = "*"
    source_address_prefixes      = [var.node_prefix, var.gateway_prefix]
    source_port_range            = "*"
    destination_address_prefixes = [var.node_prefix, var.pod_cidr]
    destination_port_range       = "*"
  }
}

resource "azurerm_subnet_network_security_group_association" "nodes" {
  subnet_id                 = azurerm_subnet.nodes.id
  network_security_group_id = azurerm_network_security_group.nodes.id
}

# For an Application Gateway, alone in its subnet.
resource "azurerm_subnet" "gateway" {
  name                 = "gateway"
  resource_group_name  = azurerm_resource_group.main.name
  virtual_network_name = azurerm_virtual_network.main.name
  address_prefixes     = [var.gateway_prefix]
}
