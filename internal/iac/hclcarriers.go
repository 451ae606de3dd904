package iac

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
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
		why = cmp.Or(nodesNeed(cluster.place.Address, literal(profile.Body, "network_plugin"),
			literal(profile.Body, "outbound_type")), why)
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
	if id := text(a.Expr); arm.ID(id).Is(arm.TypeSubnet) {
		return []Carrier{{Place: Named(id, why).Place, Why: why}}
	}
	if subnet := m.refers(a.Expr, tfSubnet); subnet != nil {
		return []Carrier{{Place: subnet.subnet(), Why: why}}
	}
	if subnet := m.refers(a.Expr, tfAzapi); subnet != nil {
		if kind, _, _ := strings.Cut(literal(subnet.Body, "type"), "@"); strings.EqualFold(kind,
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
	for _, e := range inlineSubnets(vnet, inventory.PropertyTable) {
		if e.What.Name != "" && bytes.Contains(said, []byte(strconv.Quote(e.What.Name))) {
			place = e.What
		}
	}
	return []Carrier{{Place: place, Why: why}}
}
