package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	natID      = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/natGateways/nat"
	groupID    = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkSecurityGroups/nsg"
	otherNAT   = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/natGateways/new"
	lostNAT    = "loses its NAT gateway nat"
	lostGroup  = "loses its network security group nsg"
	guardedNAT = "loses its NAT gateway:" // its name is not in the code
)

func natOf(subnet, gateway string) string {
	return fmt.Sprintf(`{"id":%q,"subnet_id":%q,"nat_gateway_id":%q}`, subnet, subnet, gateway)
}

func groupOf(block string) string {
	return strings.TrimSuffix(block, "}") + fmt.Sprintf(`,"security_group":%q}`, groupID)
}

func planOf(t *testing.T, changes ...string) *Reading {
	t.Helper()
	r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
		strings.Join(changes, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestProperties: the loss of a NAT gateway or security group is found as that of a table is, in
// every format. What no code shows counts only if a config guards it, or Azure has it.
func TestProperties(t *testing.T) {
	table := fmt.Sprintf(`"routeTable":{"id":%q}`, rtID)
	nat := fmt.Sprintf(`,"natGateway":{"id":%q}`, natID)
	group := fmt.Sprintf(`,"networkSecurityGroup":{"id":%q}`, groupID)
	subnet := func(properties string) string {
		return body(subnetType, nodesID, `{"properties":{`+properties+`}}`)
	}
	vnet := func(properties string) string {
		return body(vnetType, netID, `{"properties":{"subnets":[{"name":"nodes","properties":{`+
			properties+`}}]}}`)
	}
	withTable := inlineBlock("nodes", `"`+rtID+`"`, "")
	old := `{"name":"nodes","address_prefix":"10.0.0.0/24"}` // of azurerm 3
	association := changes(tfNATAssociation, "nodes", "delete", natOf(nodesID, natID), "null")
	tf := func(code string) *Reading {
		r, err := readConfigFile("main.tf", newStream(strings.NewReader(code)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const where = `"subnets":[{"name":"nodes","properties":{"addressPrefix":"10.0.0.0/24",`
	template := func(properties, more string) *Reading {
		return readTemplate(t, File{"t.json", []byte(`{"$schema":"https://schema.management.azure.com/` +
			`schemas/2019-04-01/deploymentTemplate.json#","contentVersion":"1.0.0.0","resources":[` +
			`{"type":"Microsoft.Network/virtualNetworks","apiVersion":"2024-05-01","name":"hub",` +
			`"properties":{` + where + properties + `}}]}}` + more + `]}`)}, TemplateOptions{})
	}
	whatIf := func(before, after string) *Reading {
		doc := func(properties string) string {
			return fmt.Sprintf(`{"id":%q,"name":"hub","apiVersion":"2024-05-01","properties":{`+where+
				`%s}}]}}`, netID, properties)
		}
		return readWhatIf(t, File{"w.json", []byte(fmt.Sprintf(`{"changes":[{"resourceId":%q,`+
			`"changeType":"Modify","before":%s,"after":%s}]}`, netID, doc(before), doc(after)))})
	}
	aso := func(policy string) *Reading {
		r, err := readPlain("aso.yaml", strings.NewReader(`apiVersion: network.azure.com/v1api20240301
kind: VirtualNetworksSubnet
metadata:
  name: nodes
  annotations: {serviceoperator.azure.com/reconcile-policy: "`+policy+`"}
spec:
  owner: {name: hub}
  routeTable: {reference: {name: rt}}
  networkSecurityGroup: {reference: {name: nsg}}
`))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	guarded := Known{Carriers: []Carrier{Named("hub/nodes", "web guards it")}}
	guarded.Carriers[0].Must = map[inventory.Property]arm.ID{inventory.PropertyNAT: natID,
		inventory.PropertyGroup: groupID}
	for _, c := range []struct {
		name           string
		r              *Reading
		alone, guarded string // what is lost, in the order of severity and name
	}{
		{"an association", planOf(t, association), "warning " + lostNAT, "error " + lostNAT},
		{"an association of a group", planOf(t, changes(tfGroupAssociation, "nodes", "delete",
			fmt.Sprintf(`{"subnet_id":%q,"network_security_group_id":%q}`, nodesID, groupID),
			"null")), "warning " + lostGroup, "error " + lostGroup},
		{"an association with another gateway", planOf(t, changes(tfNATAssociation, "nodes",
			"delete,create", natOf(nodesID, natID), natOf(nodesID, otherNAT))),
			"warning gets new in place of its NAT gateway nat",
			"error gets new in place of its NAT gateway nat"},
		{"an association that moves to another subnet", planOf(t, changes(tfNATAssociation, "nodes",
			"delete,create", natOf(nodesID, natID), natOf(edgeID, natID))), "warning " + lostNAT,
			"error " + lostNAT},
		{"an association under another name", planOf(t,
			association, changes(tfNATAssociation, "new", "create", "null", natOf(nodesID, natID))),
			"warning is without its NAT gateway nat for a moment",
			"error is without its NAT gateway nat for a moment"},
		{"an association with its subnet", planOf(t, association,
			changes(tfSubnet, "nodes", "delete", subnetOf(`,"route_table_id":"`+rtID+`"`), "null")),
			"warning is deleted while its network stays",
			"error is deleted while its network stays"},
		{"a block that loses its group", planOf(t, changes(tfVNet, "hub", "update",
			vnetOf(groupOf(withTable)), vnetOf(withTable))), "warning " + lostGroup,
			"error " + lostGroup},
		{"a block of azurerm 3 that loses its group", planOf(t, changes(tfVNet, "hub", "update",
			vnetOf(groupOf(old)), vnetOf(old))), "warning " + lostGroup, "error " + lostGroup},
		{"a block that keeps its group", planOf(t, changes(tfVNet, "hub", "update",
			vnetOf(groupOf(withTable)), vnetOf(groupOf(withTable),
				inlineBlock("new", "null", "")))), "", ""},
		{"a body that loses both", planOf(t, changes(tfAzapi, "nodes", "update",
			subnet(table+nat+group), subnet(table))),
			"warning " + lostNAT + ", warning " + lostGroup,
			"error " + lostNAT + ", error " + lostGroup},
		{"a body that sets one to null", planOf(t, changes(tfAzapi, "nodes", "update",
			subnet(table+nat+group), subnet(table+nat+`,"networkSecurityGroup":null`))),
			"warning " + lostGroup, "error " + lostGroup},
		{"an update of the table only", planOf(t,
			changes(tfAzapiUpdate, "nodes", "update", subnet(table), subnet(table))), "", ""},
		{"a network's body",
			planOf(t, changes(tfAzapi, "hub", "update", vnet(table+nat), vnet(table))),
			"warning " + lostNAT, "error " + lostNAT + ", error loses its network security group:"},
		{"a body that never named one", planOf(t, changes(tfAzapi, "nodes", "update",
			subnet(table), subnet(table+group))), "", "error " + guardedNAT},
		{"code without a group", tf(`resource "azurerm_virtual_network" "hub" {
  name = "hub"
  subnet {
    name           = "nodes"
    route_table_id = "x"
  }
}`), "", "error loses its network security group:"},
		{"code of a body", tf(`resource "azapi_resource" "nodes" {
  type = "Microsoft.Network/virtualNetworks@2024-05-01"
  name = "hub"
  body = { properties = { subnets = [{ name = "nodes", properties = {
    routeTable = { id = "x" }, networkSecurityGroup = { id = "y" } } }] } }
}`), "", "error " + guardedNAT},
		{"a what-if result", whatIf(table+nat, table), "warning " + lostNAT, "error " + lostNAT},
		{"a what-if result with another gateway", whatIf(table+nat, table+
			strings.Replace(nat, natID, otherNAT, 1)),
			"warning gets new in place of its NAT gateway nat",
			"error gets new in place of its NAT gateway nat"},
		{"a template", template(table+group, ""), "", "error " + guardedNAT},
		{"an object of Azure Service Operator", aso(""), "", "error " + guardedNAT},
		{"an object that the operator leaves alone", aso("skip"), "", ""},
		{"a template with an expression",
			template(table+group+`,"natGateway":"[reference('x').natGateway]"`, ""), "", ""},
		{"a template that gives it elsewhere", template(table+group, `,{"type":`+
			`"Microsoft.Network/virtualNetworks/subnets","apiVersion":"2024-05-01","name":`+
			`"hub/nodes","dependsOn":["hub"],"properties":{"addressPrefix":"10.0.0.0/24",`+
			table+nat+group+`}}`), "warning is without its NAT gateway for a moment",
			"error is without its NAT gateway for a moment"},
	} {
		lost := func(known Known) (out []string) {
			for _, f := range c.r.Findings(known) {
				if _, what, is := strings.Cut(f.Message, "subnet hub/nodes "); is &&
					!strings.Contains(what, "route table") {
					out = append(out, f.Severity.String()+" "+what)
				}
			}
			return out
		}
		for _, e := range c.r.Effects {
			if e.Property != "" && e.Repair != nil {
				t.Errorf("%s: iac fix would claim to repair it: %+v", c.name, e)
			}
		}
		for _, way := range []struct {
			known Known
			want  string
		}{{Known{}, c.alone}, {guarded, c.guarded}} {
			got := lost(way.known)
			want := strings.FieldsFunc(way.want, func(r rune) bool { return r == ',' })
			ok := len(got) == len(want)
			for i := 0; ok && i < len(want); i++ { // without how it happens
				ok = strings.HasPrefix(got[i], strings.TrimSpace(want[i]))
			}
			if !ok {
				t.Errorf("%s: %q, expected %q", c.name, got, want)
			}
		}
	}
}

// TestPropertiesInAzure: the real network decides whether a possible loss is one, and the network
// after a plan lacks what the plan removes.
func TestPropertiesInAzure(t *testing.T) {
	table := fmt.Sprintf(`"routeTable":{"id":%q}`, rtID)
	written := body(subnetType, nodesID, `{"properties":{`+table+`}}`)
	r := planOf(t, changes(tfAzapi, "nodes", "update", written, written))
	live := func(properties string) Known {
		s := real(t)
		add(t, s, fmt.Sprintf(`{"id":%q,"properties":{%s%s}}`, nodesID, table, properties))
		k := Known{}
		k.Observe(s)
		return k
	}
	nat := fmt.Sprintf(`,"natGateway":{"id":%q}`, natID)
	if found := r.Findings(live("")); len(found) != 0 {
		t.Errorf("there is nothing to lose: %+v", found)
	}
	found := r.Findings(live(nat))
	if len(found) != 1 || !strings.Contains(found[0].Message, lostNAT) ||
		found[0].Fix == "" && found[0].Advice == "" {
		t.Errorf("%+v", found)
	}
	open := readTemplate(t, File{"t.json", []byte(fmt.Sprintf(`{"$schema":"https://schema.`+
		`management.azure.com/schemas/2019-04-01/deploymentTemplate.json#","contentVersion":`+
		`"1.0.0.0","resources":[{"type":"Microsoft.Network/virtualNetworks/subnets",`+
		`"apiVersion":"2024-05-01","name":"hub/nodes","properties":{%s,"natGateway":`+
		`"[reference('x').natGateway]"}}]}`, table))}, TemplateOptions{Where: armtemplate.Options{
		Subscription: "s", ResourceGroup: "g"}}).Overlay(live(nat).Live).Subnet(nodesID)
	if open == nil || open.NATGateway != natID {
		t.Errorf("an expression may be what the subnet has: %+v", open)
	}
	group := fmt.Sprintf(`,"networkSecurityGroup":{"id":%q}`, groupID)
	lost := planOf(t, changes(tfSubnet, "nodes", "no-op", subnetOf(""), subnetOf("")),
		changes(tfNATAssociation, "nodes", "delete", natOf(nodesID, natID), "null"))
	real := live(nat + group).Live
	after := lost.Overlay(real).Subnet(arm.ID(nodesID))
	if after.NATGateway != "" || !after.SecurityGroup.Equal(groupID) ||
		!after.RouteTable.Equal(rtID) || real.Subnet(arm.ID(nodesID)).NATGateway == "" {
		t.Errorf("afterwards: %+v", after)
	}
	was, is := lost.Before.Subnet(nodesID), lost.After.Subnet(nodesID)
	if was.NATGateway != natID || is.NATGateway != "" {
		t.Errorf("%+v becomes %+v", was, is)
	}
}
