package build

import (
	"fmt"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/capacity"
)

// Read turns a document into a complete Cluster. The error is an *Error.
func Read(d v1alpha1.Cluster) (Cluster, error) {
	c, err := ReadNames(d)
	if err != nil {
		return c, err
	}
	s := d.Spec
	c.Location, c.Version = s.Location, s.KubernetesVersion
	c.Blueprint = capacity.Plugin(s.Blueprint)
	c.NetworkPolicy, c.Private = s.NetworkPolicy, s.Private
	for i, text := range s.AddressSpace {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() || !p.Addr().Is4() {
			return c, wrong(Field(fmt.Sprintf("%s[%d]", fieldSpace, i)),
				"%q is not an IPv4 prefix, expected one such as 10.224.0.0/16", text)
		}
		c.Space = append(c.Space, p)
	}
	for _, one := range []struct {
		field Field
		text  string
		to    *netip.Prefix
	}{
		{fieldNodes, s.NodeSubnet, &c.Nodes}, {fieldPods, s.PodSubnet, &c.Pods},
		{fieldGateway, s.GatewaySubnet, &c.Gateway}, {fieldPodCIDR, s.PodCIDR, &c.PodCIDR},
		{fieldServices, s.ServiceCIDR, &c.Services},
	} {
		if one.text == "" {
			continue
		}
		if *one.to, err = netip.ParsePrefix(one.text); err != nil {
			return c, wrong(one.field, "%q is not a prefix, expected one such as 10.224.0.0/20",
				one.text)
		}
	}
	if s.Egress != "" {
		if c.Egress, err = netip.ParseAddr(s.Egress); err != nil {
			return c, wrong(fieldEgress, "%q is not an address, expected one such as 10.1.0.4",
				s.Egress)
		}
	}
	if g := s.ApplicationGateway; g != nil {
		c.ApplicationGateway = &Gateway{Most: g.MaxCapacity}
		if g.MinCapacity != nil {
			c.ApplicationGateway.Least = *g.MinCapacity
		}
	}
	for _, p := range s.Pools {
		c.Pools = append(c.Pools, Pool{Name: p.Name, VMSize: p.VMSize, Count: p.Count,
			Least: p.MinCount, Most: p.MaxCount, MaxPods: p.MaxPods, Zones: p.Zones})
	}
	c.BuiltInRoles = s.BuiltInRoles
	return c.Complete()
}

// ReadNames reads only what the names of a cluster's resources depend on: enough to delete it. The
// error is an *Error.
func ReadNames(d v1alpha1.Cluster) (Cluster, error) {
	c := Cluster{Name: d.Metadata.Name, Subscription: strings.ToLower(d.Spec.Subscription),
		Group: d.Spec.ResourceGroup}
	if err := readExisting(&c, d.Spec); err != nil {
		return c, err
	}
	if c.Group == "" {
		c.Group = c.Name + "-rg"
	}
	return c, checkNames(&c)
}

// readExisting reads the IDs of existing subnets.
func readExisting(c *Cluster, s v1alpha1.ClusterSpec) error {
	var e Existing
	for _, one := range []struct {
		field Field
		text  string
		to    *arm.ID
	}{
		{fieldVNetSubnet, s.VNetSubnetID, &e.Nodes}, {fieldPodSubnetID, s.PodSubnetID, &e.Pods},
		{fieldGatewayID, s.AppGwSubnetID, &e.Gateway},
	} {
		switch id, err := arm.ParseID(one.text); {
		case one.text == "":
			continue
		case err != nil:
			return wrong(one.field, "%q is not a resource ID: %v", one.text, err)
		case e.Nodes == "" && one.to != &e.Nodes:
			return wrong(one.field, "it needs %s, the node subnet in the same network",
				fieldVNetSubnet)
		default:
			*one.to = id
		}
	}
	if e.Nodes != "" {
		c.Existing = &e
	}
	return nil
}
