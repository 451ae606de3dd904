variable "name" {
  description = "The prefix of all resource names."
  type        = string
  default     = "shop"
}

variable "resource_group" {
  description = "The resource group."
  type        = string
  default     = "Shop-RG"
}

variable "location" {
  description = "The Azure region."
  type        = string
  default     = "westeurope"
}

variable "role_propagation" {
  description = "How long the cluster waits for its identity's new role: usually a minute or two, at most an hour."
  type        = string
  default     = "5m"
}

variable "image" {
  description = "The image with routekeeper as its entry point, such as registry.example.com/routekeeper:1.0."
  type        = string
}
