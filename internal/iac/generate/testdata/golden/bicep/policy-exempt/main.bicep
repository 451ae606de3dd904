// Exempts a network from the policies of routekeeper prevent until 2027-01-02T03:04:05Z.
//
//   az deployment group create --subscription 5ab00000-0000-4000-8000-000000000001 --resource-group net --name routekeeper-exempt --template-file main.bicep

targetScope = 'resourceGroup'

resource network 'Microsoft.Network/virtualNetworks@2025-05-01' existing = {
  name: 'hub'
}

resource routeTable 'Microsoft.Authorization/policyExemptions@2022-07-01-preview' = {
  scope: network
  name: 'routekeeper-route-table'
  properties: {
    displayName: 'Subnets keep their route table'
    exemptionCategory: 'Waiver'
    expiresOn: '2027-01-02T03:04:05Z'
    policyAssignmentId: '/subscriptions/5ab00000-0000-4000-8000-000000000001/providers/Microsoft.Authorization/policyAssignments/routekeeper-route-table'
  }
}
