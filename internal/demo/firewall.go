package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// guarded returns the config for a cluster that has no pod routes, and whose node subnet must keep
// its table and its security group.
func guarded(f emulator.Firewalled) v1alpha1.ClusterRoutes {
	c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: f.Cluster.Name()}}
	c.Spec.ClusterID = string(f.Cluster)
	c.Spec.Guard.SecurityGroups = v1alpha1.GuardEnforce
	c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: string(f.Subnet),
		RouteTableID: string(f.Table), NetworkSecurityGroupID: string(f.Group)}}
	c.SetDefaults()
	return c
}

// playFirewall takes the table and the security group off the subnet of a cluster behind a
// firewall, in one PUT of the network.
func playFirewall(ctx context.Context, s *stage, _ table) (string, error) {
	way, err := s.egress()
	if err != nil {
		return "", err
	}
	if way != s.web.Firewall {
		return "", fmt.Errorf("before the redeploy, packets leave by %s and not by the firewall",
			way)
	}
	network := s.web.Subnet.Parent()
	before, err := s.get(network)
	if err != nil {
		return "", err
	}
	stripped, err := s.get(network)
	if err != nil {
		return "", err
	}
	for _, subnet := range stripped["properties"].(map[string]any)["subnets"].([]any) {
		properties := subnet.(map[string]any)["properties"].(map[string]any)
		delete(properties, "routeTable")
		delete(properties, "networkSecurityGroup")
	}
	if err := s.put(network, stripped); err != nil {
		return "", err
	}
	past, err := s.egress()
	if err != nil {
		return "", err
	}
	err = s.checkUntil(ctx, func() error {
		if err := s.unchanged(network, before); err != nil {
			return err
		}
		if way, err = s.egress(); err == nil && way != s.web.Firewall {
			err = fmt.Errorf("packets leave by %s and not by the firewall", way)
		}
		return err
	})
	return fmt.Sprintf("meanwhile its nodes reached the internet past the firewall, by %s; one "+
		"write put both back, and they leave by %s again", past, s.web.Firewall), err
}

// egress says how packets from the firewalled cluster's nodes reach the internet: by the address of
// a next hop, or by what gives them a public address.
func (s *stage) egress() (string, error) {
	read := inventory.NewSnapshot()
	for _, id := range []arm.ID{s.web.Subnet.Parent(), s.web.Table, s.web.Cluster} {
		doc, err := s.get(id)
		if err != nil {
			return "", err
		}
		raw, err := json.Marshal(doc)
		if err == nil {
			err = read.Add(raw)
		}
		if err != nil {
			return "", err
		}
	}
	routes, err := trace.Effective(read, s.web.Subnet, nil)
	if err != nil {
		return "", err
	}
	takes, found := routes.Lookup(netip.MustParseAddr("203.0.113.1"))
	if found && takes.HopType == trace.HopInternet {
		if by := trace.Exit(read.Subnet(s.web.Subnet), read.Cluster(s.web.Cluster)); by != "" {
			return by, nil
		}
	}
	if !found || !takes.Hop.IsValid() {
		return "nothing: they are dropped", nil
	}
	return takes.Hop.String(), nil
}
