// Finds a cluster's node subnets.
targetScope = 'subscription'

param name string
param clusterName string
param clusterGroup string
param tableIsDiscovered bool
param principalId string

resource cluster 'Microsoft.ContainerService/managedClusters@2025-10-01' existing = {
  name: clusterName
  scope: resourceGroup(clusterGroup)
}

// If pools name no subnet, AKS made the network and the table, in the node resource group.
var managed = contains(map(cluster.properties.agentPoolProfiles, pool => empty(pool.?vnetSubnetID ?? '')), true)

module nodes 'nodes.bicep' = {
  name: 'nodes-${uniqueString(clusterGroup, clusterName)}'
  params: {
    name: name
    // Each subnet once; none if AKS made the network.
    subnetIds: union(filter(map(cluster.properties.agentPoolProfiles, pool => pool.?vnetSubnetID ?? ''), id => !empty(id)), [])
    managedGroup: managed ? cluster.properties.nodeResourceGroup : ''
    nodeGroup: tableIsDiscovered || managed ? cluster.properties.nodeResourceGroup : ''
    principalId: principalId
  }
}
