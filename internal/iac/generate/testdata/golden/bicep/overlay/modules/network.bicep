param name string
param location string
param addressSpace string
param nodePrefix string
param gatewayPrefix string
param podCidr string

resource nodeFilter 'Microsoft.Network/networkSecurityGroups@2025-05-01' = {
  name: '${name}-nodes-nsg'
  location: location
  properties: {
    // Pods keep their addresses on the way to other nodes: said here, so that it holds whatever is denied below.
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
        }
      }
    ]
  }
}

output vnetName string = vnet.name
output nodeSubnetId string = resourceId('Microsoft.Network/virtualNetworks/subnets', vnet.name, 'nodes')
output gatewaySubnetId string = resourceId('Microsoft.Network/virtualNetworks/subnets', vnet.name, 'gateway')
