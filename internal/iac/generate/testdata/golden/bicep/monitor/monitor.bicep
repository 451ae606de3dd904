// Azure Monitor notifies a keeper of changes to the resources that it manages. Written by routekeeper init monitor --print bicep.
//
// Deploy it to a resource group:
//   az deployment group create --subscription 11111111-1111-1111-1111-111111111111 -g ops-rg -f monitor.bicep -p eventsUrl=https://…/events/SECRET
targetScope = 'resourceGroup'

@description('Where the keeper accepts events, with the secret.')
@secure()
param eventsUrl string

// The watched resources by subscription: an alert rule works only in its own subscription.
var scopes = {
  '11111111-1111-1111-1111-111111111111': [
    '/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/MC_shop'
    '/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/routeTables/shop-rt'
  ]
}

var operations = [
  'Microsoft.Network/routeTables/delete'
  'Microsoft.Network/routeTables/write'
]

resource actions 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: 'routekeeper'
  location: 'Global'
  properties: {
    groupShortName: 'routekeeper'
    enabled: true
    webhookReceivers: [
      {
        name: 'routekeeper'
        serviceUri: eventsUrl
        useCommonAlertSchema: true
      }
    ]
  }
}

resource rule 'Microsoft.Insights/activityLogAlerts@2020-10-01' = {
  name: 'routekeeper'
  location: 'Global'
  properties: {
    description: 'Wakes it\'s keeper.'
    enabled: true
    scopes: scopes[subscription().subscriptionId]
    condition: {
      allOf: [
        {
          field: 'category'
          equals: 'Administrative'
        }
        {
          anyOf: map(operations, operation => {
            field: 'operationName'
            equals: operation
          })
        }
        {
          field: 'status'
          equals: 'Succeeded'
        }
      ]
    }
    actions: {
      actionGroups: [
        {
          actionGroupId: actions.id
        }
      ]
    }
  }
}
