// Allows copying pod routes into a table.
param name string
param tableName string
param principalId string

resource table 'Microsoft.Network/routeTables@2025-05-01' existing = {
  name: tableName
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(table.id, name, principalId, 'targets')
  scope: table
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', guid(subscription().id, name, 'targets'))
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
