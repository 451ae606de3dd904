output "cluster_id" {
  value = azurerm_kubernetes_cluster.main.id
}

locals {
  routes = <<-EOT
    apiVersion: routekeeper.dev/v1alpha1
    kind: ClusterRoutes
    metadata:
      name: ${var.name}
    spec:
      clusterID: ${azurerm_kubernetes_cluster.main.id}
      routeTableID: ${azurerm_route_table.nodes.id}
      guard:
        mode: Enforce
  EOT
}

output "routes" {
  description = "The keeper's config: terraform output -raw routes > routes.yaml"
  value       = local.routes
}
