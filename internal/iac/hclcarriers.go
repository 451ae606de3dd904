package iac

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"routekeeper.dev/routekeeper/internal/arm"
)

// poolSubnets returns the subnets of a kubenet cluster's pools that are resources of the same
// module.
func (m *sourceModule) poolSubnets(res *sourceResource) []Carrier {
	cluster := res
	if res.kind == tfPool {
		a := res.Body.Attributes["kubernetes_cluster_id"]
		if a == nil {
			return nil
		}
		if cluster = m.refers(a.Expr, tfCluster); cluster == nil {
			return nil
		}
	}
	why := ""
	for _, profile := range blocks(cluster.Body, "network_profile") {
		plugin := cluster.module.literal(profile.Body, "network_plugin")
		if plugin == "" && profile.Body.Attributes["network_plugin"] != nil {
			plugin = "{}" // it is not known
		}
		why = cmp.Or(nodesNeed(cluster.place.Address, plugin,
			cluster.module.literal(profile.Body, "outbound_type")), why)
	}
	if why == "" {
		return nil
	}
	if res.kind == tfPool {
		return m.carrier(res.Block, "vnet_subnet_id", why)
	}
	var out []Carrier
	for _, pool := range blocks(res.Body, "default_node_pool") {
		out = append(out, m.carrier(pool, "vnet_subnet_id", why)...)
	}
	return out
}

// carrier returns the subnet that an attribute refers to: a separate resource, or an inline block
// of a network, which the expression may name.
func (m *sourceModule) carrier(b *hclsyntax.Block, attribute, why string) []Carrier {
	a := b.Body.Attributes[attribute]
	if a == nil {
		return nil
	}
	if id := m.text(a.Expr, nil); arm.ID(id).Is(arm.TypeSubnet) {
		return []Carrier{{Place: Named(id, why).Place, Why: why}}
	}
	for _, kind := range []string{tfSubnet, "data." + tfSubnet} {
		if subnet := m.refers(a.Expr, kind); subnet != nil {
			return []Carrier{{Place: subnet.subnet(), Why: why}}
		}
	}
	if subnet := m.refers(a.Expr, tfAzapi); subnet != nil {
		if kind, _, _ := strings.Cut(subnet.literal("type"), "@"); strings.EqualFold(kind,
			arm.TypeSubnet) {
			return []Carrier{{Place: subnet.subnet(), Why: why}}
		}
	}
	vnet := m.refers(a.Expr, tfVNet)
	if vnet == nil {
		return nil
	}
	place := vnet.place
	said := a.Expr.Range().SliceBytes(m.files[a.Expr.Range().Filename])
	for _, code := range vnet.inlineCode() {
		if code.name != "" && bytes.Contains(said, []byte(strconv.Quote(code.name))) {
			place.Name, place.VNet = code.name, vnet.literal("name")
		}
	}
	return []Carrier{{Place: place, Why: why}}
}
