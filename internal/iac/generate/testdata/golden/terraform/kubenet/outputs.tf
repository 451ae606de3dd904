output "cluster_id" {
  value = azurerm_kubernetes_cluster.main.id
}

output "node_subnet_id" {
  value = azurerm_subnet.nodes.id
}

output "gateway_subnet_id" {
  value = azurerm_subnet.gateway.id
}

output "keeper_client_id" {
  description = "The service account's annotation azure.workload.identity/client-id."
  value       = azurerm_user_assigned_identity.keeper.client_id
}

output "routes_yaml" {
  description = "routekeeper's config: terraform output -raw routes_yaml > routes.yaml"
  value       = <<-EOT
    apiVersion: routekeeper.dev/v1alpha1
    kind: ClusterRoutes
    metadata:
      name: ${var.name}
    spec:
      clusterID: ${azurerm_kubernetes_cluster.main.id}
      routeTableID: ${azurerm_route_table.nodes.id}
      guard:
        mode: Enforce
        subnets:
          - subnetID: ${azurerm_subnet.gateway.id}
            routeTableID: ${azurerm_route_table.gateway.id}
      targets:
        - routeTableID: ${azurerm_route_table.gateway.id}
  EOT
}

