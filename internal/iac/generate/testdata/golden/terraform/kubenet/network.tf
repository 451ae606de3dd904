# No subnet blocks in here: a change of one writes its subnet anew, without what others have linked to it. Without any, the provider
# leaves the subnets alone.
resource "azurerm_virtual_network" "main" {
  name                = "${var.name}-vnet"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  address_space       = [var.address_space]
}

# The nodes' route table. The cluster's cloud provider writes a route for each node into it: without this table pods on
# different nodes do not reach each other.
resource "azurerm_route_table" "nodes" {
  name                = "${var.name}-nodes-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name

  lifecycle {
    # The routes are the cloud provider's: a plan that knows only its own would remove them.
    ignore_changes = [route]
    # A table that is replaced (renamed, moved) is off its subnets meanwhile. Take this out to tear the network down.
    prevent_destroy = true
  }
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

resource "azurerm_subnet_route_table_association" "nodes" {
  subnet_id      = azurerm_subnet.nodes.id
  route_table_id = azurerm_route_table.nodes.id

  lifecycle {
    # Replacing an association takes the table off first.
    prevent_destroy = true
  }
}

resource "azurerm_network_security_group" "nodes" {
  name                = "${var.name}-nodes-nsg"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name

  # Pods keep their addresses on the way to other nodes and to the gateway: said here, so that it holds whatever is denied below.
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

# The gateway sends to pods directly, so it needs the pod routes too: routekeeper copies them into this table. It is not the nodes' table,
# whose 0.0.0.0/0 to a firewall an Application Gateway does not take.
resource "azurerm_route_table" "gateway" {
  name                = "${var.name}-gateway-rt"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name

  lifecycle {
    # The routes are routekeeper's.
    ignore_changes  = [route]
    prevent_destroy = true
  }
}

resource "azurerm_subnet_route_table_association" "gateway" {
  subnet_id      = azurerm_subnet.gateway.id
  route_table_id = azurerm_route_table.gateway.id

  lifecycle {
    prevent_destroy = true
  }
}
