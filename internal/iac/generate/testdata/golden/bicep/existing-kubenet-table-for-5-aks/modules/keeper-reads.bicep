
targetScope = 'subscription'

@description('Names derive from it: the same cluster gets the same names.')
param clusterId string

@description('The prefix of the role\'s name.')
param name string

@description('The object ID of the keeper\'s identity.')
param principalId string

// Reads: on the subscriptions of the clusters and their networks: lists show only what the identity
// may read, and the activity log belongs to the subscription.
resource role 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(clusterId, 'keeper-reads')
  properties: {
    assignableScopes: [
      subscription().id
    ]
    description: 'What routekeeper needs: reads.'
    permissions: [
      {
        actions: [
          'Microsoft.ContainerService/managedClusters/read'
          'Microsoft.Network/virtualNetworks/read'
          'Microsoft.Network/virtualNetworks/subnets/read'
          'Microsoft.Network/routeTables/read'
          'Microsoft.Network/networkSecurityGroups/read'
          'Microsoft.Network/applicationGateways/read'
          'Microsoft.Network/azureFirewalls/read'
          'Microsoft.Network/loadBalancers/read'
          'Microsoft.Network/networkInterfaces/read'
          'Microsoft.Compute/virtualMachineScaleSets/read'
          'Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read'
          'Microsoft.Insights/eventtypes/values/read'
          'Microsoft.Authorization/locks/read'
          'Microsoft.Authorization/policyAssignments/read'
          'Microsoft.Authorization/policyDefinitions/read'
          'Microsoft.Authorization/policySetDefinitions/read'
          'Microsoft.Authorization/policyExemptions/read'
          'Microsoft.Authorization/permissions/read'
          'Microsoft.Authorization/roleAssignments/read'
          'Microsoft.Authorization/roleDefinitions/read'
          'Microsoft.Authorization/denyAssignments/read'
          'Microsoft.Network/locations/operations/read'
        ]
      }
    ]
    roleName: '${name} routekeeper reads (${substring(guid(clusterId, 'keeper-reads'), 0, 8)})'
    type: 'CustomRole'
  }
}

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(clusterId, 'keeper-reads-assignment')
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.name)
  }
}
