# Azure Monitor notifies a keeper of changes to the resources that it manages. Written by routekeeper init monitor --print terraform.
#
#   export ARM_SUBSCRIPTION_ID=11111111-1111-1111-1111-111111111111
#   export TF_VAR_events_url=https://…/events/SECRET
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
  # The provider registers nothing by itself.
  resource_providers_to_register = ["Microsoft.Insights"]

  features {}
}

variable "events_url" {
  description = "Where the keeper accepts events, with the secret."
  type        = string
  nullable    = false
  sensitive   = true
}

locals {
  # One alert rule per operation: the provider supports only one in a rule. A subscription can have 100 rules.
  operations = [
    "Microsoft.Network/routeTables/delete",
    "Microsoft.Network/routeTables/write",
  ]
}

resource "azurerm_monitor_action_group" "keeper" {
  name                = "routekeeper"
  resource_group_name = "ops-rg"
  short_name          = "routekeeper"

  webhook_receiver {
    name                    = "routekeeper"
    service_uri             = var.events_url
    use_common_alert_schema = true
  }
}

resource "azurerm_monitor_activity_log_alert" "keeper" {
  for_each = toset(local.operations)

  name                = "routekeeper-${replace(each.value, "/", "-")}"
  resource_group_name = "ops-rg"
  location            = "global"
  description         = "Wakes it's keeper."

  scopes = [
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/MC_shop",
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/routeTables/shop-rt",
  ]

  criteria {
    category       = "Administrative"
    operation_name = each.value
    status         = "Succeeded"
  }

  action {
    action_group_id = azurerm_monitor_action_group.keeper.id
  }
}
