// A network for an AKS cluster with kubenet and a route table of your own, which no later deployment strips. Written by routekeeper iac generate.
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

@description('The firewall that 0.0.0.0/0 leads to. It stands in this network or in one that is peered with it.')
param firewallIp string = '10.100.0.4'

@description('The size of a node.')
param nodeVmSize string = 'Standard_D4s_v5'

@description('How many nodes the first pool has.')
param nodeCount int = 3

@description('The Kubernetes namespace that routekeeper runs in.')
param keeperNamespace string = 'routekeeper'

@description('The Kubernetes service account that routekeeper runs as.')
param keeperServiceAccount string = 'routekeeper'

@description('The OIDC issuer of the cluster that routekeeper runs in, if it is another one.')
param keeperIssuer string = ''

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
    firewallIp: firewallIp
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

// This cluster's table also carries its way out. Once the table is stripped, nothing in the cluster reaches Azure any more: run routekeeper
// somewhere else, and give that cluster's issuer as keeperIssuer.

module keeper 'modules/identity.bicep' = {
  name: 'keeper'
  scope: group
  params: {
    name: name
    location: location
    issuer: empty(keeperIssuer) ? cluster.outputs.issuer : keeperIssuer
    subject: 'system:serviceaccount:${keeperNamespace}:${keeperServiceAccount}'
  }
}

module roles 'modules/roles.bicep' = {
  name: 'roles'
  params: {
    name: name
    principalId: keeper.outputs.principalId
  }
}

module links 'modules/assign-group.bicep' = {
  name: 'links'
  scope: group
  params: {
    name: name
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles]
}

module guard 'modules/assign-subnet.bicep' = [for subnet in ['nodes', 'gateway']: {
  name: 'guard-${subnet}'
  scope: group
  params: {
    name: name
    vnetName: network.outputs.vnetName
    subnetName: subnet
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles]
}]

module target 'modules/assign-table.bicep' = {
  name: 'target'
  scope: group
  params: {
    name: name
    tableName: network.outputs.gatewayTableName
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles]
}

@description('The service account\'s annotation azure.workload.identity/client-id.')
output keeperClientId string = keeper.outputs.clientId
output clusterId string = cluster.outputs.clusterId
output nodeSubnetId string = network.outputs.nodeSubnetId
output gatewaySubnetId string = network.outputs.gatewaySubnetId
