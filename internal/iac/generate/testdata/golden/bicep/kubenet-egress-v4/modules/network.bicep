param name string
param location string
param addressSpace string
param nodePrefix string
param gatewayPrefix string
param podCidr string
param firewallIp string

// The nodes' route table. The cluster's cloud provider writes a route for each node into it: without this table pods on
// different nodes do not reach each other.
// A table is written whole, and routes that are not in the template are gone then: so it is made once, and never written again.
@onlyIfNotExists()
resource nodeTable 'Microsoft.Network/routeTables@2025-05-01' = {
  name: '${name}-nodes-rt'
  location: location
  properties: {}
}

// A resource of its own, so that it can be changed without writing the table's other routes.
resource egress 'Microsoft.Network/routeTables/routes@2025-05-01' = {
  parent: nodeTable
  name: 'egress'
  properties: {
    addressPrefix: '0.0.0.0/0'
    nextHopType: 'VirtualAppliance'
    nextHopIpAddress: firewallIp
  }
}

// The gateway sends to pods directly, so it needs the pod routes too: routekeeper copies them into this table. It is not the nodes' table,
// whose 0.0.0.0/0 to a firewall an Application Gateway does not take.
@onlyIfNotExists()
resource gatewayTable 'Microsoft.Network/routeTables@2025-05-01' = {
  name: '${name}-gateway-rt'
  location: location
  properties: {}
}

resource nodeFilter 'Microsoft.Network/networkSecurityGroups@2025-05-01' = {
  name: '${name}-nodes-nsg'
  location: location
  properties: {
    // Pods keep their addresses on the way to other nodes and to the gateway: said here, so that it holds whatever is denied below.
    securityRules: [
      {
        name: 'pods'
        properties: {
          description: 'Pods to nodes and to pods on other nodes'
          priority: 100
          direction: 'Inbound'
          access: 'Allow'
          protocol: '*'
          sourceAddressPrefix: podCidr
          sourcePortRange: '*'
          destinationAddressPrefix: '*'
          destinationPortRange: '*'
        }
      }
      {
        name: 'nodes-and-gateway'
        properties: {
          description: 'Nodes and the gateway to nodes and pods'
          priority: 110
          direction: 'Inbound'
          access: 'Allow'
          protocol: '*'
          sourceAddressPrefixes: [nodePrefix, gatewayPrefix]
          sourcePortRange: '*'
          destinationAddressPrefixes: [nodePrefix, podCidr]
          destinationPortRange: '*'
        }
      }
    ]
  }
}

// A subnet that is listed here without its routeTable loses it: each one names its own. Whoever adds a subnet adds it here too, or leaves
// `subnets` out as a whole, which leaves all of them as they are (from api-version 2023-09-01 on; before, it deletes them).
resource vnet 'Microsoft.Network/virtualNetworks@2025-05-01' = {
  name: '${name}-vnet'
  location: location
  properties: {
    addressSpace: {
      addressPrefixes: [addressSpace]
    }
    subnets: [
      {
        name: 'nodes'
        properties: {
          addressPrefix: nodePrefix
          routeTable: {
            id: nodeTable.id
          }
          networkSecurityGroup: {
            id: nodeFilter.id
          }
        }
      }
      // For an Application Gateway, alone in its subnet.
      {
        name: 'gateway'
        properties: {
          addressPrefix: gatewayPrefix
          routeTable: {
            id: gatewayTable.id
          }
        }
      }
    ]
  }
}

output vnetName string = vnet.name
output nodeSubnetId string = resourceId('Microsoft.Network/virtualNetworks/subnets', vnet.name, 'nodes')
output gatewaySubnetId string = resourceId('Microsoft.Network/virtualNetworks/subnets', vnet.name, 'gateway')
output gatewayTableName string = gatewayTable.name
