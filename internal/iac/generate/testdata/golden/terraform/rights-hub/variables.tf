variable "name" {
  description = "The prefix of all resource names."
  type        = string
  default     = "routekeeper"
}

variable "location" {
  description = "The Azure region."
  type        = string
  default     = "westeurope"
}

variable "keeper_namespace" {
  description = "The Kubernetes namespace that routekeeper runs in."
  type        = string
  default     = "routekeeper"
}

variable "keeper_service_account" {
  description = "The Kubernetes service account that routekeeper runs as."
  type        = string
  default     = "routekeeper"
}

variable "keeper_issuer" {
  description = "The OIDC issuer of the cluster that routekeeper runs in. Without it, the identity is for a machine."
  type        = string
  default     = null
}
