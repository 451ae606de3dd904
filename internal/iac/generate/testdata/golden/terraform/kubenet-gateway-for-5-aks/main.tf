# The AKS cluster shop, blueprint kubenet, with its network, as routekeeper cluster create builds it.
# Written by routekeeper iac generate.
#
#   export ARM_SUBSCRIPTION_ID=11111111-1111-1111-1111-111111111111
#   terraform init && terraform apply -var image=IMAGE

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
  # Since version 5, the provider registers no resource providers by itself.
  resource_providers_to_register = [
    "Microsoft.Compute", "Microsoft.ContainerService", "Microsoft.ManagedIdentity", "Microsoft.Network",
  ]

  features {}
}

locals {
  # All resources of the cluster have this tag.
  owner = lower("${var.resource_group}/${var.name}")
  tags  = { routekeeper-cluster = local.owner }

  # The names of roles and role assignments derive from the cluster's ID, so they do not change between
  # runs, and an ARM template (guid()) gets the same names.
  cluster_id = lower("${azurerm_resource_group.main.id}/providers/Microsoft.ContainerService/managedClusters/${var.name}")
  namespace  = "11fb06fb-712d-4ddd-98c7-e71bbd588830"
}

resource "azurerm_resource_group" "main" {
  name     = var.resource_group
  location = var.location
  tags     = local.tags
}
