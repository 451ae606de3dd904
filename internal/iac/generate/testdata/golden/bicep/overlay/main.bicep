// A network for an AKS cluster with overlay. Written by routekeeper iac generate.
// Bicep 0.38.3 or newer, for onlyIfNotExists.
//
//   az deployment sub create --location westeurope --template-file main.bicep

targetScope = 'subscription'

@description('What the names of all resources begin with.')
param name string = 'shop'

@description('The Azure region.')
param location string = 'westeurope'

@description('The address space of the network.')
param addressSpace string = '10.240.0.0/16'

@description('The nodes\' subnet.')
param nodePrefix string = '10.240.0.0/20'

@description('The subnet of an Application Gateway.')
param gatewayPrefix string = '10.240.255.0/24'

@description('The pods\' addresses: a /24 of it for each node. It must not overlap any network that pods talk to.')
param podCidr string = '10.244.0.0/16'

@description('The addresses of Kubernetes services, which exist inside the cluster only.')
param serviceCidr string = '10.0.0.0/16'

@description('The address of the cluster\'s DNS, in serviceCidr.')
param dnsServiceIp string = '10.0.0.10'

@description('The size of a node.')
param nodeVmSize string = 'Standard_D4s_v5'

@description('How many nodes the first pool has.')
param nodeCount int = 3

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: '${name}-rg'
  location: location
}

module network 'modules/network.bicep' = {
  name: 'network'
  scope: group
  params: {
    name: name
    location: location
    addressSpace: addressSpace
    nodePrefix: nodePrefix
    gatewayPrefix: gatewayPrefix
    podCidr: podCidr
  }
}

module cluster 'modules/cluster.bicep' = {
  name: 'cluster'
  scope: group
  params: {
    name: name
    location: location
    vnetName: network.outputs.vnetName
    podCidr: podCidr
    serviceCidr: serviceCidr
    dnsServiceIp: dnsServiceIp
    nodeVmSize: nodeVmSize
    nodeCount: nodeCount
  }
}
output clusterId string = cluster.outputs.clusterId
output nodeSubnetId string = network.outputs.nodeSubnetId
output gatewaySubnetId string = network.outputs.gatewaySubnetId
