// Assigns a role on this resource group: by default the role for resources in it that subnets link to.
param name string
param principalId string
param role string = 'links'

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resourceGroup().id, name, principalId, role)
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', guid(subscription().id, name, role))
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
