# The gateway's public address.
resource "azurerm_public_ip" "gateway" {
  name                = "${var.name}-gateway-ip"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  sku                 = "Standard"
  sku_tier            = "Regional"
  allocation_method   = "Static"
  tags                = local.tags
}

# An Application Gateway v2 with one listener without a backend: the add-on writes the rest of it.
resource "azurerm_application_gateway" "main" {
  name                = "${var.name}-gateway"
  location            = azurerm_resource_group.main.location
  resource_group_name = azurerm_resource_group.main.name
  tags                = local.tags

  sku {
    name = "Standard_v2"
    tier = "Standard_v2"
  }

  autoscale_configuration {
    min_capacity = 0
    max_capacity = 4
  }

  gateway_ip_configuration {
    name      = "gateway"
    subnet_id = azurerm_subnet.gateway.id
  }

  frontend_ip_configuration {
    name                 = "public"
    public_ip_address_id = azurerm_public_ip.gateway.id
  }

  frontend_port {
    name = "http"
    port = 80
  }

  backend_address_pool {
    name = "none"
  }

  backend_http_settings {
    name                  = "http"
    port                  = 80
    protocol              = "Http"
    request_timeout       = 30
    cookie_based_affinity = "Disabled"
  }

  http_listener {
    name                           = "http"
    frontend_ip_configuration_name = "public"
    frontend_port_name             = "http"
    protocol                       = "Http"
  }

  request_routing_rule {
    name                       = "http"
    rule_type                  = "Basic"
    priority                   = 100
    http_listener_name         = "http"
    backend_address_pool_name  = "none"
    backend_http_settings_name = "http"
  }

  lifecycle {
    # The add-on's.
    ignore_changes = [
      backend_address_pool, backend_http_settings, frontend_port, http_listener, probe, redirect_configuration,
      request_routing_rule, ssl_certificate, tags, url_path_map,
    ]
  }

  depends_on = [azurerm_subnet_route_table_association.gateway]
}

# AKS makes an identity for the add-on. It writes the gateway, reads its resource group, and joins its subnet.
locals {
  addon = azurerm_kubernetes_cluster.main.ingress_application_gateway[0].ingress_application_gateway_identity[0].object_id
}

resource "azurerm_role_assignment" "addon_gateway" {
  name                 = uuidv5(local.namespace, "${local.cluster_id}-add-on-${lower(azurerm_application_gateway.main.id)}")
  scope                = azurerm_application_gateway.main.id
  role_definition_name = "Contributor"
  principal_id         = local.addon
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "addon_group" {
  name                 = uuidv5(local.namespace, "${local.cluster_id}-add-on-${lower(azurerm_resource_group.main.id)}")
  scope                = azurerm_resource_group.main.id
  role_definition_name = "Reader"
  principal_id         = local.addon
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "addon_subnet" {
  name               = uuidv5(local.namespace, "${local.cluster_id}-add-on-${lower(azurerm_subnet.gateway.id)}")
  scope              = azurerm_subnet.gateway.id
  role_definition_id = azurerm_role_definition.cluster.role_definition_resource_id
  principal_id       = local.addon
  principal_type     = "ServicePrincipal"
}
