package iac

import (
	"encoding/json"
	"maps"
	"slices"
)

// expected returns the values after. Values that are known only after apply are assumed to stay, as
// they usually do: a change of one inline subnet makes the IDs of all of them unknown.
func (r *tfResource) expected() *tfValues {
	if r.Change.After == nil {
		return nil
	}
	v, old, u := *r.Change.After, r.before(), r.Change.Unknown
	if r.updates() && v.ID == "" {
		v.ID = old.ID
	}
	stays(&v.Route, old.Route, u.of("route"))
	stays(&v.Prefix, old.Prefix, u.of("address_prefix"))
	stays(&v.HopType, old.HopType, u.of("next_hop_type"))
	stays(&v.Hop, old.Hop, u.of("next_hop_in_ip_address"))
	stays(&v.TableName, old.TableName, u.of("route_table_name"))
	stays(&v.ResourceGroup, old.ResourceGroup, u.of("resource_group_name"))
	stays(&v.PoolSubnet, old.PoolSubnet, u.of("vnet_subnet_id"))
	stays(&v.ClusterID, old.ClusterID, u.of("kubernetes_cluster_id"))
	stays(&v.NodeGroup, old.NodeGroup, u.of("node_resource_group"))
	v.Profile = expectedOf(v.Profile, old.Profile, u.of("network_profile"),
		func(now *tfProfile, old tfProfile, u unknown) {
			stays(&now.Plugin, old.Plugin, u.of("network_plugin"))
			stays(&now.Mode, old.Mode, u.of("network_plugin_mode"))
			stays(&now.PodCIDR, old.PodCIDR, u.of("pod_cidr"))
			stays(&now.ServiceCIDR, old.ServiceCIDR, u.of("service_cidr"))
			stays(&now.Outbound, old.Outbound, u.of("outbound_type"))
			stays(&now.Policy, old.Policy, u.of("network_policy"))
		})
	v.DefaultPool = expectedOf(v.DefaultPool, old.DefaultPool, u.of("default_node_pool"),
		func(now *tfDefaultPool, old tfDefaultPool, u unknown) {
			stays(&now.SubnetID, old.SubnetID, u.of("vnet_subnet_id"))
			stays(&now.Count, old.Count, u.of("node_count"))
		})
	v.GatewayIPs = expectedOf(v.GatewayIPs, old.GatewayIPs, u.of("gateway_ip_configuration"),
		func(now *tfGatewayIP, old tfGatewayIP, u unknown) {
			stays(&now.SubnetID, old.SubnetID, u.of("subnet_id"))
		})
	if u.of("body").any() {
		v.Body = expectedBody(v.bodyText(), old.bodyText(), u.of("body"))
	}
	return &v
}

func stays[T any](now *T, before T, u unknown) {
	if u.any() {
		*now = before
	}
}

// expectedOf returns the blocks after; of each returns one of them.
func expectedOf[T any](now, before []T, u unknown, each func(now *T, before T, u unknown)) []T {
	if u.all {
		return before
	}
	now = slices.Clone(now)
	for i := range min(len(now), len(before)) {
		each(&now[i], before[i], u.at(i))
	}
	return now
}

// expectedBody returns the body of an azapi resource after.
func expectedBody(now, before []byte, u unknown) json.RawMessage {
	var n, b any
	if json.Unmarshal(before, &b) != nil {
		return now
	}
	if json.Unmarshal(now, &n) != nil {
		n = nil
	}
	out, err := json.Marshal(filled(n, b, u))
	if err != nil {
		return now
	}
	return out
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
