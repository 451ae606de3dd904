// The keeper's roles in a subscription, each assigned only where it is used. None of them writes a cluster's route table.
targetScope = 'subscription'

param name string
param principalId string

// reads: on the subscriptions of the clusters and their networks: lists show only what the identity
// may read, and the activity log belongs to the subscription.
resource reads 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(subscription().id, name, 'reads')
  properties: {
    // Role names must be unique in the tenant, and there can be several subscriptions.
    roleName: '${name} routekeeper reads ${uniqueString(subscription().id)}'
    description: 'What routekeeper needs: reads.'
    type: 'customRole'
    permissions: [
      {
        actions: [
          'Microsoft.ContainerService/managedClusters/read' // clusters: their pools, pod CIDRs and identities
          'Microsoft.Network/virtualNetworks/read' // networks with their subnets and peerings
          'Microsoft.Network/virtualNetworks/subnets/read' // the fresh read before and after each write of a subnet
          'Microsoft.Network/routeTables/read' // pod routes, in the clusters' route tables and in targets
          'Microsoft.Network/networkSecurityGroups/read' // doctor: rules that block pods
          'Microsoft.Network/applicationGateways/read' // doctor: gateways that need pod routes
          'Microsoft.Network/azureFirewalls/read' // whether the firewall of spec.egress has the address of its routes
          'Microsoft.Network/loadBalancers/read' // whether a load balancer has the next hop of a default route, or of spec.egress
          'Microsoft.Network/networkInterfaces/read' // which addresses nodes hold: proof for deletes
          'Microsoft.Compute/virtualMachineScaleSets/read' // the nodes' scale sets
          'Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read' // the addresses of nodes in scale sets
          'Microsoft.Insights/eventtypes/values/read' // the activity log: which table is a cluster's, and who stripped it
          'Microsoft.Authorization/locks/read' // doctor: locks that stop repairs
          'Microsoft.Authorization/policyAssignments/read' // doctor: policies that refuse or undo repairs
          'Microsoft.Authorization/policyDefinitions/read' // doctor: their rules
          'Microsoft.Authorization/policySetDefinitions/read' // doctor: the rules of assigned initiatives
          'Microsoft.Authorization/policyExemptions/read' // doctor: what they leave alone
          'Microsoft.Authorization/permissions/read' // doctor: its own rights
          'Microsoft.Authorization/roleAssignments/read' // doctor: whether the clusters' identities have what they need
          'Microsoft.Authorization/roleDefinitions/read' // doctor: the actions of these roles
          'Microsoft.Authorization/denyAssignments/read' // doctor: deny assignments, which override roles
          'Microsoft.Network/locations/operations/read' // to follow its own writes, if Azure requires it
        ]
      }
    ]
    assignableScopes: [subscription().id]
  }
}

// links: on the resource groups of the route tables, security groups and others that the subnets
// link to: writing a subnet needs the right to join each of them.
resource links 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(subscription().id, name, 'links')
  properties: {
    // Role names must be unique in the tenant, and there can be several subscriptions.
    roleName: '${name} routekeeper links ${uniqueString(subscription().id)}'
    description: 'What routekeeper needs: links.'
    type: 'customRole'
    permissions: [
      {
        actions: [
          'Microsoft.Network/routeTables/join/action' // to put a lost table back
          'Microsoft.Network/networkSecurityGroups/join/action' // to put a lost group back, and so that the subnet keeps its group
          'Microsoft.Network/natGateways/join/action' // to put a lost NAT gateway back, and so that the subnet keeps its own
          'Microsoft.Network/serviceEndpointPolicies/join/action' // so that the subnet keeps its service endpoint policies
        ]
      }
    ]
    assignableScopes: [subscription().id]
  }
}

// subnets: on only the subnets that are guarded; if AKS made the network, the node resource group,
// which has no other subnets.
resource subnets 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(subscription().id, name, 'subnets')
  properties: {
    // Role names must be unique in the tenant, and there can be several subscriptions.
    roleName: '${name} routekeeper subnets ${uniqueString(subscription().id)}'
    description: 'What routekeeper needs: subnets.'
    type: 'customRole'
    permissions: [
      {
        actions: [
          'Microsoft.Network/virtualNetworks/subnets/write' // to put back what was lost
        ]
      }
    ]
    assignableScopes: [subscription().id]
  }
}

// targets: on only the tables that pod routes are copied to, or that spec.egress enforces: never a
// cluster's route table.
resource targets 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(subscription().id, name, 'targets')
  properties: {
    // Role names must be unique in the tenant, and there can be several subscriptions.
    roleName: '${name} routekeeper targets ${uniqueString(subscription().id)}'
    description: 'What routekeeper needs: targets.'
    type: 'customRole'
    permissions: [
      {
        actions: [
          'Microsoft.Network/routeTables/write' // to copy pod routes, and to put egress routes back
        ]
      }
    ]
    assignableScopes: [subscription().id]
  }
}

resource onSubscription 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(subscription().id, name, principalId, 'reads')
  properties: {
    roleDefinitionId: reads.id
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
