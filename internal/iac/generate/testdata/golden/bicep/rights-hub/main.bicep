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

@description('The OIDC issuer of the cluster that routekeeper runs in. Without it, the identity is for a machine.')
param keeperIssuer string = ''

resource group 'Microsoft.Resources/resourceGroups@2024-03-01' = {
  name: '${name}-keeper-rg'
  location: location
}

module keeper 'modules/identity.bicep' = {
  name: 'keeper'
  scope: group
  params: {
    name: name
    location: location
    issuer: keeperIssuer
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

module subnet0 'modules/assign-subnet.bicep' = {
  name: 'subnet-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'net-rg')
  params: {
    name: name
    vnetName: 'shop-vnet'
    subnetName: 'appgw'
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0]
}

module target0 'modules/assign-table.bicep' = {
  name: 'target-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'net-rg')
  params: {
    name: name
    tableName: 'appgw-rt'
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0]
}

module links0 'modules/assign-group.bicep' = {
  name: 'links-0'
  scope: resourceGroup('11111111-1111-1111-1111-111111111111', 'net-rg')
  params: {
    name: name
    principalId: keeper.outputs.principalId
  }
  dependsOn: [roles0]
}

@description('The service account\'s annotation azure.workload.identity/client-id.')
output keeperClientId string = keeper.outputs.clientId
