// Lets subnets keep what they link to in this resource group.
param name string
param principalId string

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resourceGroup().id, name, principalId, 'links')
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', guid(subscription().id, name, 'links'))
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
