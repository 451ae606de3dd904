output "cluster_id" {
  value = azurerm_kubernetes_cluster.main.id
}

output "node_subnet_id" {
  value = azurerm_subnet.nodes.id
}

output "gateway_subnet_id" {
  value = azurerm_subnet.gateway.id
}

