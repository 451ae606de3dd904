// Policies that refuse to take from guarded subnets what they must have. Written by routekeeper prevent.
//
//   az deployment sub create --subscription 5ab00000-0000-4000-8000-000000000001 --location westeurope --name routekeeper-prevent --template-file main.bicep

targetScope = 'subscription'

resource routeTable 'Microsoft.Authorization/policyDefinitions@2023-04-01' = {
  name: 'routekeeper-route-table'
  properties: {
    mode: 'All'
    description: 'Refuses a write in which a subnet listed in the subnets parameter lacks its route table, or has another one. Written by routekeeper prevent.'
    displayName: 'Subnets keep their route table'
    parameters: {
      subnets: {
        metadata: {
          description: 'Subnets with what they must have: network, name, subnet (their ID), has.'
        }
        type: 'Array'
      }
    }
    policyRule: {
      if: {
        anyOf: [
          {
            allOf: [
              {
                equals: 'Microsoft.Network/virtualNetworks'
                field: 'type'
              }
              {
                count: {
                  name: 'guarded'
                  value: '[parameters(\'subnets\')]'
                  where: {
                    allOf: [
                      {
                        equals: '[current(\'guarded\').network]'
                        field: 'id'
                      }
                      {
                        count: {
                          field: 'Microsoft.Network/virtualNetworks/subnets[*]'
                          where: {
                            allOf: [
                              {
                                equals: '[current(\'guarded\').name]'
                                field: 'Microsoft.Network/virtualNetworks/subnets[*].name'
                              }
                              {
                                anyOf: [
                                  {
                                    exists: 'false'
                                    field: 'Microsoft.Network/virtualNetworks/subnets[*].routeTable.id'
                                  }
                                  {
                                    field: 'Microsoft.Network/virtualNetworks/subnets[*].routeTable.id'
                                    notEquals: '[current(\'guarded\').has]'
                                  }
                                ]
                              }
                            ]
                          }
                        }
                        greater: 0
                      }
                    ]
                  }
                }
                greater: 0
              }
            ]
          }
          {
            allOf: [
              {
                equals: 'Microsoft.Network/virtualNetworks/subnets'
                field: 'type'
              }
              {
                count: {
                  name: 'guarded'
                  value: '[parameters(\'subnets\')]'
                  where: {
                    allOf: [
                      {
                        equals: '[current(\'guarded\').subnet]'
                        field: 'id'
                      }
                      {
                        anyOf: [
                          {
                            exists: 'false'
                            field: 'Microsoft.Network/virtualNetworks/subnets/routeTable.id'
                          }
                          {
                            field: 'Microsoft.Network/virtualNetworks/subnets/routeTable.id'
                            notEquals: '[current(\'guarded\').has]'
                          }
                        ]
                      }
                    ]
                  }
                }
                greater: 0
              }
            ]
          }
        ]
      }
      then: {
        effect: 'deny'
      }
    }
  }
}

resource routeTableAssignment 'Microsoft.Authorization/policyAssignments@2023-04-01' = {
  name: 'routekeeper-route-table'
  properties: {
    description: 'Refuses a write in which a subnet listed in the subnets parameter lacks its route table, or has another one. Written by routekeeper prevent.'
    displayName: 'Subnets keep their route table'
    parameters: {
      subnets: {
        value: [
          {
            name: 'nodes'
            has: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress'
            network: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub'
            subnet: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes'
          }
          {
            name: 'pods'
            has: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress'
            network: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub'
            subnet: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/pods'
          }
        ]
      }
    }
    policyDefinitionId: routeTable.id
  }
}

resource natGateway 'Microsoft.Authorization/policyDefinitions@2023-04-01' = {
  name: 'routekeeper-nat-gateway'
  properties: {
    mode: 'All'
    description: 'Refuses a write in which a subnet listed in the subnets parameter lacks its NAT gateway, or has another one. Written by routekeeper prevent.'
    displayName: 'Subnets keep their NAT gateway'
    parameters: {
      subnets: {
        metadata: {
          description: 'Subnets with what they must have: network, name, subnet (their ID), has.'
        }
        type: 'Array'
      }
    }
    policyRule: {
      if: {
        anyOf: [
          {
            allOf: [
              {
                equals: 'Microsoft.Network/virtualNetworks'
                field: 'type'
              }
              {
                count: {
                  name: 'guarded'
                  value: '[parameters(\'subnets\')]'
                  where: {
                    allOf: [
                      {
                        equals: '[current(\'guarded\').network]'
                        field: 'id'
                      }
                      {
                        count: {
                          field: 'Microsoft.Network/virtualNetworks/subnets[*]'
                          where: {
                            allOf: [
                              {
                                equals: '[current(\'guarded\').name]'
                                field: 'Microsoft.Network/virtualNetworks/subnets[*].name'
                              }
                              {
                                anyOf: [
                                  {
                                    exists: 'false'
                                    field: 'Microsoft.Network/virtualNetworks/subnets[*].natGateway.id'
                                  }
                                  {
                                    field: 'Microsoft.Network/virtualNetworks/subnets[*].natGateway.id'
                                    notEquals: '[current(\'guarded\').has]'
                                  }
                                ]
                              }
                            ]
                          }
                        }
                        greater: 0
                      }
                    ]
                  }
                }
                greater: 0
              }
            ]
          }
          {
            allOf: [
              {
                equals: 'Microsoft.Network/virtualNetworks/subnets'
                field: 'type'
              }
              {
                count: {
                  name: 'guarded'
                  value: '[parameters(\'subnets\')]'
                  where: {
                    allOf: [
                      {
                        equals: '[current(\'guarded\').subnet]'
                        field: 'id'
                      }
                      {
                        anyOf: [
                          {
                            exists: 'false'
                            field: 'Microsoft.Network/virtualNetworks/subnets/natGateway.id'
                          }
                          {
                            field: 'Microsoft.Network/virtualNetworks/subnets/natGateway.id'
                            notEquals: '[current(\'guarded\').has]'
                          }
                        ]
                      }
                    ]
                  }
                }
                greater: 0
              }
            ]
          }
        ]
      }
      then: {
        effect: 'deny'
      }
    }
  }
}

resource natGatewayAssignment 'Microsoft.Authorization/policyAssignments@2023-04-01' = {
  name: 'routekeeper-nat-gateway'
  properties: {
    description: 'Refuses a write in which a subnet listed in the subnets parameter lacks its NAT gateway, or has another one. Written by routekeeper prevent.'
    displayName: 'Subnets keep their NAT gateway'
    parameters: {
      subnets: {
        value: [
          {
            name: 'nodes'
            has: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/natGateways/nat'
            network: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub'
            subnet: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes'
          }
        ]
      }
    }
    policyDefinitionId: natGateway.id
  }
}

resource networkSecurityGroup 'Microsoft.Authorization/policyDefinitions@2023-04-01' = {
  name: 'routekeeper-network-security-group'
  properties: {
    mode: 'All'
    description: 'Refuses a write in which a subnet listed in the subnets parameter lacks its network security group, or has another one. Written by routekeeper prevent.'
    displayName: 'Subnets keep their network security group'
    parameters: {
      subnets: {
        metadata: {
          description: 'Subnets with what they must have: network, name, subnet (their ID), has.'
        }
        type: 'Array'
      }
    }
    policyRule: {
      if: {
        anyOf: [
          {
            allOf: [
              {
                equals: 'Microsoft.Network/virtualNetworks'
                field: 'type'
              }
              {
                count: {
                  name: 'guarded'
                  value: '[parameters(\'subnets\')]'
                  where: {
                    allOf: [
                      {
                        equals: '[current(\'guarded\').network]'
                        field: 'id'
                      }
                      {
                        count: {
                          field: 'Microsoft.Network/virtualNetworks/subnets[*]'
                          where: {
                            allOf: [
                              {
                                equals: '[current(\'guarded\').name]'
                                field: 'Microsoft.Network/virtualNetworks/subnets[*].name'
                              }
                              {
                                anyOf: [
                                  {
                                    exists: 'false'
                                    field: 'Microsoft.Network/virtualNetworks/subnets[*].networkSecurityGroup.id'
                                  }
                                  {
                                    field: 'Microsoft.Network/virtualNetworks/subnets[*].networkSecurityGroup.id'
                                    notEquals: '[current(\'guarded\').has]'
                                  }
                                ]
                              }
                            ]
                          }
                        }
                        greater: 0
                      }
                    ]
                  }
                }
                greater: 0
              }
            ]
          }
          {
            allOf: [
              {
                equals: 'Microsoft.Network/virtualNetworks/subnets'
                field: 'type'
              }
              {
                count: {
                  name: 'guarded'
                  value: '[parameters(\'subnets\')]'
                  where: {
                    allOf: [
                      {
                        equals: '[current(\'guarded\').subnet]'
                        field: 'id'
                      }
                      {
                        anyOf: [
                          {
                            exists: 'false'
                            field: 'Microsoft.Network/virtualNetworks/subnets/networkSecurityGroup.id'
                          }
                          {
                            field: 'Microsoft.Network/virtualNetworks/subnets/networkSecurityGroup.id'
                            notEquals: '[current(\'guarded\').has]'
                          }
                        ]
                      }
                    ]
                  }
                }
                greater: 0
              }
            ]
          }
        ]
      }
      then: {
        effect: 'deny'
      }
    }
  }
}

resource networkSecurityGroupAssignment 'Microsoft.Authorization/policyAssignments@2023-04-01' = {
  name: 'routekeeper-network-security-group'
  properties: {
    description: 'Refuses a write in which a subnet listed in the subnets parameter lacks its network security group, or has another one. Written by routekeeper prevent.'
    displayName: 'Subnets keep their network security group'
    parameters: {
      subnets: {
        value: [
          {
            name: 'nodes'
            has: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/networkSecurityGroups/nsg'
            network: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub'
            subnet: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes'
          }
        ]
      }
    }
    policyDefinitionId: networkSecurityGroup.id
  }
}

resource defaultRoute 'Microsoft.Authorization/policyDefinitions@2023-04-01' = {
  name: 'routekeeper-default-route'
  properties: {
    mode: 'All'
    description: 'Refuses a write of a route table listed in the tables parameter if the written table has no route 0.0.0.0/0. Written by routekeeper prevent.'
    displayName: 'Route tables keep 0.0.0.0/0'
    parameters: {
      tables: {
        metadata: {
          description: 'Route tables with the pattern of their routes\' IDs: table, routes.'
        }
        type: 'Array'
      }
    }
    policyRule: {
      if: {
        allOf: [
          {
            equals: 'Microsoft.Network/routeTables'
            field: 'type'
          }
          {
            count: {
              name: 'table'
              value: '[parameters(\'tables\')]'
              where: {
                allOf: [
                  {
                    equals: '[current(\'table\').table]'
                    field: 'id'
                  }
                  {
                    count: {
                      field: 'Microsoft.Network/routeTables/routes[*]'
                      where: {
                        equals: '0.0.0.0/0'
                        field: 'Microsoft.Network/routeTables/routes[*].addressPrefix'
                      }
                    }
                    equals: 0
                  }
                ]
              }
            }
            greater: 0
          }
        ]
      }
      then: {
        effect: 'deny'
      }
    }
  }
}

resource defaultRouteAssignment 'Microsoft.Authorization/policyAssignments@2023-04-01' = {
  name: 'routekeeper-default-route'
  properties: {
    description: 'Refuses a write of a route table listed in the tables parameter if the written table has no route 0.0.0.0/0. Written by routekeeper prevent.'
    displayName: 'Route tables keep 0.0.0.0/0'
    parameters: {
      tables: {
        value: [
          {
            routes: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress/routes/*'
            table: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress'
          }
        ]
      }
    }
    policyDefinitionId: defaultRoute.id
  }
}

resource defaultRouteDelete 'Microsoft.Authorization/policyDefinitions@2023-04-01' = {
  name: 'routekeeper-default-route-delete'
  properties: {
    mode: 'All'
    description: 'Refuses to delete the route 0.0.0.0/0 of a route table listed in the tables parameter. Written by routekeeper prevent.'
    displayName: 'The route 0.0.0.0/0 stays'
    parameters: {
      tables: {
        metadata: {
          description: 'Route tables with the pattern of their routes\' IDs: table, routes.'
        }
        type: 'Array'
      }
    }
    policyRule: {
      if: {
        allOf: [
          {
            equals: 'Microsoft.Network/routeTables/routes'
            field: 'type'
          }
          {
            equals: '0.0.0.0/0'
            field: 'Microsoft.Network/routeTables/routes/addressPrefix'
          }
          {
            count: {
              name: 'table'
              value: '[parameters(\'tables\')]'
              where: {
                allOf: [
                  {
                    field: 'id'
                    like: '[current(\'table\').routes]'
                  }
                ]
              }
            }
            greater: 0
          }
        ]
      }
      then: {
        details: {
          actionNames: [
            'delete'
          ]
        }
        effect: 'denyAction'
      }
    }
  }
}

resource defaultRouteDeleteAssignment 'Microsoft.Authorization/policyAssignments@2023-04-01' = {
  name: 'routekeeper-default-route-delete'
  properties: {
    description: 'Refuses to delete the route 0.0.0.0/0 of a route table listed in the tables parameter. Written by routekeeper prevent.'
    displayName: 'The route 0.0.0.0/0 stays'
    parameters: {
      tables: {
        value: [
          {
            routes: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress/routes/*'
            table: '/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress'
          }
        ]
      }
    }
    policyDefinitionId: defaultRouteDelete.id
  }
}
