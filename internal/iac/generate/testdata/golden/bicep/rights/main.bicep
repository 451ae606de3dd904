// The keeper's identity and rights, for the clusters and tables of a routekeeper config. Written by routekeeper iac generate.
//
//   az deployment sub create --subscription 11111111-1111-1111-1111-111111111111 --location westeurope --template-file main.bicep

targetScope = 'subscription'

@description('The prefix of all resource names.')
param name string = 'routekeeper'

@description('The Azure region.')
param location string = 'westeurope'

@description('The Kubernetes namespace that routekeeper runs in.')
param keeperNamespace string = 'routekeeper'

@description('The Kubernetes service account that routekeeper runs as.')
param keeperServiceAccount string = 'routekeeper'

@description('The OIDC issuer of the cluster that routekeeper runs in, if it is not the first managed cluster.')
param keeperIssuer string = ''

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: '${name}-keeper-rg'
  location: location
}

// The first managed cluster: routekeeper's pods log in through it.
resource home 'Microsoft.ContainerService/managedClusters@2025-10-01' existing = {
  name: 'shop'
  scope: resourceGroup('shop-rg')
}

module keeper 'modules/identity.bicep' = {
  name: 'keeper'
  scope: group
  params: {
    name: name
    location: location
    issuer: empty(keeperIssuer) ? home.properties.oidcIssuerProfile.issuerURL : keeperIssuer
    subject: 'system:serviceaccount:${keeperNamespace}:${keeperServiceAccount}'
  }
}

module roles0 'modules/roles.bicep' = {
  name: 'roles'
  scope: subscription('11111111-1111-1111-1111-111111111111')
  params: {
    name: name
    principalId: keeper.outputs.principalId
  }
}

module roles1 'modules/roles.bicep' = {
  name: 'roles'
  scope: subscription('22222222-2222-2222-2222-222222222222')
  params: {
    name: name
    principalId: keeper.outputs.principalId
  }
}

// The node subnets get their table back.
module cluster0 'modules/cluster.bicep' = {
  name: 'cluster-0'
  params: {
    name: name
    clusterName: 'shop'
    clusterGroup: 'shop-rg'
    // true if the config does not name the cluster's route table: it may be in the node resource group.
    tableIsDiscovered: false
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

// The node subnets get their table back.
module cluster1 'modules/cluster.bicep' = {
  name: 'cluster-1'
  params: {
    name: name
    clusterName: 'pay'
    clusterGroup: 'pay-rg'
    // true if the config does not name the cluster's route table: it may be in the node resource group.
    tableIsDiscovered: true
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

module subnet0 'modules/assign-subnet.bicep' = {
  name: 'subnet-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'net-rg')
  params: {
    name: name
    vnetName: 'shop-vnet'
    subnetName: 'appgw'
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

module target0 'modules/assign-table.bicep' = {
  name: 'target-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'net-rg')
  params: {
    name: name
    tableName: 'appgw-rt'
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

module target1 'modules/assign-table.bicep' = {
  name: 'target-1'
  scope: resourceGroup('22222222-2222-2222-2222-222222222222', 'hub-rg')
  params: {
    name: name
    tableName: 'hub-rt'
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

module credentials0 'modules/assign-cluster.bicep' = {
  name: 'credentials-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'pay-rg')
  params: {
    name: name
    clusterName: 'pay'
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

module links0 'modules/assign-group.bicep' = {
  name: 'links-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'net-rg')
  params: {
    name: name
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0, roles1]
}

@description('The service account\'s annotation azure.workload.identity/client-id.')
output keeperClientId string = keeper.outputs.clientId
