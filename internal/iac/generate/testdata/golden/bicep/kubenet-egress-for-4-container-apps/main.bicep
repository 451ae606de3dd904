// The AKS cluster shop, blueprint kubenet, with its network: what routekeeper cluster create makes.
// Written by routekeeper iac generate.
//
//   az group create --subscription 11111111-1111-1111-1111-111111111111 --name Shop-RG \
//     --location westeurope --tags routekeeper-cluster=shop-rg/shop
//   az deployment group create --subscription 11111111-1111-1111-1111-111111111111 \
//     --resource-group Shop-RG --template-file main.bicep --parameters image=IMAGE eventSecret=$(openssl rand -hex 16)
//
// Bicep 0.38.3 or newer, for onlyIfNotExists.

targetScope = 'resourceGroup'

@description('The prefix of all resource names.')
param name string = 'shop'

@description('The Azure region.')
param location string = resourceGroup().location

@description('The image with routekeeper as its entry point, such as registry.example.com/routekeeper:1.0.')
param image string

@description('The secret of the callers of the keeper\'s listener, at least 16 characters.')
@secure()
@minLength(16)
param eventSecret string

// Names of roles and assignments derive from it, so they are stable for a cluster.
var clusterId = toLower(resourceId('Microsoft.ContainerService/managedClusters', name))

// The tag of all resources of the cluster.
var owner = toLower('${resourceGroup().name}/${name}')

// The cluster's identity comes first: it needs its rights before the cluster is made.
resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${name}-cluster'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
}

// The cluster's route table. The cloud provider writes a route for each node into it. A template
// replaces a whole table, without those routes, so it is made once and never written again.
@onlyIfNotExists()
resource nodeTable 'Microsoft.Network/routeTables@2025-05-01' = {
  name: '${name}-nodes-rt'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  properties: {}
}

// A separate resource, so that a change does not write the table's other routes.
resource egress 'Microsoft.Network/routeTables/routes@2025-05-01' = {
  parent: nodeTable
  name: 'egress'
  properties: {
    addressPrefix: '0.0.0.0/0'
    nextHopIpAddress: '10.100.0.4'
    nextHopType: 'VirtualAppliance'
  }
}

// No subnets here: a network that lists subnets replaces each of them. A network without the list
// leaves its subnets alone.
resource network 'Microsoft.Network/virtualNetworks@2025-05-01' = {
  name: '${name}-vnet'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  properties: {
    addressSpace: {
      addressPrefixes: [
        '10.224.0.0/16'
      ]
    }
  }
}

// The nodes' subnet. A template replaces a whole subnet, without what others have linked to it, so
// it is made once and never written again. A network accepts one write at a time, so its subnets
// are made one after the other.
@onlyIfNotExists()
resource nodeSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: network
  name: 'nodes'
  properties: {
    addressPrefix: '10.224.0.0/20'
    routeTable: {
      id: nodeTable.id
    }
  }
  dependsOn: [
    egress
  ]
}

// Exactly what the cluster needs on its network. Network Contributor allows much more.
resource role 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(clusterId, 'role')
  properties: {
    assignableScopes: [
      resourceGroup().id
    ]
    description: 'What the AKS cluster ${owner} needs on its network. Made by routekeeper.'
    permissions: [
      {
        actions: [
          'Microsoft.Network/virtualNetworks/subnets/read'
          'Microsoft.Network/virtualNetworks/subnets/join/action'
          'Microsoft.Network/routeTables/read'
          'Microsoft.Network/routeTables/write'
          'Microsoft.Network/routeTables/routes/read'
          'Microsoft.Network/routeTables/routes/write'
          'Microsoft.Network/routeTables/routes/delete'
        ]
      }
    ]
    roleName: '${name} cluster network (${substring(guid(clusterId, 'role'), 0, 8)})'
    type: 'CustomRole'
  }
}

resource roleOnNodeSubnet 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: nodeSubnet
  name: guid(clusterId, 'assignment', toLower(nodeSubnet.id))
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.name)
  }
}

resource roleOnNodeTable 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: nodeTable
  name: guid(clusterId, 'assignment', toLower(nodeTable.id))
  properties: {
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.name)
  }
}

// A new role takes effect after a minute or two, at most an hour, and a template cannot wait. If
// Azure refuses the cluster for lack of permissions, deploy again. Azure retires kubenet on 31
// March 2028; its successor is Azure CNI Overlay.
resource cluster 'Microsoft.ContainerService/managedClusters@2025-10-01' = {
  name: name
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    agentPoolProfiles: [
      {
        name: 'system'
        mode: 'System'
        count: 3
        maxPods: 110
        vmSize: 'Standard_D4s_v5'
        vnetSubnetID: nodeSubnet.id
      }
    ]
    dnsPrefix: name
    networkProfile: {
      dnsServiceIP: '10.0.0.10'
      networkPlugin: 'kubenet'
      outboundType: 'userDefinedRouting'
      podCidr: '10.244.0.0/16'
      serviceCidr: '10.0.0.0/16'
    }
    oidcIssuerProfile: {
      enabled: true
    }
    securityProfile: {
      workloadIdentity: {
        enabled: true
      }
    }
  }
  dependsOn: [
    roleOnNodeSubnet
    roleOnNodeTable
    egress
  ]
}

// The keeper's identity. None of its rights allows writing the cluster's route table.
resource keeper 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${name}-keeper'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
}

// Reads: on the subscriptions of the clusters and their networks: lists show only what the identity
// may read, and the activity log belongs to the subscription.
module keeperReads 'modules/keeper-reads.bicep' = {
  name: 'keeper-reads'
  scope: subscription()
  params: {
    clusterId: clusterId
    name: name
    principalId: keeper.properties.principalId
  }
}

// Links: on the resource groups of the route tables, security groups and others that the subnets
// link to: writing a subnet needs the right to join each of them.
resource keeperLinks 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(clusterId, 'keeper-links')
  properties: {
    assignableScopes: [
      resourceGroup().id
    ]
    description: 'What routekeeper needs: links.'
    permissions: [
      {
        actions: [
          'Microsoft.Network/routeTables/join/action'
          'Microsoft.Network/networkSecurityGroups/join/action'
          'Microsoft.Network/natGateways/join/action'
          'Microsoft.Network/serviceEndpointPolicies/join/action'
        ]
      }
    ]
    roleName: '${name} routekeeper links (${substring(guid(clusterId, 'keeper-links'), 0, 8)})'
    type: 'CustomRole'
  }
}

resource keeperLinksOnGroup 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(clusterId, 'keeper-links', toLower(resourceGroup().id))
  properties: {
    principalId: keeper.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', keeperLinks.name)
  }
}

// Subnets: on only the subnets that are guarded; if AKS made the network, the node resource group,
// which has no other subnets.
resource keeperSubnets 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(clusterId, 'keeper-subnets')
  properties: {
    assignableScopes: [
      resourceGroup().id
    ]
    description: 'What routekeeper needs: subnets.'
    permissions: [
      {
        actions: [
          'Microsoft.Network/virtualNetworks/subnets/write'
        ]
      }
    ]
    roleName: '${name} routekeeper subnets (${substring(guid(clusterId, 'keeper-subnets'), 0, 8)})'
    type: 'CustomRole'
  }
}

resource keeperSubnetsOnNodeSubnet 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: nodeSubnet
  name: guid(clusterId, 'keeper-subnets', toLower(nodeSubnet.id))
  properties: {
    principalId: keeper.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', keeperSubnets.name)
  }
}

// The keeper runs outside of the cluster's network, so that it works when that fails.
resource keeperEnvironment 'Microsoft.App/managedEnvironments@2025-07-01' = {
  name: '${name}-keeper'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  properties: {
    workloadProfiles: [
      {
        name: 'Consumption'
        workloadProfileType: 'Consumption'
      }
    ]
  }
}

// Always one keeper: two would only do the same work twice. Its secrets are mounted as files.
resource keeperApp 'Microsoft.App/containerApps@2025-07-01' = {
  name: '${name}-keeper'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${keeper.id}': {}
    }
  }
  properties: {
    configuration: {
      activeRevisionsMode: 'Single'
      secrets: [
        {
          name: 'routes'
          value: join([
            'apiVersion: routekeeper.dev/v1alpha1'
            'kind: ClusterRoutes'
            'metadata:'
            '  name: ${name}'
            'spec:'
            '  clusterID: ${cluster.id}'
            '  routeTableID: ${nodeTable.id}'
            '  guard:'
            '    mode: Enforce'
            ''
          ], '\n')
        }
        {
          name: 'event-secret'
          value: eventSecret
        }
      ]
    }
    environmentId: keeperEnvironment.id
    template: {
      containers: [
        {
          name: 'routekeeper'
          args: [
            'run'
            '-f'
            '/etc/routekeeper/routes'
            '--listen'
            ':8080'
            '--event-secret-file'
            '/etc/routekeeper/event-secret'
          ]
          env: [
            {
              name: 'AZURE_CLIENT_ID'
              value: keeper.properties.clientId
            }
          ]
          image: image
          probes: [
            {
              failureThreshold: 3
              httpGet: {
                path: '/livez'
                port: 8080
              }
              periodSeconds: 10
              type: 'Liveness'
            }
            {
              failureThreshold: 3
              httpGet: {
                path: '/readyz'
                port: 8080
              }
              periodSeconds: 10
              type: 'Readiness'
            }
          ]
          resources: {
            cpu: json('0.25')
            memory: '0.5Gi'
          }
          volumeMounts: [
            {
              mountPath: '/etc/routekeeper'
              volumeName: 'config'
            }
          ]
        }
      ]
      scale: {
        maxReplicas: 1
        minReplicas: 1
      }
      volumes: [
        {
          name: 'config'
          storageType: 'Secret'
        }
      ]
    }
    workloadProfileName: 'Consumption'
  }
  dependsOn: [
    keeperReads
    keeperLinksOnGroup
    keeperSubnetsOnNodeSubnet
  ]
}

output clusterId string = cluster.id

@description('The keeper\'s config: routekeeper run -f routes.yaml')
output routes string = join([
  'apiVersion: routekeeper.dev/v1alpha1'
  'kind: ClusterRoutes'
  'metadata:'
  '  name: ${name}'
  'spec:'
  '  clusterID: ${cluster.id}'
  '  routeTableID: ${nodeTable.id}'
  '  guard:'
  '    mode: Enforce'
  ''
], '\n')
