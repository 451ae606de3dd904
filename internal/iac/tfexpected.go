package iac

import (
	"encoding/json"
	"maps"
	"slices"
)

// staying are the attributes with values that usually stay: a change of one inline subnet makes the
// IDs of all of them unknown.
var staying = []string{
	"route", "address_prefix", "next_hop_type", "next_hop_in_ip_address", "route_table_name",
	"resource_group_name", "vnet_subnet_id", "kubernetes_cluster_id", "node_resource_group",
	"network_profile", "default_node_pool", "gateway_ip_configuration", "body",
}

// expect sets the expected values, from the JSON of a change.
func (r *tfResource) expect(raw []byte) {
	if r.expected = r.Change.After; r.expected == nil {
		return
	}
	stays := unknown{fields: map[string]unknown{}}
	for _, attribute := range staying {
		stays.fields[attribute] = r.Change.Unknown.of(attribute)
	}
	var doc struct {
		Change struct{ Before, After map[string]any }
	}
	v := *r.Change.After
	if stays.any() && json.Unmarshal(raw, &doc) == nil && doc.Change.After != nil {
		before, after := doc.Change.Before, doc.Change.After
		if stays.fields["route"].any() { // its routes can have another order
			after["route"] = before["route"]
		}
		if whole, err := json.Marshal(filled(after, before, stays)); err == nil {
			v = tfValues{}
			_ = json.Unmarshal(whole, &v) // what is unexpected in it is noted
		}
	}
	if r.updates() && v.ID == "" {
		v.ID = r.before().ID
	}
	r.expected = &v
}

// filled returns a value in which unknown parts are taken from the value before.
func filled(now, before any, u unknown) any {
	if u.all {
		return before
	}
	switch b := before.(type) {
	case map[string]any:
		n, _ := now.(map[string]any)
		if n = maps.Clone(n); n == nil {
			n = map[string]any{}
		}
		for key, field := range u.fields {
			if value := filled(n[key], b[key], field); field.any() && value != nil {
				n[key] = value
			}
		}
		return n
	case []any:
		n, is := now.([]any)
		if !is {
			return now
		}
		n = slices.Clone(n)
		for i := range min(len(n), len(b)) {
			n[i] = filled(n[i], b[i], u.at(i))
		}
		return n
	}
	return now
}
