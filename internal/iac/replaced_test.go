package iac

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
)

// edit is a change of one resource of the real plan s15, which replaces a cluster for its pod CIDR.
type edit struct {
	kind    string
	actions []any
	paths   string // what forces the replacement, as JSON; "" for nothing
	after   func(values map[string]any)
}

var (
	inPlace  = []any{"update"}
	replaces = []any{"delete", "create"}
)

// plan is the real plan with the edits, and without its own replacement.
func (e edit) plan(t *testing.T) map[string]any {
	p := load(t, "s15-pod-cidr-replaces-cluster")
	for _, r := range p["resource_changes"].([]any) {
		r := r.(map[string]any)
		change := r["change"].(map[string]any)
		if r["type"] == tfCluster {
			delete(r, "action_reason")
			delete(change, "replace_paths")
			change["actions"], change["after"] = []any{"no-op"}, change["before"]
		}
		if r["type"] != e.kind || r["index"] != nil && r["index"] != 0.0 ||
			strings.HasSuffix(r["address"].(string), "rt2") {
			continue
		}
		var after map[string]any
		raw := dump(t, change["before"].(map[string]any))
		if err := json.Unmarshal(raw, &after); err != nil {
			t.Fatal(err)
		}
		e.after(after)
		e.valid(t, change["before"].(map[string]any), after)
		change["actions"], change["after"] = e.actions, after
		if e.paths != "" {
			var paths any
			if err := json.Unmarshal([]byte(e.paths), &paths); err != nil {
				t.Fatal(err)
			}
			change["replace_paths"], r["action_reason"] = paths, "replace_because_cannot_update"
		}
	}
	return p
}

// valid checks that the provider's schema has every argument that the edit changes.
func (e edit) valid(t *testing.T, before, after map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("generate/testdata/schema/v5/" + e.kind + ".json")
	if err != nil {
		t.Fatal(err)
	}
	type block struct {
		Arguments map[string]string
		Blocks    map[string]json.RawMessage
	}
	var check func(schema []byte, before, after map[string]any)
	check = func(schema []byte, before, after map[string]any) {
		var s block
		if err := json.Unmarshal(schema, &s); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if fmt.Sprint(before[name]) == fmt.Sprint(after[name]) {
				continue
			}
			if inner, isBlock := s.Blocks[name]; isBlock {
				check(inner, before[name].([]any)[0].(map[string]any),
					after[name].([]any)[0].(map[string]any))
			} else if s.Arguments[name] == "" {
				t.Errorf("%s has no argument %s", e.kind, name)
			}
		}
	}
	check(raw, before, after)
}

func firstPool(values map[string]any) map[string]any {
	return values["default_node_pool"].([]any)[0].(map[string]any)
}

// TestReplacements: every way in which a plan destroys what pods need is an error that says what
// dies, and the same change made in place is not.
func TestReplacements(t *testing.T) {
	const vnetD = "subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/rgD/" +
		"providers/Microsoft.Network/virtualNetworks/vnetD"
	overlay := func(v map[string]any) {
		profileOf(v)["network_plugin"], profileOf(v)["network_plugin_mode"] = "azure", "overlay"
	}
	mode := func(v map[string]any) { profileOf(v)["network_plugin_mode"] = "overlay" }
	cidr := func(v map[string]any) { profileOf(v)["pod_cidr"] = "10.246.0.0/16" }
	subnet := func(v map[string]any) {
		firstPool(v)["vnet_subnet_id"] = "/" + vnetD + "/subnets/other"
	}
	set := func(name string, value any) func(map[string]any) {
		return func(v map[string]any) { v[name] = value }
	}
	for _, c := range []struct {
		name string
		edit
		want    finding.Code // "": nothing
		message string
	}{
		{"the plugin", edit{tfCluster, replaces, `[["network_profile",0,"network_plugin"]]`,
			overlay}, finding.IaCDestroys, "a change of network_profile[0].network_plugin " +
			"forces it"},
		{"the plugin in place", edit{tfCluster, inPlace, "", overlay}, finding.IaCMigrates,
			"this starts the migration"},
		{"the plugin's mode",
			edit{tfCluster, replaces, `[["network_profile",0,"network_plugin_mode"]]`, mode},
			finding.IaCDestroys, "a change of network_profile[0].network_plugin_mode forces it"},
		{"the mode in place", edit{tfCluster, inPlace, "", mode}, "", ""},
		{"the pod CIDR", edit{tfCluster, replaces, `[["network_profile",0,"pod_cidr"]]`, cidr},
			finding.IaCDestroys, "a change of network_profile[0].pod_cidr forces it"},
		{"the pod CIDR in place", edit{tfCluster, inPlace, "", cidr}, "", ""},
		{"the first pool's subnet",
			edit{tfCluster, replaces, `[["default_node_pool",0,"vnet_subnet_id"]]`, subnet},
			finding.IaCDestroys, "a change of default_node_pool[0].vnet_subnet_id forces it"},
		{"the pool's size in place", edit{tfCluster, inPlace, "", func(v map[string]any) {
			firstPool(v)["node_count"] = 2
		}}, "", ""},
		{"created before it is destroyed",
			edit{tfCluster, []any{"create", "delete"}, `[["network_profile",0,"pod_cidr"]]`, cidr},
			finding.IaCDestroys, "a change of network_profile[0].pod_cidr forces it"},
		{"the node subnet's name", edit{tfSubnet, replaces, `[["name"]]`, set("name", "nodes")},
			finding.IaCRecreates, "deleted while its network stays"},
		{"the node subnet's addresses in place",
			edit{tfSubnet, inPlace, "", set("address_prefixes", []any{"10.240.0.0/15"})}, "", ""},
		{"the network's name", edit{tfVNet, replaces, `[["name"]]`, set("name", "vnetE")},
			finding.IaCRecreates, "network vnetD is renamed to vnetE"},
		{"the network's place", edit{tfVNet, replaces, `[["location"]]`,
			set("location", "northeurope")}, finding.IaCRecreates,
			"network vnetD is deleted and created again: a change of location forces it"},
		{"the network's addresses in place", edit{tfVNet, inPlace, "",
			set("address_space", []any{"10.0.0.0/8", "192.168.0.0/24"})}, "", ""},
		{"the table's name", edit{tfTable, replaces, `[["name"]]`, set("name", "rtE")},
			finding.IaCNote, "its deletion fails while subnet vnetD/aks uses it"},
		{"the table's tags in place",
			edit{tfTable, inPlace, "", set("tags", map[string]any{"a": "b"})}, "", ""},
	} {
		r, err := readPlain("plan.json", bytes.NewReader(dump(t, c.plan(t))))
		if err != nil {
			t.Fatal(err)
		}
		found := r.Findings(Known{})
		switch {
		case c.want == "" && len(found) > 0:
			t.Errorf("%s: %s %s", c.name, found[0].Code, found[0].Message)
		case c.want != "" && (len(found) != 1 || found[0].Code != c.want ||
			!strings.Contains(found[0].Message, c.message)):
			for _, f := range found {
				t.Errorf("%s: %s %s", c.name, f.Code, f.Message)
			}
			if len(found) == 0 {
				t.Errorf("%s: nothing", c.name)
			}
		}
	}
}
