// The rights for a cluster's node subnets, once they are known.
targetScope = 'subscription'

param name string
param subnetIds array
param managedGroup string
param nodeGroup string
param principalId string

module guard 'assign-subnet.bicep' = [for id in subnetIds: {
  name: 'guard-${uniqueString(id)}'
  scope: resourceGroup(split(id, '/')[2], split(id, '/')[4])
  params: {
    name: name
    vnetName: split(id, '/')[8]
    subnetName: split(id, '/')[10]
    principalId: principalId
  }
}]

module links 'assign-group.bicep' = [for id in subnetIds: {
  name: 'links-${uniqueString(id)}'
  scope: resourceGroup(split(id, '/')[2], split(id, '/')[4])
  params: {
    name: name
    principalId: principalId
  }
}]

// The network that AKS made is the only one in its resource group.
module guardManaged 'assign-group.bicep' = if (!empty(managedGroup)) {
  name: 'guard-${uniqueString(managedGroup)}'
  scope: resourceGroup(empty(managedGroup) ? 'none' : managedGroup)
  params: {
    name: name
    role: 'subnets'
    principalId: principalId
  }
}

module managed 'assign-group.bicep' = if (!empty(nodeGroup)) {
  name: 'managed-${uniqueString(nodeGroup)}'
  scope: resourceGroup(empty(nodeGroup) ? 'none' : nodeGroup)
  params: {
    name: name
    principalId: principalId
  }
}
