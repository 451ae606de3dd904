
targetScope = 'resourceGroup'

@description('The subnet\'s name.')
param subnetName string

@description('Its route table.')
param tableId string

// For the Application Gateway only.
@onlyIfNotExists()
resource subnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  name: 'hub/${subnetName}'
  properties: {
    addressPrefix: '10.240.16.0/24'
    routeTable: {
      id: tableId
    }
  }
}
