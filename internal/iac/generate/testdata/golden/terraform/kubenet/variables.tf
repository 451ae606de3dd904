variable "name" {
  description = "What the names of all resources begin with."
  type        = string
  default     = "shop"
}

variable "location" {
  description = "The Azure region."
  type        = string
  default     = "westeurope"
}

variable "address_space" {
  description = "The address space of the network."
  type        = string
  default     = "10.240.0.0/16"
}

variable "node_prefix" {
  description = "The nodes' subnet."
  type        = string
  default     = "10.240.0.0/20"
}

variable "gateway_prefix" {
  description = "The subnet of an Application Gateway."
  type        = string
  default     = "10.240.255.0/24"
}

variable "pod_cidr" {
  description = "The pods' addresses: a /24 of it for each node. It must not overlap any network that pods talk to."
  type        = string
  default     = "10.244.0.0/16"
}

variable "service_cidr" {
  description = "The addresses of Kubernetes services, which exist inside the cluster only."
  type        = string
  default     = "10.0.0.0/16"
}

variable "dns_service_ip" {
  description = "The address of the cluster's DNS, in service_cidr."
  type        = string
  default     = "10.0.0.10"
}

variable "node_vm_size" {
  description = "The size of a node."
  type        = string
  default     = "Standard_D4s_v5"
}

variable "node_count" {
  description = "How many nodes the first pool has."
  type        = number
  default     = 3
}

variable "role_propagation" {
  description = "How long the cluster waits for its identity's new role. On Azure it mostly takes a minute or two, and up to an hour."
  type        = string
  default     = "5m"
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
  description = "The OIDC issuer of the cluster that routekeeper runs in, if it is another one."
  type        = string
  default     = null
}
