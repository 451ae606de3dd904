# Policies that refuse to take from guarded subnets what they must have. Written by routekeeper
# prevent.
#
#   terraform init && terraform apply

terraform {
  required_version = ">= 1.5"

  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.0, < 6.0"
    }
  }
}

provider "azurerm" {
  subscription_id = "5ab00000-0000-4000-8000-000000000001"

  features {}
}

resource "azurerm_policy_definition" "routekeeper_route_table" {
  name         = "routekeeper-route-table"
  display_name = "Subnets keep their route table"
  description  = "Refuses a write in which a subnet listed in the subnets parameter lacks its route table, or has another one. Written by routekeeper prevent."
  policy_type  = "Custom"
  mode         = "All"

  parameters = <<-JSON
    {
      "subnets": {
        "metadata": {
          "description": "Subnets with what they must have: network, name, subnet (their ID), has."
        },
        "type": "Array"
      }
    }
  JSON

  policy_rule = <<-JSON
    {
      "if": {
        "anyOf": [
          {
            "allOf": [
              {
                "equals": "Microsoft.Network/virtualNetworks",
                "field": "type"
              },
              {
                "count": {
                  "name": "guarded",
                  "value": "[parameters('subnets')]",
                  "where": {
                    "allOf": [
                      {
                        "equals": "[current('guarded').network]",
                        "field": "id"
                      },
                      {
                        "count": {
                          "field": "Microsoft.Network/virtualNetworks/subnets[*]",
                          "where": {
                            "allOf": [
                              {
                                "equals": "[current('guarded').name]",
                                "field": "Microsoft.Network/virtualNetworks/subnets[*].name"
                              },
                              {
                                "anyOf": [
                                  {
                                    "exists": "false",
                                    "field": "Microsoft.Network/virtualNetworks/subnets[*].routeTable.id"
                                  },
                                  {
                                    "field": "Microsoft.Network/virtualNetworks/subnets[*].routeTable.id",
                                    "notEquals": "[current('guarded').has]"
                                  }
                                ]
                              }
                            ]
                          }
                        },
                        "greater": 0
                      }
                    ]
                  }
                },
                "greater": 0
              }
            ]
          },
          {
            "allOf": [
              {
                "equals": "Microsoft.Network/virtualNetworks/subnets",
                "field": "type"
              },
              {
                "count": {
                  "name": "guarded",
                  "value": "[parameters('subnets')]",
                  "where": {
                    "allOf": [
                      {
                        "equals": "[current('guarded').subnet]",
                        "field": "id"
                      },
                      {
                        "anyOf": [
                          {
                            "exists": "false",
                            "field": "Microsoft.Network/virtualNetworks/subnets/routeTable.id"
                          },
                          {
                            "field": "Microsoft.Network/virtualNetworks/subnets/routeTable.id",
                            "notEquals": "[current('guarded').has]"
                          }
                        ]
                      }
                    ]
                  }
                },
                "greater": 0
              }
            ]
          }
        ]
      },
      "then": {
        "effect": "deny"
      }
    }
  JSON
}

resource "azurerm_subscription_policy_assignment" "routekeeper_route_table" {
  name                 = "routekeeper-route-table"
  display_name         = "Subnets keep their route table"
  description          = "Refuses a write in which a subnet listed in the subnets parameter lacks its route table, or has another one. Written by routekeeper prevent."
  subscription_id      = "/subscriptions/5ab00000-0000-4000-8000-000000000001"
  policy_definition_id = azurerm_policy_definition.routekeeper_route_table.id

  parameters = <<-JSON
    {
      "subnets": {
        "value": [
          {
            "has": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress",
            "name": "nodes",
            "network": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub",
            "subnet": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes"
          },
          {
            "has": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress",
            "name": "pods",
            "network": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub",
            "subnet": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/pods"
          }
        ]
      }
    }
  JSON
}

resource "azurerm_policy_definition" "routekeeper_nat_gateway" {
  name         = "routekeeper-nat-gateway"
  display_name = "Subnets keep their NAT gateway"
  description  = "Refuses a write in which a subnet listed in the subnets parameter lacks its NAT gateway, or has another one. Written by routekeeper prevent."
  policy_type  = "Custom"
  mode         = "All"

  parameters = <<-JSON
    {
      "subnets": {
        "metadata": {
          "description": "Subnets with what they must have: network, name, subnet (their ID), has."
        },
        "type": "Array"
      }
    }
  JSON

  policy_rule = <<-JSON
    {
      "if": {
        "anyOf": [
          {
            "allOf": [
              {
                "equals": "Microsoft.Network/virtualNetworks",
                "field": "type"
              },
              {
                "count": {
                  "name": "guarded",
                  "value": "[parameters('subnets')]",
                  "where": {
                    "allOf": [
                      {
                        "equals": "[current('guarded').network]",
                        "field": "id"
                      },
                      {
                        "count": {
                          "field": "Microsoft.Network/virtualNetworks/subnets[*]",
                          "where": {
                            "allOf": [
                              {
                                "equals": "[current('guarded').name]",
                                "field": "Microsoft.Network/virtualNetworks/subnets[*].name"
                              },
                              {
                                "anyOf": [
                                  {
                                    "exists": "false",
                                    "field": "Microsoft.Network/virtualNetworks/subnets[*].natGateway.id"
                                  },
                                  {
                                    "field": "Microsoft.Network/virtualNetworks/subnets[*].natGateway.id",
                                    "notEquals": "[current('guarded').has]"
                                  }
                                ]
                              }
                            ]
                          }
                        },
                        "greater": 0
                      }
                    ]
                  }
                },
                "greater": 0
              }
            ]
          },
          {
            "allOf": [
              {
                "equals": "Microsoft.Network/virtualNetworks/subnets",
                "field": "type"
              },
              {
                "count": {
                  "name": "guarded",
                  "value": "[parameters('subnets')]",
                  "where": {
                    "allOf": [
                      {
                        "equals": "[current('guarded').subnet]",
                        "field": "id"
                      },
                      {
                        "anyOf": [
                          {
                            "exists": "false",
                            "field": "Microsoft.Network/virtualNetworks/subnets/natGateway.id"
                          },
                          {
                            "field": "Microsoft.Network/virtualNetworks/subnets/natGateway.id",
                            "notEquals": "[current('guarded').has]"
                          }
                        ]
                      }
                    ]
                  }
                },
                "greater": 0
              }
            ]
          }
        ]
      },
      "then": {
        "effect": "deny"
      }
    }
  JSON
}

resource "azurerm_subscription_policy_assignment" "routekeeper_nat_gateway" {
  name                 = "routekeeper-nat-gateway"
  display_name         = "Subnets keep their NAT gateway"
  description          = "Refuses a write in which a subnet listed in the subnets parameter lacks its NAT gateway, or has another one. Written by routekeeper prevent."
  subscription_id      = "/subscriptions/5ab00000-0000-4000-8000-000000000001"
  policy_definition_id = azurerm_policy_definition.routekeeper_nat_gateway.id

  parameters = <<-JSON
    {
      "subnets": {
        "value": [
          {
            "has": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/natGateways/nat",
            "name": "nodes",
            "network": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub",
            "subnet": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes"
          }
        ]
      }
    }
  JSON
}

resource "azurerm_policy_definition" "routekeeper_network_security_group" {
  name         = "routekeeper-network-security-group"
  display_name = "Subnets keep their network security group"
  description  = "Refuses a write in which a subnet listed in the subnets parameter lacks its network security group, or has another one. Written by routekeeper prevent."
  policy_type  = "Custom"
  mode         = "All"

  parameters = <<-JSON
    {
      "subnets": {
        "metadata": {
          "description": "Subnets with what they must have: network, name, subnet (their ID), has."
        },
        "type": "Array"
      }
    }
  JSON

  policy_rule = <<-JSON
    {
      "if": {
        "anyOf": [
          {
            "allOf": [
              {
                "equals": "Microsoft.Network/virtualNetworks",
                "field": "type"
              },
              {
                "count": {
                  "name": "guarded",
                  "value": "[parameters('subnets')]",
                  "where": {
                    "allOf": [
                      {
                        "equals": "[current('guarded').network]",
                        "field": "id"
                      },
                      {
                        "count": {
                          "field": "Microsoft.Network/virtualNetworks/subnets[*]",
                          "where": {
                            "allOf": [
                              {
                                "equals": "[current('guarded').name]",
                                "field": "Microsoft.Network/virtualNetworks/subnets[*].name"
                              },
                              {
                                "anyOf": [
                                  {
                                    "exists": "false",
                                    "field": "Microsoft.Network/virtualNetworks/subnets[*].networkSecurityGroup.id"
                                  },
                                  {
                                    "field": "Microsoft.Network/virtualNetworks/subnets[*].networkSecurityGroup.id",
                                    "notEquals": "[current('guarded').has]"
                                  }
                                ]
                              }
                            ]
                          }
                        },
                        "greater": 0
                      }
                    ]
                  }
                },
                "greater": 0
              }
            ]
          },
          {
            "allOf": [
              {
                "equals": "Microsoft.Network/virtualNetworks/subnets",
                "field": "type"
              },
              {
                "count": {
                  "name": "guarded",
                  "value": "[parameters('subnets')]",
                  "where": {
                    "allOf": [
                      {
                        "equals": "[current('guarded').subnet]",
                        "field": "id"
                      },
                      {
                        "anyOf": [
                          {
                            "exists": "false",
                            "field": "Microsoft.Network/virtualNetworks/subnets/networkSecurityGroup.id"
                          },
                          {
                            "field": "Microsoft.Network/virtualNetworks/subnets/networkSecurityGroup.id",
                            "notEquals": "[current('guarded').has]"
                          }
                        ]
                      }
                    ]
                  }
                },
                "greater": 0
              }
            ]
          }
        ]
      },
      "then": {
        "effect": "deny"
      }
    }
  JSON
}

resource "azurerm_subscription_policy_assignment" "routekeeper_network_security_group" {
  name                 = "routekeeper-network-security-group"
  display_name         = "Subnets keep their network security group"
  description          = "Refuses a write in which a subnet listed in the subnets parameter lacks its network security group, or has another one. Written by routekeeper prevent."
  subscription_id      = "/subscriptions/5ab00000-0000-4000-8000-000000000001"
  policy_definition_id = azurerm_policy_definition.routekeeper_network_security_group.id

  parameters = <<-JSON
    {
      "subnets": {
        "value": [
          {
            "has": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/networkSecurityGroups/nsg",
            "name": "nodes",
            "network": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub",
            "subnet": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/hub/subnets/nodes"
          }
        ]
      }
    }
  JSON
}

resource "azurerm_policy_definition" "routekeeper_default_route" {
  name         = "routekeeper-default-route"
  display_name = "Route tables keep 0.0.0.0/0"
  description  = "Refuses a write of a route table listed in the tables parameter if the written table has no route 0.0.0.0/0. Written by routekeeper prevent."
  policy_type  = "Custom"
  mode         = "All"

  parameters = <<-JSON
    {
      "tables": {
        "metadata": {
          "description": "Route tables with the pattern of their routes' IDs: table, routes."
        },
        "type": "Array"
      }
    }
  JSON

  policy_rule = <<-JSON
    {
      "if": {
        "allOf": [
          {
            "equals": "Microsoft.Network/routeTables",
            "field": "type"
          },
          {
            "count": {
              "name": "table",
              "value": "[parameters('tables')]",
              "where": {
                "allOf": [
                  {
                    "equals": "[current('table').table]",
                    "field": "id"
                  },
                  {
                    "count": {
                      "field": "Microsoft.Network/routeTables/routes[*]",
                      "where": {
                        "equals": "0.0.0.0/0",
                        "field": "Microsoft.Network/routeTables/routes[*].addressPrefix"
                      }
                    },
                    "equals": 0
                  }
                ]
              }
            },
            "greater": 0
          }
        ]
      },
      "then": {
        "effect": "deny"
      }
    }
  JSON
}

resource "azurerm_subscription_policy_assignment" "routekeeper_default_route" {
  name                 = "routekeeper-default-route"
  display_name         = "Route tables keep 0.0.0.0/0"
  description          = "Refuses a write of a route table listed in the tables parameter if the written table has no route 0.0.0.0/0. Written by routekeeper prevent."
  subscription_id      = "/subscriptions/5ab00000-0000-4000-8000-000000000001"
  policy_definition_id = azurerm_policy_definition.routekeeper_default_route.id

  parameters = <<-JSON
    {
      "tables": {
        "value": [
          {
            "routes": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress/routes/*",
            "table": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress"
          }
        ]
      }
    }
  JSON
}

resource "azurerm_policy_definition" "routekeeper_default_route_delete" {
  name         = "routekeeper-default-route-delete"
  display_name = "The route 0.0.0.0/0 stays"
  description  = "Refuses to delete the route 0.0.0.0/0 of a route table listed in the tables parameter. Written by routekeeper prevent."
  policy_type  = "Custom"
  mode         = "All"

  parameters = <<-JSON
    {
      "tables": {
        "metadata": {
          "description": "Route tables with the pattern of their routes' IDs: table, routes."
        },
        "type": "Array"
      }
    }
  JSON

  policy_rule = <<-JSON
    {
      "if": {
        "allOf": [
          {
            "equals": "Microsoft.Network/routeTables/routes",
            "field": "type"
          },
          {
            "equals": "0.0.0.0/0",
            "field": "Microsoft.Network/routeTables/routes/addressPrefix"
          },
          {
            "count": {
              "name": "table",
              "value": "[parameters('tables')]",
              "where": {
                "allOf": [
                  {
                    "field": "id",
                    "like": "[current('table').routes]"
                  }
                ]
              }
            },
            "greater": 0
          }
        ]
      },
      "then": {
        "details": {
          "actionNames": [
            "delete"
          ]
        },
        "effect": "denyAction"
      }
    }
  JSON
}

resource "azurerm_subscription_policy_assignment" "routekeeper_default_route_delete" {
  name                 = "routekeeper-default-route-delete"
  display_name         = "The route 0.0.0.0/0 stays"
  description          = "Refuses to delete the route 0.0.0.0/0 of a route table listed in the tables parameter. Written by routekeeper prevent."
  subscription_id      = "/subscriptions/5ab00000-0000-4000-8000-000000000001"
  policy_definition_id = azurerm_policy_definition.routekeeper_default_route_delete.id

  parameters = <<-JSON
    {
      "tables": {
        "value": [
          {
            "routes": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress/routes/*",
            "table": "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/net/providers/Microsoft.Network/routeTables/egress"
          }
        ]
      }
    }
  JSON
}
