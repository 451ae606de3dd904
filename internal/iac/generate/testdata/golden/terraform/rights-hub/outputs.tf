output "keeper_client_id" {
  description = "The service account's annotation azure.workload.identity/client-id."
  value       = azurerm_user_assigned_identity.keeper.client_id
}
