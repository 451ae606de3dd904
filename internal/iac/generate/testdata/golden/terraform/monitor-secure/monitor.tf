# Azure Monitor notifies a keeper of changes to the resources that it manages. Written by routekeeper init monitor --print terraform.
#
#   export TF_VAR_events_url=https://…/events
#   terraform init && terraform apply

terraform {
  required_version = ">= 1.5"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 5.0"
    }
  }
}

provider "azurerm" {
  alias           = "s0"
  subscription_id = "11111111-1111-1111-1111-111111111111"
  # The provider registers nothing by itself.
  resource_providers_to_register = ["Microsoft.Insights"]

  features {}
}

provider "azurerm" {
  alias           = "s1"
  subscription_id = "22222222-2222-2222-2222-222222222222"
  # The provider registers nothing by itself.
  resource_providers_to_register = ["Microsoft.Insights"]

  features {}
}

variable "events_url" {
  description = "Where the keeper accepts events."
  type        = string
  nullable    = false
  sensitive   = true
}

locals {
  # One alert rule per operation: the provider supports only one in a rule. A subscription can have 100 rules.
  operations = [
    "Microsoft.Network/routeTables/write",
  ]
}

resource "azurerm_monitor_action_group" "keeper_0" {
  provider            = azurerm.s0
  name                = "routekeeper-two"
  resource_group_name = "ops-rg"
  short_name          = "routekeeper"

  webhook_receiver {
    name                    = "routekeeper"
    service_uri             = var.events_url
    use_common_alert_schema = true

    aad_auth {
      object_id      = "0b0b0000-0000-4000-8000-000000000009"
      identifier_uri = "api://routekeeper"
      tenant_id      = "7e4a0000-0000-4000-8000-000000000001"
    }
  }
}

resource "azurerm_monitor_activity_log_alert" "keeper_0" {
  for_each = toset(local.operations)
  provider = azurerm.s0

  name                = "routekeeper-two-${replace(each.value, "/", "-")}"
  resource_group_name = "ops-rg"
  location            = "global"
  description         = "Wakes."

  scopes = [
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/MC_shop",
  ]

  criteria {
    category       = "Administrative"
    operation_name = each.value
    status         = "Succeeded"
  }

  action {
    action_group_id = azurerm_monitor_action_group.keeper_0.id
  }
}

resource "azurerm_monitor_action_group" "keeper_1" {
  provider            = azurerm.s1
  name                = "routekeeper-two"
  resource_group_name = "hub-rg"
  short_name          = "routekeeper"

  webhook_receiver {
    name                    = "routekeeper"
    service_uri             = var.events_url
    use_common_alert_schema = true

    aad_auth {
      object_id      = "0b0b0000-0000-4000-8000-000000000009"
      identifier_uri = "api://routekeeper"
      tenant_id      = "7e4a0000-0000-4000-8000-000000000001"
    }
  }
}

resource "azurerm_monitor_activity_log_alert" "keeper_1" {
  for_each = toset(local.operations)
  provider = azurerm.s1

  name                = "routekeeper-two-${replace(each.value, "/", "-")}"
  resource_group_name = "hub-rg"
  location            = "global"
  description         = "Wakes."

  scopes = [
    "/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/hub-rg",
  ]

  criteria {
    category       = "Administrative"
    operation_name = each.value
    status         = "Succeeded"
  }

  action {
    action_group_id = azurerm_monitor_action_group.keeper_1.id
  }
}
