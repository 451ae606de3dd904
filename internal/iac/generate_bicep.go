package iac

import "strings"

// Network is what is generated: a network for a kubenet cluster with a route table that is brought, and what keeps it true.
type Network struct {
	// Name is the prefix of all names.
	Name string
}

// GenerateBicep writes complete Bicep files: main.bicep, and the module that it uses. What it rests on: use kubenet with a route table of your own
// (AKS), workload identity federation (Entra ID), custom roles (Azure RBAC). It was not compiled where it was written; the golden files of the tests
// are what it says.
func GenerateBicep(n Network) []File {
	return []File{
		{"main.bicep", []byte(strings.ReplaceAll(bicepNetwork, "NAME", n.Name))},
		{"nodes.bicep", []byte(strings.ReplaceAll(bicepNodes, "NAME", n.Name))},
	}
}

const bicepNetwork = `// A kubenet cluster with a route table of its own, and what keeps its pod routes true. Made by routekeeper iac generate bicep.
//
// The first time:   az deployment group create -g GROUP -f main.bicep -p firstDeployment=true
// ever after:       az deployment group create -g GROUP -f main.bicep
//
// Each subnet names its table, so that no deployment takes it away. The tables themselves are written once: a deployment writes a table
// whole, and the cluster's pod routes are not in this file.
//
// AKS retires kubenet on 31 March 2028; the way on is Azure CNI Overlay.

targetScope = 'resourceGroup'

@description('Set for the first deployment only: makes the route tables.')
param firstDeployment bool = false

param location string = resourceGroup().location

@description('Of the network. Nothing of it may be in podCidr, or in serviceCidr.')
param addressSpace string = '10.240.0.0/16'

@description('Of the pods: each node takes a /24 of it, and one route. A table holds 400.')
param podCidr string = '10.244.0.0/16'

param serviceCidr string = '10.0.0.0/16'
param dnsServiceIP string = '10.0.0.10'

@description('The pool\'s nodes.')
param nodeCount int = 3
param nodeSize string = 'Standard_D4s_v5'

@description('The issuer and subject of the token that the keeper runs with: a service account of a cluster, or a pipeline. Empty: no credential is made.')
param keeperIssuer string = ''
param keeperSubject string = 'system:serviceaccount:routekeeper:routekeeper'

// ---- Route tables ------------------------------------------------------------------------------------------------------------------

// The cluster's own: its cloud provider writes a route for each node into it. Nothing else may.
resource nodeTable 'Microsoft.Network/routeTables@2024-05-01' = if (firstDeployment) {
  name: 'NAME-nodes-rt'
  location: location
  properties: {
    disableBgpRoutePropagation: false
  }
}

// The gateway's: routekeeper copies the pod routes into it. 0.0.0.0/0 may only lead to the Internet there.
resource gatewayTable 'Microsoft.Network/routeTables@2024-05-01' = if (firstDeployment) {
  name: 'NAME-gateway-rt'
  location: location
  properties: {
    disableBgpRoutePropagation: false
  }
}

// ---- Network -----------------------------------------------------------------------------------------------------------------------

resource vnet 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: 'NAME-vnet'
  location: location
  properties: {
    addressSpace: {
      addressPrefixes: [
        addressSpace
      ]
    }
    // What is listed here is written as it stands: a subnet without its routeTable would lose it, with every pod route.
    subnets: [
      {
        name: 'nodes'
        properties: {
          addressPrefix: cidrSubnet(addressSpace, 22, 0)
          routeTable: {
            id: resourceId('Microsoft.Network/routeTables', 'NAME-nodes-rt')
          }
        }
      }
      {
        name: 'gateway'
        properties: {
          addressPrefix: cidrSubnet(addressSpace, 24, 8)
          routeTable: {
            id: resourceId('Microsoft.Network/routeTables', 'NAME-gateway-rt')
          }
        }
      }
    ]
  }
  dependsOn: [
    nodeTable
    gatewayTable
  ]
}

resource nodeSubnet 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' existing = {
  parent: vnet
  name: 'nodes'
}

// ---- Cluster -----------------------------------------------------------------------------------------------------------------------

// A table that is brought needs an identity that is there before the cluster.
resource clusterIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'NAME-aks-identity'
  location: location
}

// Just what a kubenet cluster does with the network that is brought: Network Contributor would do, and allow far more.
resource clusterRole 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(resourceGroup().id, 'NAME-aks')
  properties: {
    roleName: 'NAME AKS network (${uniqueString(resourceGroup().id)})'
    description: 'What the kubenet cluster NAME-aks does with its network.'
    type: 'CustomRole'
    permissions: [
      {
        actions: [
          'Microsoft.Network/routeTables/read'
          'Microsoft.Network/routeTables/write'
          'Microsoft.Network/routeTables/routes/read'
          'Microsoft.Network/routeTables/routes/write'
          'Microsoft.Network/routeTables/routes/delete'
          'Microsoft.Network/virtualNetworks/subnets/read'
          'Microsoft.Network/virtualNetworks/subnets/join/action'
        ]
      }
    ]
    assignableScopes: [
      resourceGroup().id
    ]
  }
}

resource clusterMayUseNetwork 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resourceGroup().id, clusterIdentity.id, 'network')
  properties: {
    roleDefinitionId: clusterRole.id
    principalId: clusterIdentity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

var nodeGroup = 'NAME-aks-nodes'

resource cluster 'Microsoft.ContainerService/managedClusters@2024-09-01' = {
  name: 'NAME-aks'
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${clusterIdentity.id}': {}
    }
  }
  properties: {
    dnsPrefix: 'NAME-aks'
    nodeResourceGroup: nodeGroup
    oidcIssuerProfile: {
      enabled: true
    }
    securityProfile: {
      workloadIdentity: {
        enabled: true
      }
    }
    networkProfile: {
      networkPlugin: 'kubenet'
      podCidr: podCidr
      serviceCidr: serviceCidr
      dnsServiceIP: dnsServiceIP
    }
    agentPoolProfiles: [
      {
        name: 'system'
        mode: 'System'
        count: nodeCount
        vmSize: nodeSize
        vnetSubnetID: nodeSubnet.id
      }
    ]
  }
  dependsOn: [
    clusterMayUseNetwork // a new assignment can take some minutes to count
  ]
}

// ---- Keeper ------------------------------------------------------------------------------------------------------------------------

resource keeperIdentity 'Microsoft.ManagedIdentity/userAssignedIdentities@2023-01-31' = {
  name: 'NAME-routekeeper'
  location: location
}

// Just what routekeeper does here: it sees the cluster and its network, puts a lost table back, and copies routes. A subnet is written whole, so that
// what else is linked to it (network security group, NAT gateway, service endpoint policy) is joined again.
resource keeperRole 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(resourceGroup().id, 'NAME-routekeeper')
  properties: {
    roleName: 'NAME routekeeper (${uniqueString(resourceGroup().id)})'
    description: 'What routekeeper does to keep the pod routes of NAME-aks.'
    type: 'CustomRole'
    permissions: [
      {
        actions: [
          'Microsoft.ContainerService/managedClusters/read'
          'Microsoft.Insights/eventtypes/values/read'
          'Microsoft.Network/virtualNetworks/read'
          'Microsoft.Network/virtualNetworks/subnets/read'
          'Microsoft.Network/virtualNetworks/subnets/write'
          'Microsoft.Network/routeTables/read'
          'Microsoft.Network/routeTables/write'
          'Microsoft.Network/routeTables/join/action'
          'Microsoft.Network/networkSecurityGroups/join/action'
          'Microsoft.Network/natGateways/join/action'
          'Microsoft.Network/serviceEndpointPolicies/join/action'
        ]
      }
    ]
    assignableScopes: [
      resourceGroup().id
    ]
  }
}

resource keeperMayKeep 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resourceGroup().id, keeperIdentity.id, 'keeper')
  properties: {
    roleDefinitionId: keeperRole.id
    principalId: keeperIdentity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

// Before it deletes many routes the keeper asks which nodes are gone: in the group that AKS makes for them.
module keeperMaySeeNodes 'nodes.bicep' = {
  name: 'NAME-routekeeper-nodes'
  scope: resourceGroup(nodeGroup)
  params: {
    principalId: keeperIdentity.properties.principalId
  }
  dependsOn: [
    cluster // makes the group
  ]
}

// No secret: who has a token of this issuer for this subject is the keeper.
resource keeperCredential 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2023-01-31' = if (!empty(keeperIssuer)) {
  parent: keeperIdentity
  name: 'routekeeper'
  properties: {
    issuer: keeperIssuer
    subject: keeperSubject
    audiences: [
      'api://AzureADTokenExchange'
    ]
  }
}

output clusterId string = cluster.id
output keeperClientId string = keeperIdentity.properties.clientId
output gatewayTableId string = resourceId('Microsoft.Network/routeTables', 'NAME-gateway-rt')
`

const bicepNodes = `// What routekeeper sees of the nodes of NAME-aks: part of main.bicep.

param principalId string

// Reader, in the group of the nodes only.
resource keeperMayRead 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resourceGroup().id, principalId, 'nodes')
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'acdd72a7-3385-48ef-bd42-f606fba81ae7')
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
`
