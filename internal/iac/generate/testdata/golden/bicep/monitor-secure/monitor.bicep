// Azure Monitor notifies a keeper of changes to the resources that it manages. Written by routekeeper init monitor --print bicep.
//
// Deploy it to a resource group in each of the subscriptions:
//   az deployment group create --subscription 11111111-1111-1111-1111-111111111111 -g ops-rg -f monitor.bicep -p eventsUrl=https://…/events
//   az deployment group create --subscription 22222222-2222-2222-2222-222222222222 -g hub-rg -f monitor.bicep -p eventsUrl=https://…/events
targetScope = 'resourceGroup'

@description('Where the keeper accepts events.')
@secure()
param eventsUrl string

// The watched resources by subscription: an alert rule works only in its own subscription.
var scopes = {
  '11111111-1111-1111-1111-111111111111': [
    '/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/MC_shop'
  ]
  '22222222-2222-2222-2222-222222222222': [
    '/subscriptions/22222222-2222-2222-2222-222222222222/resourceGroups/hub-rg'
  ]
}

var operations = [
  'Microsoft.Network/routeTables/write'
]

resource actions 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: 'routekeeper-two'
  location: 'Global'
  properties: {
    groupShortName: 'routekeeper'
    enabled: true
    webhookReceivers: [
      {
        name: 'routekeeper'
        serviceUri: eventsUrl
        useCommonAlertSchema: true
        useAadAuth: true
        objectId: '0b0b0000-0000-4000-8000-000000000009'
        identifierUri: 'api://routekeeper'
        tenantId: '7e4a0000-0000-4000-8000-000000000001'
      }
    ]
  }
}

resource rule 'Microsoft.Insights/activityLogAlerts@2020-10-01' = {
  name: 'routekeeper-two'
  location: 'Global'
  properties: {
    description: 'Wakes.'
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
