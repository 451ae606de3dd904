// The AKS cluster shop, blueprint pod-subnet-static, with its network: what routekeeper cluster create makes.
// Written by routekeeper iac generate.
//
//   az group create --subscription 11111111-1111-1111-1111-111111111111 --name Shop-RG \
//     --location westeurope --tags routekeeper-cluster=shop-rg/shop
//   az deployment group create --subscription 11111111-1111-1111-1111-111111111111 \
//     --resource-group Shop-RG --template-file main.bicep
//
// Bicep 0.38.3 or newer, for onlyIfNotExists.

targetScope = 'resourceGroup'

@description('The prefix of all resource names.')
param name string = 'shop'

@description('The Azure region.')
param location string = resourceGroup().location

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

// Sends egress traffic to the firewall. It is made once, and never written again.
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
        '10.240.0.0/12'
        '10.130.0.0/16'
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
    addressPrefix: '10.240.0.0/20'
    routeTable: {
      id: nodeTable.id
    }
  }
  dependsOn: [
    egress
  ]
}

// The pods' subnet.
@onlyIfNotExists()
resource podSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: network
  name: 'pods'
  properties: {
    addressPrefix: '10.130.0.0/21'
    routeTable: {
      id: nodeTable.id
    }
  }
  dependsOn: [
    nodeSubnet
    egress
  ]
}

// For the Application Gateway only.
@onlyIfNotExists()
resource gatewaySubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: network
  name: 'gateway'
  properties: {
    addressPrefix: '10.130.8.0/24'
  }
  dependsOn: [
    podSubnet
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

resource roleOnPodSubnet 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: podSubnet
  name: guid(clusterId, 'assignment', toLower(podSubnet.id))
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
      maxCapacity: 10
      minCapacity: 0
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
// Azure refuses the cluster for lack of permissions, deploy again.
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
        availabilityZones: [
          '1'
          '2'
          '3'
        ]
        count: 3
        enableAutoScaling: true
        maxCount: 5
        maxPods: 110
        minCount: 2
        podIPAllocationMode: 'StaticBlock'
        podSubnetID: podSubnet.id
        vmSize: 'Standard_D4s_v5'
        vnetSubnetID: nodeSubnet.id
      }
      {
        name: 'user'
        mode: 'User'
        count: 2
        maxPods: 60
        podIPAllocationMode: 'StaticBlock'
        podSubnetID: podSubnet.id
        vmSize: 'Standard_D8s_v5'
        vnetSubnetID: nodeSubnet.id
      }
      {
        name: 'batch'
        mode: 'User'
        availabilityZones: [
          '2'
        ]
        count: 1
        enableAutoScaling: true
        maxCount: 4
        maxPods: 110
        minCount: 1
        podIPAllocationMode: 'StaticBlock'
        podSubnetID: podSubnet.id
        vmSize: 'Standard_F8s_v2'
        vnetSubnetID: nodeSubnet.id
      }
    ]
    apiServerAccessProfile: {
      enablePrivateCluster: true
    }
    dnsPrefix: name
    kubernetesVersion: '1.33'
    networkProfile: {
      dnsServiceIP: '10.0.0.10'
      networkPlugin: 'azure'
      networkPolicy: 'calico'
      outboundType: 'userDefinedRouting'
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
    roleOnPodSubnet
    roleOnNodeTable
    egress
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

output clusterId string = cluster.id
