package iac

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// guardedBy is what a config says that hub/nodes must have.
func guardedBy(must map[inventory.Property]arm.ID) Known {
	c := Named(nodesID, "web guards it")
	c.Must = must
	return Known{Carriers: []Carrier{c}}
}

func reportedBy(r *Reading, known Known) string {
	var out []string
	for _, f := range r.Findings(known) {
		out = append(out, fmt.Sprintf("%s %s %s", f.Severity, f.Code, f.Message))
	}
	return strings.Join(out, "\n")
}

func templateOf(t *testing.T, resources string) *Reading {
	t.Helper()
	return readTemplate(t, File{"t.json", []byte(`{"$schema":"https://schema.management.azure.com/` +
		`schemas/2019-04-01/deploymentTemplate.json#","contentVersion":"1.0.0.0","resources":[` +
		resources + `]}`)}, TemplateOptions{Where: armtemplate.Options{Subscription: "s",
		ResourceGroup: "g"}})
}

func subnetResource(properties string) string {
	return `{"type":"Microsoft.Network/virtualNetworks/subnets","apiVersion":"2024-05-01","name":` +
		`"hub/nodes","properties":{"addressPrefix":"10.0.0.0/24"` + properties + `}}`
}

// TestDoubtfulLoss: what an expression or a condition leaves open stays a possible loss. A config
// and the real network say what the subnet has, and not what the code writes.
func TestDoubtfulLoss(t *testing.T) {
	nat := fmt.Sprintf(`"natGateway":{"id":%q}`, natID)
	table := fmt.Sprintf(`"routeTable":{"id":%q}`, rtID)
	s := real(t)
	add(t, s, fmt.Sprintf(`{"id":%q,"properties":{%s,%s}}`, nodesID, table, nat))
	live := guardedBy(map[inventory.Property]arm.ID{inventory.PropertyNAT: natID,
		inventory.PropertyTable: rtID})
	config := guardedBy(live.Carriers[0].Must)
	live.Observe(s)
	whatIf := func(after string) *Reading {
		return readWhatIf(t, File{"w.json", []byte(fmt.Sprintf(`{"changes":[{"resourceId":%q,`+
			`"changeType":"Modify","before":{"properties":{%s,%s}},"after":{"properties":{%s}}}]}`,
			nodesID, table, nat, after))})
	}
	for name, r := range map[string]*Reading{
		"a what-if result": whatIf(table +
			`,"natGateway":{"id":"[reference('x').outputs.id.value]"}`),
		"a what-if result, the table": whatIf(nat +
			`,"routeTable":{"id":"[reference('x').outputs.id.value]"}`),
		"a template, the table": templateOf(t,
			subnetResource(`,"routeTable":`+`"[reference('x').table]",`+nat)),
		"a condition": templateOf(t, strings.Replace(subnetResource(","+nat), `{"type"`,
			`{"condition":"[equals(reference('x').mode,'a')]","type"`, 1)),
		"unknown blocks": planOf(t, fmt.Sprintf(`{"address":"azurerm_virtual_network.hub","mode":`+
			`"managed","type":"azurerm_virtual_network","name":"hub","change":{"actions":["update"],`+
			`"before":%s,"after":{"id":%q,"name":"hub"},"after_unknown":{"subnet":true}}}`,
			vnetOf(groupOf(inlineBlock("nodes", `"`+rtID+`"`, ""))), netID)),
	} {
		for who, known := range map[string]Known{"config": config, "live": live} {
			if got := reportedBy(r, known); strings.Contains(got, "loses") ||
				!strings.Contains(got, "warning iac-may-strip subnet hub/nodes may lose its") {
				t.Errorf("%s, %s: %s", name, who, got)
			}
		}
	}
}

func asoOf(t *testing.T, objects ...string) *Reading {
	t.Helper()
	var docs []string
	for i, spec := range objects {
		docs = append(docs, fmt.Sprintf(`apiVersion: network.azure.com/v1api20240301
kind: VirtualNetworksSubnet
metadata: {name: s%d}
spec:
  azureName: nodes
  owner: {armId: %s}
%s`, i, netID, spec))
	}
	r, err := readPlain("aso.yaml", strings.NewReader(strings.Join(docs, "\n---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAnotherThanGuarded: code that gives a guarded subnet another table, NAT gateway or group than
// its config names.
func TestAnotherThanGuarded(t *testing.T) {
	known := guardedBy(map[inventory.Property]arm.ID{inventory.PropertyNAT: natID,
		inventory.PropertyTable: rtID, inventory.PropertyGroup: groupID})
	given := func(table, nat, group string) string {
		return fmt.Sprintf(`,"routeTable":{"id":%q},"natGateway":{"id":%q},`+
			`"networkSecurityGroup":{"id":%q}`, table, nat, group)
	}
	aso := func(table, nat, group string) *Reading {
		ref := `  %s: {reference: {armId: %s}}`
		return asoOf(t, fmt.Sprintf(ref+"\n"+ref+"\n"+ref, "routeTable", table, "natGateway", nat,
			"networkSecurityGroup", group))
	}
	const elsewhere = "/subscriptions/s/resourceGroups/other/providers/Microsoft.Network/" +
		"networkSecurityGroups/nsg"
	const other = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/new"
	const upper = "/SUBSCRIPTIONS/s/resourceGroups/G/providers/Microsoft.Network/natGateways/NAT"
	for name, c := range map[string]struct {
		table, nat, group, want string
	}{
		"the same":  {rtID, upper, groupID, ""},
		"a gateway": {rtID, otherNAT, groupID, "gets new in place of its NAT gateway nat"},
		"a group of the same name": {rtID, natID, elsewhere,
			"gets nsg in place of its network security group nsg"},
		"a table": {other, natID, groupID, "gets new in place of its route table " +
			arm.ID(rtID).Name()},
	} {
		for format, r := range map[string]*Reading{"template": templateOf(t, subnetResource(given(
			c.table, c.nat, c.group))), "operator": aso(c.table, c.nat, c.group)} {
			got := reportedBy(r, known)
			if c.want == "" && strings.Contains(got, "iac-another") || c.want != "" &&
				!strings.Contains(got, "error iac-another-table subnet hub/nodes "+c.want) {
				t.Errorf("%s, %s: %q, want %q", name, format, got, c.want)
			}
			if unknown := reportedBy(r, Known{}); strings.Contains(unknown, "iac-another") {
				t.Errorf("%s, %s: nothing is guarded: %s", name, format, unknown)
			}
		}
	}
	// A name alone, and an expression, are another one only if they show it.
	named := templateOf(t, subnetResource(`,"natGateway":{"id":"[resourceId('Microsoft.Network/`+
		`natGateways','nat')]"},"networkSecurityGroup":"[reference('x').group]"`))
	if got := reportedBy(named, known); strings.Contains(got, "iac-another") {
		t.Error(got)
	}
}

// TestEveryManifestOfASubnet: two manifests write one subnet, each every hour, so what one of them
// does not name is lost for a while, whatever the other names.
func TestEveryManifestOfASubnet(t *testing.T) {
	known := guardedBy(map[inventory.Property]arm.ID{inventory.PropertyNAT: natID,
		inventory.PropertyGroup: groupID})
	nat, group := fmt.Sprintf("  natGateway: {reference: {armId: %s}}\n", natID), fmt.Sprintf(
		"  networkSecurityGroup: {reference: {armId: %s}}\n", groupID)
	for name, r := range map[string]*Reading{"the first": asoOf(t, group, nat+group),
		"the second": asoOf(t, nat+group, group)} {
		if got := reportedBy(r, known); !strings.Contains(got,
			"error iac-strips subnet hub/nodes loses its NAT gateway") ||
			strings.Contains(got, "network security group") {
			t.Errorf("%s: %s", name, got)
		}
	}
	both := asoOf(t, "", "")
	if got := reportedBy(both, known); strings.Count(got, "loses its NAT gateway") != 1 {
		t.Errorf("both: %s", got)
	}
}
