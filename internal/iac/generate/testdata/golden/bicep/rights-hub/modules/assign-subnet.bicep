// Allows putting its table back on a subnet.
param name string
param vnetName string
param subnetName string
param principalId string

resource vnet 'Microsoft.Network/virtualNetworks@2025-05-01' existing = {
  name: vnetName
}

resource subnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' existing = {
  parent: vnet
  name: subnetName
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(subnet.id, name, principalId, 'subnets')
  scope: subnet
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', guid(subscription().id, name, 'subnets'))
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
