// The AKS cluster shop, blueprint kubenet, with its network: what routekeeper cluster create makes.
// Written by routekeeper iac generate.
//
//   az group create --subscription 11111111-1111-1111-1111-111111111111 --name Shop-RG \
//     --location westeurope --tags routekeeper-cluster=shop-rg/shop
//   az deployment group create --subscription 11111111-1111-1111-1111-111111111111 \
//     --resource-group Shop-RG --template-file main.bicep --parameters image=IMAGE
//
// Bicep 0.38.3 or newer, for onlyIfNotExists.

targetScope = 'resourceGroup'

@description('The prefix of all resource names.')
param name string = 'shop'

@description('The Azure region.')
param location string = resourceGroup().location

@description('The image with routekeeper as its entry point, such as registry.example.com/routekeeper:1.0.')
param image string

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

// The gateway sends to pods directly, so it needs the pod routes too: routekeeper copies them into
// this table. It is made once and never written again.
@onlyIfNotExists()
resource gatewayTable 'Microsoft.Network/routeTables@2025-05-01' = {
  name: '${name}-gateway-rt'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  properties: {}
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
}

// For the Application Gateway only.
@onlyIfNotExists()
resource gatewaySubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: network
  name: 'gateway'
  properties: {
    addressPrefix: '10.224.16.0/24'
    routeTable: {
      id: gatewayTable.id
    }
  }
  dependsOn: [
    nodeSubnet
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

// The gateway's public address.
resource gatewayAddress 'Microsoft.Network/publicIPAddresses@2025-05-01' = {
  name: '${name}-gateway-ip'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  sku: {
    name: 'Standard'
    tier: 'Regional'
  }
  properties: {
    publicIPAllocationMethod: 'Static'
  }
}

// Made once, and never written again: the add-on writes its listeners, pools and rules. To change
// its limits: az network application-gateway update.
@onlyIfNotExists()
resource gateway 'Microsoft.Network/applicationGateways@2025-05-01' = {
  name: '${name}-gateway'
  location: location
  tags: {
    'routekeeper-cluster': owner
  }
  properties: {
    sku: {
      name: 'Standard_v2'
      tier: 'Standard_v2'
    }
    autoscaleConfiguration: {
      maxCapacity: 4
      minCapacity: 1
    }
    backendAddressPools: [
      {
        name: 'none'
        properties: {}
      }
    ]
    backendHttpSettingsCollection: [
      {
        name: 'http'
        properties: {
          port: 80
          protocol: 'Http'
          requestTimeout: 30
        }
      }
    ]
    frontendIPConfigurations: [
      {
        name: 'public'
        properties: {
          publicIPAddress: {
            id: gatewayAddress.id
          }
        }
      }
    ]
    frontendPorts: [
      {
        name: 'http'
        properties: {
          port: 80
        }
      }
    ]
    gatewayIPConfigurations: [
      {
        name: 'gateway'
        properties: {
          subnet: {
            id: gatewaySubnet.id
          }
        }
      }
    ]
    httpListeners: [
      {
        name: 'http'
        properties: {
          frontendIPConfiguration: {
            id: resourceId('Microsoft.Network/applicationGateways/frontendIPConfigurations', '${name}-gateway', 'public')
          }
          frontendPort: {
            id: resourceId('Microsoft.Network/applicationGateways/frontendPorts', '${name}-gateway', 'http')
          }
          protocol: 'Http'
        }
      }
    ]
    requestRoutingRules: [
      {
        name: 'http'
        properties: {
          backendAddressPool: {
            id: resourceId('Microsoft.Network/applicationGateways/backendAddressPools', '${name}-gateway', 'none')
          }
          backendHttpSettings: {
            id: resourceId('Microsoft.Network/applicationGateways/backendHttpSettingsCollection', '${name}-gateway', 'http')
          }
          httpListener: {
            id: resourceId('Microsoft.Network/applicationGateways/httpListeners', '${name}-gateway', 'http')
          }
          priority: 100
          ruleType: 'Basic'
        }
      }
    ]
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
    addonProfiles: {
      ingressApplicationGateway: {
        config: {
          applicationGatewayId: gateway.id
        }
        enabled: true
      }
    }
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
      outboundType: 'loadBalancer'
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
  ]
}

// AKS makes an identity for the add-on, which writes the gateway: Contributor.
resource addonOnGateway 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: gateway
  name: guid(clusterId, 'add-on', toLower(gateway.id))
  properties: {
    principalId: cluster.properties.addonProfiles.ingressApplicationGateway.identity.objectId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'b24988ac-6180-42a0-ab88-20f7382dd24c')
  }
}

// The add-on reads the resource group: Reader.
resource addonOnGroup 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(clusterId, 'add-on', toLower(resourceGroup().id))
  properties: {
    principalId: cluster.properties.addonProfiles.ingressApplicationGateway.identity.objectId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'acdd72a7-3385-48ef-bd42-f606fba81ae7')
  }
}

// The add-on joins the gateway's subnet.
resource addonOnGatewaySubnet 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: gatewaySubnet
  name: guid(clusterId, 'add-on', toLower(gatewaySubnet.id))
  properties: {
    principalId: cluster.properties.addonProfiles.ingressApplicationGateway.identity.objectId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.name)
  }
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

resource keeperSubnetsOnGatewaySubnet 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: gatewaySubnet
  name: guid(clusterId, 'keeper-subnets', toLower(gatewaySubnet.id))
  properties: {
    principalId: keeper.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', keeperSubnets.name)
  }
}

// Targets: on only the tables that pod routes are copied to, or that spec.egress enforces: never a
// cluster's route table.
resource keeperTargets 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(clusterId, 'keeper-targets')
  properties: {
    assignableScopes: [
      resourceGroup().id
    ]
    description: 'What routekeeper needs: targets.'
    permissions: [
      {
        actions: [
          'Microsoft.Network/routeTables/write'
        ]
      }
    ]
    roleName: '${name} routekeeper targets (${substring(guid(clusterId, 'keeper-targets'), 0, 8)})'
    type: 'CustomRole'
  }
}

resource keeperTargetsOnGatewayTable 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: gatewayTable
  name: guid(clusterId, 'keeper-targets', toLower(gatewayTable.id))
  properties: {
    principalId: keeper.properties.principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', keeperTargets.name)
  }
}

// The keeper's pods log in as its service account, without a secret.
resource keeperCredential 'Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials@2024-11-30' = {
  parent: keeper
  name: 'routekeeper'
  properties: {
    audiences: [
      'api://AzureADTokenExchange'
    ]
    issuer: cluster.properties.oidcIssuerProfile.issuerURL
    subject: 'system:serviceaccount:routekeeper:routekeeper'
  }
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
  '    subnets:'
  '      - subnetID: ${gatewaySubnet.id}'
  '        routeTableID: ${gatewayTable.id}'
  '  targets:'
  '    - routeTableID: ${gatewayTable.id}'
  ''
], '\n')

@description('The keeper\'s workload in the cluster: kubectl apply -f keeper.yaml')
output keeperManifest string = join([
  'apiVersion: v1'
  'kind: Namespace'
  'metadata:'
  '  name: routekeeper'
  '---'
  'apiVersion: v1'
  'kind: ServiceAccount'
  'metadata:'
  '  name: routekeeper'
  '  namespace: routekeeper'
  '  annotations:'
  '    azure.workload.identity/client-id: ${keeper.properties.clientId}'
  '---'
  'apiVersion: v1'
  'kind: ConfigMap'
  'metadata:'
  '  name: routekeeper'
  '  namespace: routekeeper'
  'data:'
  '  routes.yaml: |'
  '    apiVersion: routekeeper.dev/v1alpha1'
  '    kind: ClusterRoutes'
  '    metadata:'
  '      name: ${name}'
  '    spec:'
  '      clusterID: ${cluster.id}'
  '      routeTableID: ${nodeTable.id}'
  '      guard:'
  '        mode: Enforce'
  '        subnets:'
  '          - subnetID: ${gatewaySubnet.id}'
  '            routeTableID: ${gatewayTable.id}'
  '      targets:'
  '        - routeTableID: ${gatewayTable.id}'
  '---'
  'apiVersion: apps/v1'
  'kind: Deployment'
  'metadata:'
  '  name: routekeeper'
  '  namespace: routekeeper'
  'spec:'
  '  replicas: 1'
  '  strategy:'
  '    type: Recreate'
  '  selector:'
  '    matchLabels:'
  '      app: routekeeper'
  '  template:'
  '    metadata:'
  '      labels:'
  '        app: routekeeper'
  '        azure.workload.identity/use: "true"'
  '    spec:'
  '      serviceAccountName: routekeeper'
  '      # On the node\'s network: the keeper repairs the routes between pods, and must not need them.'
  '      hostNetwork: true'
  '      dnsPolicy: Default'
  '      containers:'
  '        - name: routekeeper'
  '          image: ${image}'
  '          args:'
  '            - "run"'
  '            - "-f"'
  '            - "/etc/routekeeper/routes.yaml"'
  '            - "--listen"'
  '            - "127.0.0.1:18080"'
  '          livenessProbe:'
  '            httpGet:'
  '              host: 127.0.0.1'
  '              path: /livez'
  '              port: 18080'
  '            periodSeconds: 10'
  '          readinessProbe:'
  '            httpGet:'
  '              host: 127.0.0.1'
  '              path: /readyz'
  '              port: 18080'
  '            periodSeconds: 10'
  '          resources:'
  '            requests:'
  '              cpu: 50m'
  '              memory: 64Mi'
  '            limits:'
  '              memory: 512Mi'
  '          securityContext:'
  '            allowPrivilegeEscalation: false'
  '            readOnlyRootFilesystem: true'
  '            runAsNonRoot: true'
  '            runAsUser: 65532'
  '            capabilities:'
  '              drop: [ALL]'
  '          volumeMounts:'
  '            - name: config'
  '              mountPath: /etc/routekeeper'
  '      volumes:'
  '        - name: config'
  '          configMap:'
  '            name: routekeeper'
  ''
], '\n')
