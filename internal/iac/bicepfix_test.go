package iac

import (
	"strings"
	"testing"
)

const someBicep = `param vnetName string = 'shop-vnet'
param prefixes array

// The network. Its first subnet: 'aks-nodes' {
@description('all of it')
resource vnet 'Microsoft.Network/virtualNetworks@2024-05-01' = if (!empty(prefixes)) {
  name: vnetName
  location: resourceGroup().location
  properties: {
    addressSpace: {
      addressPrefixes: prefixes
    }
    subnets: [
      {
        name: 'aks-nodes' // kubenet
        properties: {
          addressPrefix: '10.20.0.0/22'
        }
      }
      {
        name: 'appgw'
        properties: {
          addressPrefix: '10.20.8.0/24'
          routeTable: {
            id: table.id
          }
        }
      }
      { name: 'jump-${vnetName}', properties: { addressPrefix: '10.20.9.0/24', routeTable: null } }
    ]
  }
}

resource own 'Microsoft.Network/virtualNetworks/subnets@2023-11-01' = {
  parent: vnet
  name: 'pods'
  properties: {
    addressPrefix: cidrSubnet('10.20.0.0/16', 24, 12)
  }
}

resource table 'Microsoft.Network/routeTables@2024-05-01' existing = {
  name: 'shop-rt'
}
`

func TestFixBicep(t *testing.T) {
	fix := FixBicep(File{"main.bicep", []byte(someBicep)}, nil)
	want := strings.NewReplacer(
		"// The network. Its",
		`// Reads the subnet's present route table, so that the deployment passes it on. The subnet must exist already.
resource keepRouteTable_aks_nodes 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' existing = {
  name: '${vnetName}/aks-nodes'
}

// Reads the subnet's present route table, so that the deployment passes it on. The subnet must exist already.
resource keepRouteTable_jump_vnetName 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' existing = {
  name: '${vnetName}/jump-${vnetName}'
}

// The network. Its`,
		"          addressPrefix: '10.20.0.0/22'\n", "          routeTable: "+
			"keepRouteTable_aks_nodes.properties.?routeTable\n          addressPrefix: "+
			"'10.20.0.0/22'\n",
		"routeTable: null", "routeTable: keepRouteTable_jump_vnetName.properties.?routeTable",
		"resource own", `// Reads the subnet's present route table, so that the deployment passes it on. The subnet must exist already.
resource keepRouteTable_pods 'Microsoft.Network/virtualNetworks/subnets@2023-11-01' existing = {
  name: '${vnet.name}/pods'
}

resource own`,
		"    addressPrefix: cidrSubnet", "    routeTable: "+
			"keepRouteTable_pods.properties.?routeTable\n    addressPrefix: cidrSubnet",
	).Replace(someBicep)
	if string(fix.After) != want || len(fix.Done) != 3 || len(fix.Left) != 0 {
		t.Errorf("%v %v\n%s", fix.Done, fix.Left, fix.After)
	}
	if again := FixBicep(File{"main.bicep", fix.After}, nil); string(again.After) != want ||
		len(again.Done) > 0 {
		t.Errorf("again: %v\n%s", again.Done, again.After)
	}
	// Only subnets that are known to carry pods.
	fix = FixBicep(File{"main.bicep", []byte(someBicep)}, []Carrier{Named("shop-vnet/PODS", "")})
	sameLines(t, "named", fix.Done, "pods passes on its present route table (line 34). The "+
		"subnet and its network must exist already")
	// The name is a variable, or a parameter with a default. An expression may be the subnet, so a
	// person has to decide.
	const named = `param nodes string = 'aks-nodes'
var other = 'other'
resource v 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: 'v'
  properties: {
    subnets: [
      { name: nodes, properties: {} }
      { name: other, properties: {} }
      { name: '${nodes}-2', properties: {} }
    ]
  }
}
resource all 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' = [for s in subnets: {
  name: 'v/${s.name}'
  properties: {}
}]
`
	fix = FixBicep(File{"main.bicep", []byte(named)}, []Carrier{Named("aks-nodes", "")})
	sameLines(t, "expressions", append(fix.Done, fix.Left...), "nodes passes on its present "+
		"route table (line 7). The subnet and its network must exist already",
		"line 9: ${nodes}-2 does not say which subnet it is: give its properties a routeTable if "+
			"pods need it", "line 13: all is made by a loop: give its properties a routeTable")
	// One subnet that is written twice is declared once; two with one name in two networks are
	// declared twice.
	const twice = `resource a 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: 'a'
  properties: {
    subnets: [
      { name: 'pods', properties: {} }
    ]
  }
}
resource own 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' = {
  name: 'a/pods'
  properties: {}
}
resource b 'Microsoft.Network/virtualNetworks@2024-05-01' = {
  name: 'b'
  properties: {
    subnets: [
      { name: 'pods', properties: {} }
    ]
  }
}
`
	fix = FixBicep(File{"main.bicep", []byte(twice)}, nil)
	for want, n := range map[string]int{
		"resource keepRouteTable_pods ": 1, "resource keepRouteTable_pods_b ": 1,
		"keepRouteTable_pods.properties": 2, "keepRouteTable_pods_b.properties": 1,
		"existing = {\n  name: 'b/pods'\n}": 1,
	} {
		if have := strings.Count(string(fix.After), want); have != n {
			t.Errorf("%d of %q, expected %d:\n%s", have, want, n, fix.After)
		}
	}
	// The api-version that leaves subnets alone, and what a person has to decide.
	for text, want := range map[string]string{
		"resource v 'Microsoft.Network/virtualNetworks@2023-06-01' = {\n  name: 'v'\n  " +
			"properties: {\n    addressSpace: x\n  }\n}\n": "v gets the api-version 2023-09-01, " +
			"which keeps subnets that it does not list",
		"resource v 'Microsoft.Network/virtualNetworks@2023-09-01' = {\n  name: 'v'\n  " +
			"properties: {\n    addressSpace: x\n  }\n}\n": "",
		"resource v 'Microsoft.Network/virtualNetworks@2023-06-01' existing = {\n  name: " +
			"'v'\n}\n": "",
		"resource v 'Microsoft.Network/virtualNetworks@2024-05-01' = {\n  name: 'v'\n  " +
			"properties: {\n    subnets: [for s in all: {\n      name: s\n    }]\n  }\n}\n": "line 4: the subnets of v are made by a loop: give its object a routeTable, such as routeTable: subnet.?routeTable",
		"resource v 'Microsoft.Network/virtualNetworks@2024-05-01' = {\n  name: 'v'\n  " +
			"properties: {\n    subnets: all\n  }\n}\n": "line 4: the subnets of v are an " +
			"expression: make sure that each has its routeTable",
		"resource s 'Microsoft.Network/virtualNetworks/subnets@2024-05-01' = [for n in all: {\n  " +
			"name: 'v/${n}'\n  properties: {\n  }\n}]\n": "line 1: s is made by a loop: give its " +
			"properties a routeTable",
		"// resource v 'Microsoft.Network/virtualNetworks@2023-06-01' = {\n//  properties: " +
			"{}\n// }\n": "",
	} {
		fix := FixBicep(File{"main.bicep", []byte(text)}, nil)
		if got := strings.Join(append(fix.Done, fix.Left...), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzFixBicep: no input causes a panic, and a second repair changes nothing.
func FuzzFixBicep(f *testing.F) {
	f.Add(someBicep)
	f.Add("resource r 'Microsoft.Network/virtualNetworks/subnets@0'={name:\x9c0")
	f.Fuzz(func(t *testing.T, text string) {
		fix := FixBicep(File{"x.bicep", []byte(text)}, nil)
		if len(fix.Done) == 0 && string(fix.After) != text {
			t.Errorf("changed without a word:\n%s", fix.After)
		}
	})
}
