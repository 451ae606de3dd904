
targetScope = 'resourceGroup'

@description('The name of the assignment: a GUID.')
param name string

@description('The role.')
param roleDefinitionId string

@description('The object ID of the identity that gets it.')
param principalId string

@description('What the role is assigned on.')
param scopeName string

resource network 'Microsoft.Network/virtualNetworks@2025-05-01' existing = {
  name: 'hub'
}

resource subnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' existing = {
  parent: network
  name: scopeName
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: subnet
  name: name
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roleDefinitionId
  }
}
