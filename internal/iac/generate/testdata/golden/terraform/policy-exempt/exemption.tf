# Exempts a network from the policies of routekeeper prevent until 2027-01-02T03:04:05Z.

resource "azurerm_resource_policy_exemption" "routekeeper_route_table" {
  name                 = "routekeeper-route-table"
  display_name         = "Subnets keep their route table"
  resource_id          = "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub"
  policy_assignment_id = "/subscriptions/5ab00000-0000-4000-8000-000000000001/providers/Microsoft.Authorization/policyAssignments/routekeeper-route-table"
  exemption_category   = "Waiver"
  expires_on           = "2027-01-02T03:04:05Z"
}
