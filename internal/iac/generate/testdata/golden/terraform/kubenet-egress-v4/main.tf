# A network for an AKS cluster with kubenet and a route table of your own, which no later apply strips. Written by routekeeper iac generate.
#
#   export ARM_SUBSCRIPTION_ID=…
#   terraform init && terraform apply

terraform {
  required_version = ">= 1.5"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = "~> 4.0"
    }
    time = {
      source  = "hashicorp/time"
      version = "~> 0.12"
    }
  }
}

provider "azurerm" {
  features {}
}

resource "azurerm_resource_group" "main" {
  name     = "${var.name}-rg"
  location = var.location
}
