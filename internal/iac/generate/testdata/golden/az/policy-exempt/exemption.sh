# Exempts a network from the policies of routekeeper prevent until 2027-01-02T03:04:05Z.

az policy exemption create --name routekeeper-route-table --scope /subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub --policy-assignment /subscriptions/5ab00000-0000-4000-8000-000000000001/providers/Microsoft.Authorization/policyAssignments/routekeeper-route-table --exemption-category Waiver --expires-on 2027-01-02T03:04:05Z
