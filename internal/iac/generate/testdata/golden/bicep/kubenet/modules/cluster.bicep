param name string
param location string
param vnetName string
param podCidr string
param serviceCidr string
param dnsServiceIp string
param nodeVmSize string
param nodeCount int

// The subnet as it is: what is existing is not written.
resource vnet 'Microsoft.Network/virtualNetworks@2025-05-01' existing = {
  name: vnetName
}

resource nodes 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' existing = {
  parent: vnet
  name: 'nodes'
}

resource nodeTable 'Microsoft.Network/routeTables@2025-05-01' existing = {
  name: '${name}-nodes-rt'
}

// The cluster's identity comes first: with a table of your own it has to have its rights before the cluster is made, and an
// identity that is made with the cluster cannot have any.
resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: '${name}-cluster'
  location: location
}

// What it needs on the table and the subnet, and no more. Network Contributor has it as well, with all the rest of the network.
resource role 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(resourceGroup().id, name, 'cluster network')
  properties: {
    roleName: '${name} cluster network'
    description: 'What the AKS cluster ${name} needs on the network that it was brought.'
    type: 'customRole'
    permissions: [
      {
        actions: [
          'Microsoft.Network/routeTables/read' // the cloud provider reads the table
          'Microsoft.Network/routeTables/write' // and writes it whole, one route a node
          'Microsoft.Network/routeTables/routes/read'
          'Microsoft.Network/routeTables/routes/write'
          'Microsoft.Network/routeTables/routes/delete'
          'Microsoft.Network/virtualNetworks/subnets/read' // nodes are put into the subnet
          'Microsoft.Network/virtualNetworks/subnets/join/action'
        ]
      }
    ]
    assignableScopes: [resourceGroup().id]
  }
}

resource onTable 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(nodeTable.id, name, 'cluster network')
  scope: nodeTable
  properties: {
    roleDefinitionId: role.id
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal' // so that Azure does not look for it where it is not known yet
  }
}

resource onSubnet 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(nodes.id, name, 'cluster network')
  scope: nodes
  properties: {
    roleDefinitionId: role.id
    principalId: identity.properties.principalId
    principalType: 'ServicePrincipal'
  }
}

// A new role takes a while to count, a minute or two mostly, up to an hour, and Bicep cannot wait. Made too early, the cluster is refused with
// CustomRouteTableMissingPermission: deploy again then.
resource cluster 'Microsoft.ContainerService/managedClusters@2025-10-01' = {
  name: name
  location: location
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.id}': {}
    }
  }
  properties: {
    dnsPrefix: name
    agentPoolProfiles: [
      {
        name: 'system'
        mode: 'System'
        count: nodeCount
        vmSize: nodeVmSize
        vnetSubnetID: nodes.id
      }
    ]
    networkProfile: {
      // Azure retires kubenet on 31 March 2028; the way on is Azure CNI Overlay.
      networkPlugin: 'kubenet'
      podCidr: podCidr
      serviceCidr: serviceCidr
      dnsServiceIP: dnsServiceIp
      outboundType: 'loadBalancer'
    }
    // For workload identity, which lets routekeeper and other pods log in to Azure without a secret.
    oidcIssuerProfile: {
      enabled: true
    }
    securityProfile: {
      workloadIdentity: {
        enabled: true
      }
    }
  }
  dependsOn: [onTable, onSubnet]
}

output clusterId string = cluster.id
output issuer string = cluster.properties.oidcIssuerProfile.issuerURL
