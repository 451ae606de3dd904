output "cluster_id" {
  value = azapi_resource.cluster.id
}
