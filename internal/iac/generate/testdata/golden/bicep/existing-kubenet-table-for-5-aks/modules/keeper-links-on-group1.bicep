
targetScope = 'resourceGroup'

@description('The name of the assignment: a GUID.')
param name string

@description('The role.')
param roleDefinitionId string

@description('The object ID of the identity that gets it.')
param principalId string

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: name
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roleDefinitionId
  }
}
