# The AKS cluster shop, blueprint kubenet, with its network: what routekeeper cluster create makes.
# Written by routekeeper iac generate.
#
#   export ARM_SUBSCRIPTION_ID=11111111-1111-1111-1111-111111111111
#   terraform init && terraform apply -var image=IMAGE
#
# The network /subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub exists, as routekeeper read it. The code:
#   makes the subnet hub/shop-gateway-c5e85d26

terraform {
  required_version = ">= 1.5"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 5.0"
    }
    time = {
      source  = "hashicorp/time"
      version = "~> 0.12"
    }
  }
}

provider "azurerm" {
  # From version 5 on the provider registers nothing by itself.
  resource_providers_to_register = [
    "Microsoft.Compute", "Microsoft.ContainerService", "Microsoft.ManagedIdentity", "Microsoft.Network",
  ]

  features {}
}

locals {
  # The tag of all resources of the cluster.
  owner = lower("${var.resource_group}/${var.name}")
  tags  = { routekeeper-cluster = local.owner }

  # Names of roles and assignments derive from the cluster's ID, so they are stable for a cluster, and
  # guid() in a template gives the same names.
  cluster_id = lower("${azurerm_resource_group.main.id}/providers/Microsoft.ContainerService/managedClusters/${var.name}")
  namespace  = "11fb06fb-712d-4ddd-98c7-e71bbd588830"
}

resource "azurerm_resource_group" "main" {
  name     = var.resource_group
  location = var.location
  tags     = local.tags
}
