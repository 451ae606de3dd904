// Allows reading a cluster's nodes with the credentials that AKS gives.
param name string
param clusterName string
param principalId string

resource cluster 'Microsoft.ContainerService/managedClusters@2025-10-01' existing = {
  name: clusterName
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(cluster.id, name, principalId, 'credentials')
  scope: cluster
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', guid(subscription().id, name, 'credentials'))
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
