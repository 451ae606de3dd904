package iac

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// The network of the plans in this file.
const (
	netID   = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/hub"
	nodesID = netID + "/subnets/nodes"
	edgeID  = netID + "/subnets/edge"
	rtID    = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/rt"
	otherID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/other"
)

// changes makes an entry of resource_changes; more is added next to before and after.
func changes(kind, name, actions, before, after string, more ...string) string {
	quoted := `"` + strings.ReplaceAll(actions, ",", `","`) + `"`
	return fmt.Sprintf(
		`{"address":"%s.%s","mode":"managed","type":"%s","name":"%s","change":{"actions":[%s],"before":%s,"after":%s%s}}`,
		kind, name, kind, name, quoted, before, after, strings.Join(more, ""))
}

func association(table string) string {
	return fmt.Sprintf(`{"id":%q,"subnet_id":%q,"route_table_id":%q}`, nodesID, nodesID, table)
}

func inlineBlock(name, table, more string) string {
	return fmt.Sprintf(`{"name":%q,"address_prefixes":["10.0.0.0/24"],"route_table_id":%s%s}`, name,
		table, more)
}

func vnetOf(blocks ...string) string {
	return fmt.Sprintf(`{"id":%q,"name":"hub","subnet":[%s]}`, netID, strings.Join(blocks, ","))
}

func subnetOf(more string) string {
	return fmt.Sprintf(`{"id":%q,"name":"nodes"%s}`, nodesID, more)
}

func body(kind, id, body string) string {
	return fmt.Sprintf(`{"id":%q,"name":"x","type":%q,"body":%s}`, id, kind, body)
}

const (
	subnetType = "Microsoft.Network/virtualNetworks/subnets@2024-05-01"
	vnetType   = "Microsoft.Network/virtualNetworks@2024-05-01"
)

// TestWays: each way in which a table is lost, and similar changes that lose none.
func TestWays(t *testing.T) {
	here := changes(tfAssociation, "nodes", "no-op", association(rtID), association(rtID))
	q := func(s string) string { return `"` + s + `"` }
	routes := func(list string) string {
		return fmt.Sprintf(`{"id":%q,"name":"rt","route":[%s]}`, rtID, list)
	}
	route := func(name, prefix, hop string) string {
		return fmt.Sprintf(
			`{"name":%q,"address_prefix":%q,"next_hop_type":"VirtualAppliance","next_hop_in_ip_address":%q}`, name, prefix, hop)
	}
	const drift, config = "drift", "config:"
	for _, c := range []struct {
		name  string
		parts []string // changes, "drift", or the configuration of the root module
		want  string   // verbs with the subnet or table, in order
	}{
		{"the association of a stale state shows that a block strips",
			[]string{here,
				changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", `""`, "")),
					vnetOf(inlineBlock("nodes", "null", ""), inlineBlock("new", "null", "")))},
			"loses nodes"},
		{"so does the list in the table", []string{
			changes(tfTable, "rt", "no-op", fmt.Sprintf(`{"id":%q,"subnets":[%q]}`, rtID, nodesID),
				"null"),
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", `""`, "")),
				vnetOf(inlineBlock("nodes", "null", ""), inlineBlock("new", "null", "")))},
			"loses nodes"},
		{"a refreshed plan knows that there is none", []string{drift,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", `""`, "")),
				vnetOf(inlineBlock("nodes", "null", ""), inlineBlock("new", "null", "")))}, ""},
		{"a provider before 4.0 reads first: its blocks know no table", []string{here,
			changes(tfVNet, "hub", "update",
				vnetOf(`{"name":"nodes","address_prefix":"10.0.0.0/24"}`),
				vnetOf(`{"name":"nodes","address_prefix":"10.0.0.0/25"}`))}, ""},
		{"a block that names its table no more at all", []string{drift,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				vnetOf(`{"name":"nodes","address_prefixes":["10.0.0.0/24"]}`))}, "loses nodes"},
		{"another table in the block", []string{drift,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				vnetOf(inlineBlock("nodes", q(otherID), "")))}, "another nodes"},
		{"the same table, written in another case", []string{drift,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				vnetOf(inlineBlock("nodes", q(strings.ToUpper(rtID)), `,"security_group":"x"`)))},
			""},
		{"a block that is gone", []string{drift, changes(tfVNet, "hub",
			"update", vnetOf(inlineBlock("nodes", q(rtID), ""), inlineBlock("edge", `""`, "")),
			vnetOf(inlineBlock("edge", `""`, "")))}, "recreated nodes"},
		{"a block that comes", []string{drift,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				vnetOf(inlineBlock("nodes", q(rtID), ""), inlineBlock("edge", `""`, "")))}, ""},
		{"blocks that are known only after apply", []string{here,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				`{"name":"hub"}`, `,"after_unknown":{"subnet":true}`)}, "may-lose nodes"},
		{"a table that is known only after apply, and new", []string{drift,
			changes(tfTable, "fresh", "create", "null", `{"name":"fresh"}`),
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				vnetOf(`{"name":"nodes"}`),
				`,"after_unknown":{"subnet":[{"route_table_id":true}]}`),
			config + `{"resources":[{"type":"azurerm_virtual_network","name":"hub","expressions":{"subnet":{"references":["azurerm_route_table.fresh.id","azurerm_route_table.fresh"]}}}]}`}, "another nodes"},
		{"a block whose name is known only after apply", []string{drift,
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("nodes", q(rtID), "")),
				vnetOf(`{"address_prefixes":["x"]}`),
				`,"after_unknown":{"subnet":[{"name":true}]}`)}, "may-lose nodes"},
		{"a standalone subnet next to blocks that are written without it", []string{
			changes(tfSubnet, "nodes", "no-op", subnetOf(`,"route_table_id":`+q(rtID)), "null"),
			changes(tfVNet, "hub", "update", vnetOf(inlineBlock("edge", `""`, "")),
				vnetOf(inlineBlock("edge", q(otherID), "")))}, "recreated nodes"},
		{"the network is replaced", []string{changes(tfVNet, "hub", "delete,create",
			vnetOf(inlineBlock("nodes", q(rtID), "")), vnetOf(inlineBlock("nodes", q(rtID), "")))},
			"recreated nodes"},
		{"the network is replaced, and its name stays",
			[]string{here, changes(tfSubnet, "nodes", "no-op", subnetOf(""), "null"),
				changes(tfVNet, "hub", "delete,create", vnetOf(), vnetOf())}, "recreated nodes"},
		{"the whole network is destroyed", []string{here,
			changes(tfVNet, "hub", "delete", vnetOf(inlineBlock("nodes", q(rtID), "")), "null"),
			changes(tfSubnet, "nodes", "delete", subnetOf(`,"route_table_id":`+q(rtID)), "null"),
			changes(tfAssociation, "other", "delete", association(rtID), "null")}, ""},

		{"an association that only moves in the code",
			[]string{changes(tfAssociation, "old", "delete", association(rtID), "null"),
				changes(tfAssociation, "new", "create", "null", association(rtID))}, "flaps nodes"},
		{"an association that is replaced by the same",
			[]string{changes(tfAssociation, "nodes", "create,delete", association(rtID),
				association(rtID))}, "flaps nodes"},
		{"an association that goes to another subnet",
			[]string{changes(tfAssociation, "nodes", "delete,create", association(rtID),
				fmt.Sprintf(`{"subnet_id":%q,"route_table_id":%q}`, edgeID, rtID))}, "loses nodes"},
		{"a leftover of create_before_destroy",
			[]string{strings.Replace(changes(tfAssociation, "nodes", "delete", association(rtID),
				"null"), `"change"`, `"deposed":"abc","change"`, 1)}, "loses nodes"},
		{"an association taken out of the state only",
			[]string{changes(tfAssociation, "nodes", "forget", association(rtID), "null")}, ""},
		{"an association that is imported",
			[]string{changes(tfAssociation, "nodes", "no-op", association(rtID), association(rtID),
				`,"importing":{"id":"x"}`)}, ""},

		{"an association that goes with the cluster", []string{
			changes(tfCluster, "shop", "delete",
				fmt.Sprintf(`{"network_profile":[{"network_plugin":"kubenet"}],"default_node_pool":[{"vnet_subnet_id":%q}]}`, nodesID), "null"),
			changes(tfAssociation, "nodes", "delete", association(rtID), "null")},
			"destroyed , loses nodes"},
		{"an association that goes while another cluster stays", []string{
			changes(tfCluster, "shop", "delete",
				fmt.Sprintf(`{"network_profile":[{"network_plugin":"kubenet"}],"default_node_pool":[{"vnet_subnet_id":%q}]}`, nodesID), "null"),
			changes(tfCluster, "other", "no-op",
				fmt.Sprintf(`{"network_profile":[{"network_plugin":"kubenet"}],"default_node_pool":[{"vnet_subnet_id":%q}]}`, nodesID), "null"),
			changes(tfAssociation, "nodes", "delete", association(rtID), "null")},
			"destroyed , loses nodes"},

		{"a subnet that is deleted",
			[]string{changes(tfSubnet, "nodes", "delete", subnetOf(`,"route_table_id":`+q(rtID)),
				"null")}, "recreated nodes"},
		{"a subnet's own table, before azurerm 2.0",
			[]string{changes(tfSubnet, "nodes", "update", subnetOf(`,"route_table_id":`+q(rtID)),
				subnetOf(`,"route_table_id":""`))}, "loses nodes"},
		{"a subnet that is written with its table",
			[]string{changes(tfSubnet, "nodes", "update", subnetOf(`,"route_table_id":`+q(rtID)),
				subnetOf(`,"x":1,"route_table_id":`+q(rtID)))}, ""},
		{"a subnet whose table is read again",
			[]string{changes(tfSubnet, "nodes", "update", subnetOf(`,"route_table_id":`+q(rtID)),
				subnetOf(""), `,"after_unknown":{"route_table_id":true}`)}, ""},
		{"a new version of the write-only table, which is the same", []string{here,
			changes(tfTable, "rt", "no-op", fmt.Sprintf(`{"id":%q}`, rtID), "null"),
			changes(tfSubnet, "nodes", "update", subnetOf(`,"route_table_id_wo_version":1`),
				subnetOf(`,"route_table_id_wo_version":2`)),
			config + `{"resources":[{"type":"azurerm_subnet","name":"nodes","expressions":{"route_table_id_wo":{"references":["azurerm_route_table.rt.id","azurerm_route_table.rt"]}}}]}`}, ""},
		{"a new version of the write-only table, which is another", []string{here,
			changes(tfTable, "other", "no-op", fmt.Sprintf(`{"id":%q}`, otherID), "null"),
			changes(tfSubnet, "nodes", "update", subnetOf(`,"route_table_id_wo_version":1`),
				subnetOf(`,"route_table_id_wo_version":2`)),
			config + `{"resources":[{"type":"azurerm_subnet","name":"nodes","expressions":{"route_table_id_wo":{"references":["azurerm_route_table.other.id","azurerm_route_table.other"]}}}]}`}, "another nodes"},
		{"a new version of a write-only table that comes from elsewhere", []string{here,
			changes(tfSubnet, "nodes", "update", subnetOf(`,"route_table_id_wo_version":1`),
				subnetOf(`,"route_table_id_wo_version":2`)),
			config + `{"resources":[{"type":"azurerm_subnet","name":"nodes","expressions":{"route_table_id_wo":{"references":["var.table"]}}}]}`}, "may-lose nodes"},

		{"a write-only table for a subnet that has none", []string{drift,
			changes(tfSubnet, "nodes", "update",
				subnetOf(`,"route_table_id":"","route_table_id_wo_version":0`),
				subnetOf(`,"route_table_id":"","route_table_id_wo_version":1`)),
			config + `{"resources":[{"type":"azurerm_subnet","name":"nodes","expressions":{"route_table_id_wo":{"references":["var.table"]}}}]}`}, ""},
		{"a write-only table for a subnet with a stale state", []string{
			changes(tfSubnet, "nodes", "update",
				subnetOf(`,"route_table_id":"","route_table_id_wo_version":0`),
				subnetOf(`,"route_table_id":"","route_table_id_wo_version":1`)),
			config + `{"resources":[{"type":"azurerm_subnet","name":"nodes","expressions":{"route_table_id_wo":{"references":["var.table"]}}}]}`}, "may-lose nodes"},
		{"pod routes that are written away", []string{drift, changes(tfTable, "rt", "update",
			routes(route("aks-np-12345678-vmss000001____102441024", "10.244.1.0/24", "10.0.0.4")),
			routes(""))}, "routes-gone rt"},
		{"pod routes that lead elsewhere", []string{drift,
			changes(tfTable, "rt", "update", routes(route("a", "10.244.1.0/24", "10.0.0.4")),
				routes(route("a", "10.244.1.0/24", "10.0.0.9")))}, "routes-gone rt"},
		{"pod routes of a cluster with a pod CIDR of its own", []string{drift,
			changes(tfCluster, "shop", "update",
				`{"network_profile":[{"pod_cidr":"172.20.0.0/16"}]}`,
				`{"network_profile":[{"pod_cidr":"172.20.0.0/16"}]}`),
			changes(tfTable, "rt", "update", routes(route("x", "172.20.3.0/24", "10.0.0.4")),
				routes(""))}, "routes-gone rt"},
		{"routes that are not pods'",
			[]string{drift, changes(tfTable, "rt", "update",
				routes(route("egress", "0.0.0.0/0", "10.0.0.4")+","+route("site", "192.168.7.0/24",
					"10.0.0.4")), routes(""))}, ""},
		{"routes of a table with a stale state", []string{changes(tfTable, "rt",
			"update", routes(route("egress", "0.0.0.0/0", "10.0.0.4")),
			routes(route("egress", "0.0.0.0/0", "10.0.0.5")))}, "may-lose-routes rt"},
		{"tags of a table with a stale state", []string{changes(tfTable,
			"rt", "update", routes(route("egress", "0.0.0.0/0", "10.0.0.4")),
			routes(route("egress", "0.0.0.0/0", "10.0.0.4")))}, ""},

		{"a pod route of its own",
			[]string{changes(tfRoute, "p", "delete",
				strings.Replace(route("p", "10.244.1.0/24", "10.0.0.4"), "{", `{"id":"`+rtID+
					`/routes/p",`, 1), "null")}, "routes-gone rt"},
		{"a pod route of its own that leads elsewhere",
			[]string{changes(tfRoute, "p", "update",
				strings.Replace(route("p", "10.244.1.0/24", "10.0.0.4"), "{", `{"id":"`+rtID+
					`/routes/p",`, 1), route("p", "10.244.1.0/24", "10.0.0.9"))}, "routes-gone rt"},
		{"a pod route of its own that stays what it is",
			[]string{changes(tfRoute, "p", "delete,create",
				strings.Replace(route("p", "10.244.1.0/24", "10.0.0.4"), "{", `{"id":"`+rtID+
					`/routes/p",`, 1), route("q", "10.244.1.0/24", "10.0.0.4"))}, ""},
		{"a pod route of its own whose hop is known only after apply",
			[]string{changes(tfRoute, "p", "update",
				strings.Replace(route("p", "10.244.1.0/24", "10.0.0.4"), "{", `{"id":"`+rtID+
					`/routes/p",`, 1), `{"address_prefix":"10.244.1.0/24"}`,
				`,"after_unknown":{"next_hop_in_ip_address":true}`)}, ""},
		{"a pod route that goes with its table",
			[]string{changes(tfTable, "rt", "delete", routes(""), "null"),
				changes(tfRoute, "p", "delete",
					strings.Replace(route("p", "10.244.1.0/24", "10.0.0.4"),
						"{", `{"id":"`+rtID+`/routes/p",`, 1), "null")}, ""},

		{"an azapi subnet without its table", []string{changes(tfAzapi, "nodes",
			"update", body(subnetType, nodesID, `{"properties":{"routeTable":{"id":"`+rtID+`"}}}`),
			body(subnetType, nodesID, `{"properties":{}}`))}, "loses nodes"},
		{"an azapi subnet that says null", []string{here,
			changes(tfAzapi, "nodes", "update", body(subnetType, nodesID, `{"properties":{}}`),
				body(subnetType, nodesID, `{"properties":{"routeTable":null}}`))}, "loses nodes"},
		{"an unknown azapi subnet",
			[]string{changes(tfAzapi, "nodes", "update",
				body(subnetType, nodesID, `{"properties":{}}`), body(subnetType, nodesID,
					`{"properties":{"x":1}}`))}, "may-lose nodes"},
		{"an azapi subnet with its table, as text",
			[]string{here, changes(tfAzapi, "nodes", "update", body(subnetType, nodesID, `{}`),
				body(subnetType, nodesID, `"{\"properties\":{\"routeTable\":{\"id\":\"`+rtID+
					`\"}}}"`))}, ""},
		{"an azapi subnet with a table that is known only after apply", []string{here,
			changes(tfAzapi, "nodes", "update", body(subnetType, nodesID, `{}`),
				body(subnetType, nodesID, `{"properties":{"routeTable":{}}}`),
				`,"after_unknown":{"body":{"properties":{"routeTable":{"id":true}}}}`)},
			"another nodes"},
		{"an azapi network that lists a subnet without its table",
			[]string{here, changes(tfAzapi, "hub", "update",
				body(vnetType, netID, `{"properties":{"subnets":[]}}`), body(vnetType, netID,
					`{"properties":{"subnets":[{"name":"nodes","properties":{}}]}}`))},
			"loses nodes"},
		{"an azapi network that lists others",
			[]string{here, changes(tfAzapi, "nodes", "no-op", body(subnetType, nodesID, `{}`),
				"null"),
				changes(tfAzapi, "hub", "update", body(vnetType, netID, `{}`),
					body(vnetType, netID,
						`{"properties":{"subnets":[{"name":"edge","properties":{"routeTable":{"id":"`+rtID+`"}}}]}}`))}, "recreated nodes"},
		{"an azapi network that lists a subnet of its own resource",
			[]string{here, changes(tfSubnet, "nodes", "no-op", subnetOf(""), "null"),
				changes(tfAzapi, "hub", "update", body(vnetType, netID, `{}`),
					body(vnetType, netID,
						`{"properties":{"subnets":[{"name":"NODES","properties":{"routeTable":{"id":"`+rtID+`"}}}]}}`))}, ""},
		{"an azapi network that lists none",
			[]string{here, changes(tfAzapi, "hub", "update", body(vnetType, netID, `{}`),
				body(vnetType, netID, `{"properties":{}}`))}, ""},
		{"an azapi network that lists none, long ago", []string{here,
			changes(tfSubnet, "nodes", "no-op", subnetOf(""), "null"), changes(tfAzapi,
				"hub", "update", body("Microsoft.Network/virtualNetworks@2022-01-01", netID, `{}`),
				body("Microsoft.Network/virtualNetworks@2022-01-01", netID, `{"properties":{}}`))},
			"recreated nodes"},
		{"azapi_update_resource reads a subnet first", []string{here,
			changes(tfAzapiUpdate, "nodes", "update", body(subnetType, nodesID, `{}`),
				body(subnetType, nodesID, `{"properties":{"x":1}}`))}, ""},
		{"azapi_update_resource that names its subnet by network and name",
			[]string{here, changes(tfAzapiUpdate, "nodes", "create", "null",
				`{"name":"nodes","parent_id":"`+netID+`","type":"`+subnetType+
					`","body":{"properties":{"routeTable":null}}}`)}, "loses nodes"},
		{"azapi_update_resource that names its network by group and name",
			[]string{here, changes(tfAzapiUpdate, "hub", "create", "null",
				`{"name":"hub","parent_id":"/subscriptions/s/resourceGroups/g","type":"`+vnetType+
					`","body":{"properties":{"subnets":[{"name":"nodes","properties":{}}]}}}`)},
			"loses nodes"},
		{"an azapi network that is replaced", []string{here, changes(tfAzapi, "nodes", "no-op",
			body(subnetType, nodesID, `{}`), "null"), changes(tfAzapi, "hub", "delete,create",
			body(vnetType, netID, `{"properties":{"subnets":[{"name":"edge","properties":{}}]}}`),
			body(vnetType, netID, `{}`))}, "recreated edge, recreated nodes"},
		{"an azapi network that lists none, at an old version, next to an azapi subnet",
			[]string{here, changes(tfAzapi,
				"nodes", "no-op", body(subnetType, nodesID, `{}`), "null"), changes(tfAzapi,
				"hub", "update", body("Microsoft.Network/virtualNetworks@2022-01-01", netID, `{}`),
				body("Microsoft.Network/virtualNetworks@2022-01-01", netID, `{"properties":{}}`))},
			"recreated nodes"},
		{"azapi of something else", []string{here, changes(tfAzapi,
			"nodes", "update", body("Microsoft.Storage/storageAccounts@2023-01-01", nodesID, `{}`),
			body("Microsoft.Storage/storageAccounts@2023-01-01", nodesID, `{"a":1}`))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []string
			more := ""
			for _, part := range c.parts {
				switch root, isConfig := strings.CutPrefix(part, config); {
				case part == drift:
					more += `,"resource_drift":[{}]`
				case isConfig:
					more += `,"configuration":{"root_module":` + root + `}`
				default:
					list = append(list, part)
				}
			}
			text := `{"format_version":"1.2","resource_changes":[` + strings.Join(list, ",") + `]` +
				more + `}`
			hostilePlan([]byte(text))
			r, err := readPlain("plan", strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, e := range r.Effects {
				have = append(have, string(e.Verb)+" "+e.What.Name)
				if e.How == "" || e.Fix == "" || strings.Contains(e.Fix, `= ""`) ||
					e.By.Address == "" {
					t.Errorf("an effect without words: %+v", e)
				}
			}
			if strings.Join(have, ", ") != c.want {
				t.Errorf("it says %q, expected %q: %+v", strings.Join(have, ", "), c.want,
					r.Effects)
			}
			for _, n := range r.Notes {
				if n.Unknown {
					t.Errorf("not understood: %+v", n)
				}
			}
		})
	}
}

// TestKeepAssociation: the advice to keep an association fits its address: a removed block takes no
// instance keys.
func TestKeepAssociation(t *testing.T) {
	for address, want := range map[string]string{
		tfAssociation + ".n": "removed { from = " + tfAssociation +
			".n  lifecycle { destroy = false } }",
		"module.net." + tfAssociation + ".n": "removed { from = module.net." + tfAssociation +
			".n  lifecycle { destroy = false } }",
		tfAssociation + `.n["a"]`: "terraform state rm '" + tfAssociation + `.n["a"]'`,
		`module.net[0].` + tfAssociation + ".n": "terraform state rm 'module.net[0]." +
			tfAssociation + ".n'",
	} {
		change := strings.Replace(changes(tfAssociation, "n", "delete", association(rtID), "null"),
			`"`+tfAssociation+`.n"`, strconv.Quote(address), 1)
		text := `{"format_version":"1.2","resource_changes":[` + change + `]}`
		hostilePlan([]byte(text))
		r, err := readPlain("plan", strings.NewReader(text))
		if err != nil || len(r.Effects) != 1 || !strings.HasSuffix(r.Effects[0].Fix, want) {
			t.Errorf("%s: %v, %+v", address, err, r.Effects)
		}
	}
}

// TestNotes: what has no effect to report is noted, once each, and nothing else.
func TestNotes(t *testing.T) {
	table := func(action string) string {
		return changes(tfTable, "rt", action,
			fmt.Sprintf(`{"id":%q,"subnets":[%q]}`, rtID, nodesID), "null")
	}
	action := func(method, kind, action string) string {
		return changes(tfAzapiAction, "a", "create", "null",
			fmt.Sprintf(`{"method":%q,"type":%q,"action":%q,"resource_id":%q}`, method, kind,
				action, nodesID))
	}
	for _, c := range []struct {
		name  string
		parts []string
		want  string // part of the note
	}{
		{"a table that is destroyed while a subnet has it", []string{table("delete")},
			"InUseRouteTableCannotBeDeleted"},
		{"a table that is replaced while a subnet has it", []string{table("delete,create")},
			"InUseRouteTableCannotBeDeleted"},
		{"a table that is replaced with its association",
			[]string{table("delete,create"), changes(tfAssociation, "n", "delete,create",
				association(rtID), association(otherID))}, ""},
		{"a table that is destroyed with its subnet",
			[]string{table("delete"), changes(tfSubnet, "n", "delete", subnetOf(""), "null")}, ""},
		{"a PUT of a subnet", []string{action("PUT", subnetType, "")}, "it PUTs"},
		{"a PUT of a network", []string{action("put", vnetType, "")}, "it PUTs"},
		{"an action of a network", []string{action("POST", vnetType, "checkIpAddressAvailability")},
			""},
		{"a PUT of something else",
			[]string{action("PUT", "Microsoft.Storage/storageAccounts@2023-01-01", "")}, ""},
	} {
		r, err := readPlain("plan", strings.NewReader(`{"format_version":"1.2","resource_changes":[`+
			strings.Join(c.parts, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Notes) > 1 || (len(r.Notes) == 1) != (c.want != "") ||
			c.want != "" && !strings.Contains(r.Notes[0].Text, c.want) {
			t.Errorf("%s: %+v", c.name, r.Notes)
		}
	}
}

// TestSortedPlan: a plan with sorted keys, with more configuration than is read to recognise it.
func TestSortedPlan(t *testing.T) {
	big := strings.Repeat("x", 2*peekSize)
	r, err := readPlain("plan", strings.NewReader(`{"applyable":true,"configuration":{"x":"`+big+
		`"},"format_version":"1.2","resource_changes":[`+changes(tfAssociation, "n", "delete",
		association(rtID), "null")+`]}`))
	if err != nil || r.Format != TerraformPlan || len(r.Effects) != 1 {
		t.Errorf("%v: %+v", err, r)
	}
}

// TestCarriers: which subnets need their table.
func TestCarriers(t *testing.T) {
	cluster := func(plugin, outbound string) string {
		return changes(tfCluster, "shop", "no-op",
			fmt.Sprintf(`{"id":"/c","network_profile":[{"network_plugin":%q,"outbound_type":%q}],"default_node_pool":[{"vnet_subnet_id":%q}]}`, plugin, outbound, nodesID), "null")
	}
	azapiCluster := func(plugin, outbound string) string {
		return changes(tfAzapi, "shop", "no-op",
			fmt.Sprintf(`{"id":"/c","type":"Microsoft.ContainerService/managedClusters@2024-05-01","body":{"properties":{"networkProfile":{"networkPlugin":%q,"outboundType":%q},"agentPoolProfiles":[{"vnetSubnetID":%q}]}}}`, plugin, outbound, nodesID), "null")
	}
	for _, c := range []struct{ name, parts, want string }{
		{"kubenet", cluster("kubenet", "loadBalancer"), "nodes"},
		{"overlay needs none", cluster("azure", "loadBalancer"), ""},
		{"but leaves through it", cluster("azure", "userDefinedRouting"), "nodes"},
		{"a pool of a kubenet cluster", cluster("kubenet", "") + "," +
			changes(tfPool, "two", "no-op",
				fmt.Sprintf(`{"vnet_subnet_id":%q,"kubernetes_cluster_id":"/c"}`, edgeID), "null"),
			"nodes edge"},
		{"a pool of another", cluster("azure", "") + "," + changes(tfPool, "two", "no-op",
			fmt.Sprintf(`{"vnet_subnet_id":%q,"kubernetes_cluster_id":"/c"}`, edgeID), "null"), ""},
		{"a gateway", changes(tfGateway, "gw", "no-op",
			fmt.Sprintf(`{"gateway_ip_configuration":[{"subnet_id":%q}]}`, edgeID), "null"),
			"edge"},
		{"kubenet by azapi", azapiCluster("kubenet", "") + "," + changes(tfAzapi, "two", "no-op",
			fmt.Sprintf(`{"id":"/c/agentPools/two","parent_id":"/c","type":"Microsoft.ContainerService/managedClusters/agentPools@2024-05-01","body":{"properties":{"vnetSubnetID":%q}}}`, edgeID), "null"), "nodes edge"},
		{"overlay by azapi needs none", azapiCluster("azure", ""), ""},
		{"but leaves through it, by azapi", azapiCluster("azure", "userDefinedRouting"), "nodes"},
		{"a gateway by azapi",
			changes(tfAzapi, "gw", "no-op",
				fmt.Sprintf(`{"id":"/g","type":"Microsoft.Network/applicationGateways@2024-05-01","body":{"properties":{"gatewayIPConfigurations":[{"properties":{"subnet":{"id":%q}}}]}}}`, edgeID), "null"), "edge"},
		{"a cluster that goes, by azapi",
			strings.ReplaceAll(azapiCluster("kubenet", ""), "no-op", "delete"), ""},
		{"a cluster that goes", strings.ReplaceAll(cluster("kubenet", ""), "no-op", "delete"), ""},
	} {
		r, err := readPlain("plan",
			strings.NewReader(`{"format_version":"1.2","resource_changes":[`+c.parts+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, carrier := range r.Carriers {
			have = append(have, carrier.Name)
		}
		if strings.Join(have, " ") != c.want {
			t.Errorf("%s: %q, expected %q", c.name, have, c.want)
		}
	}
}
