# The keeper's identity and rights, for the clusters and tables of a routekeeper config. Written by routekeeper iac generate.
#
#   export ARM_SUBSCRIPTION_ID=11111111-1111-1111-1111-111111111111
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
  # Since version 5, the provider registers no resource providers by itself.
  resource_providers_to_register = ["Microsoft.Compute", "Microsoft.ContainerService", "Microsoft.ManagedIdentity", "Microsoft.Network"]

  features {}
}

resource "azurerm_resource_group" "main" {
  name     = "${var.name}-keeper-rg"
  location = var.location
}
