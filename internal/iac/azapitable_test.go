package iac

import (
	"fmt"
	"strings"
	"testing"
)

// planLines returns what a plan with these changes does, a line for each effect.
func planLines(t *testing.T, parts ...string) string {
	t.Helper()
	text := `{"format_version":"1.2","resource_changes":[` + strings.Join(parts, ",") + `]}`
	hostilePlan([]byte(text))
	r, err := readPlain("plan", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range r.Effects {
		line := string(e.Verb) + " " + e.What.Name
		for _, user := range e.Users {
			line += " of " + user.Name
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// TestAzapiTables: an azapi_resource writes all routes of a table, whatever in it changes. An
// azapi_update_resource does so only if it lists routes.
func TestAzapiTables(t *testing.T) {
	const kind = "Microsoft.Network/routeTables@2024-05-01"
	const pod = `{"name":"n","properties":{"addressPrefix":"10.244.1.0/24",` +
		`"nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.0.4"}}`
	table := func(properties string) string {
		return body(kind, rtID, `{"properties":{`+properties+`}}`)
	}
	here := changes(tfAssociation, "nodes", "no-op", association(rtID), association(rtID))
	update := func(kind, before, after string, more ...string) string {
		return changes(kind, "rt", "update", table(before), table(after), more...)
	}
	fresh := fmt.Sprintf(`{"resource_id":%q,"type":%q,"body":{"properties":{"routes":[]}}}`, rtID,
		kind)
	for _, c := range []struct{ name, change, want string }{
		{"no routes at all", update(tfAzapi, "", `"x":1`), "may-lose-routes rt of nodes"},
		{"the pod routes that it had", update(tfAzapi, `"routes":[`+pod+`]`, `"routes":[]`),
			"routes-gone rt of nodes"},
		{"the pod routes that it has", update(tfAzapi, `"routes":[`+pod+`]`, `"routes":[`+pod+
			`],"x":1`), "may-lose-routes rt of nodes"},
		{"a body that is known only after apply", update(tfAzapi, "", "",
			`,"after_unknown":{"body":true}`), "may-lose-routes rt of nodes"},
		{"a new table", changes(tfAzapi, "rt", "create", "null", table("")), ""},
		{"an update that lists routes", changes(tfAzapiUpdate, "rt", "create", "null", fresh),
			"may-lose-routes rt of nodes"},
		{"an update that lists none", update(tfAzapiUpdate, "", `"x":1`), ""},
		{"an update that is given up", changes(tfAzapiUpdate, "rt", "delete", fresh, "null"), ""},
	} {
		if have := planLines(t, here, c.change); have != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}

// TestBlocksBefore4: azurerm before 4.0 keeps the table of a block, and deletes a subnet without
// one, as every version does.
func TestBlocksBefore4(t *testing.T) {
	const nodes, edge = `{"name":"nodes","address_prefix":"10.0.0.0/24"}`,
		`{"name":"edge","address_prefix":"10.0.1.0/24"}`
	here := changes(tfAssociation, "nodes", "no-op", association(rtID), association(rtID))
	subnet := changes(tfSubnet, "nodes", "no-op", subnetOf(""), subnetOf(""))
	for _, c := range []struct{ name, before, after, want string }{
		{"a block that comes", vnetOf(nodes), vnetOf(nodes, edge), ""},
		{"a block that goes", vnetOf(nodes, edge), vnetOf(edge), "recreated nodes"},
		{"a subnet without a block", vnetOf(), vnetOf(edge), "recreated nodes"},
	} {
		if have := planLines(t, here, subnet,
			changes(tfVNet, "hub", "update", c.before, c.after)); have != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}

// TestRoleOnTable: without its role, a cluster writes no routes of new nodes.
func TestRoleOnTable(t *testing.T) {
	role := func(action, scope string) string {
		return changes(tfRole, "r", action, fmt.Sprintf(`{"scope":%q}`, scope), "null")
	}
	table := changes(tfTable, "rt", "delete", fmt.Sprintf(`{"id":%q}`, rtID), "null")
	for name, c := range map[string]struct {
		parts []string
		notes int
	}{
		"destroyed":      {[]string{role("delete", rtID)}, 1},
		"of a subnet":    {[]string{role("delete", nodesID)}, 0},
		"kept":           {[]string{role("no-op", rtID)}, 0},
		"with its table": {[]string{table, role("delete", rtID)}, 0},
	} {
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
			strings.Join(c.parts, ",")+`]}`))
		if err != nil || len(r.Notes) != c.notes || len(r.Effects) != 0 {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}
