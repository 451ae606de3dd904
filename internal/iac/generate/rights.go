package generate

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Rights describes a keeper of existing clusters: its identity, and the rights that it needs on the
// resources that their configs name.
type Rights struct {
	Name, Location string
	// Provider is the major version of the azurerm provider, 4 or 5; Bicep ignores it.
	Provider int
	Clusters []ManagedCluster
}

// ManagedCluster is a managed cluster with its config.
type ManagedCluster struct {
	Name    string
	Cluster arm.ID
	// None is set if there is no cluster; Cluster is then a resource that the config names.
	None bool
	// Guarded is set if the associations of its node subnets are guarded. Table is the table for
	// them, if the config names it.
	Guarded bool
	Table   arm.ID
	// Subnets has further guarded associations. Targets has the tables that are written, for pod
	// routes or egress.
	Subnets []GuardedSubnet
	Targets []arm.ID
	// Firewall is the firewall or load balancer of spec.egress, or "".
	Firewall arm.ID
	// FromNodes is set if the pod routes come from the nodes in the cluster's Kubernetes API.
	FromNodes bool
}

// GuardedSubnet is a further subnet whose association is guarded.
type GuardedSubnet struct {
	Subnet arm.ID
	Linked []arm.ID // what the subnet must have
}

// Terraform writes the rights as Terraform configuration.
func (r Rights) Terraform() ([]Output, error) {
	l, err := r.check()
	if err != nil {
		return nil, err
	}
	return write("terraform/rights", []string{"main.tf", "variables.tf", "keeper.tf", "outputs.tf"},
		l)
}

// Bicep writes the rights as Bicep.
func (r Rights) Bicep() ([]Output, error) {
	l, err := r.check()
	if err != nil {
		return nil, err
	}
	names := []string{"main.bicep"}
	guarded := len(l.GuardedClusters)
	for _, module := range []struct {
		name   string
		wanted bool
	}{
		{"identity", true}, {"roles", true}, {"cluster", guarded > 0}, {"nodes", guarded > 0},
		{"assign-group", guarded+len(l.LinkedGroups) > 0}, {"assign-subnet", guarded+
			len(l.GuardedSubnets) > 0},
		{"assign-table", len(l.Targets) > 0}, {"assign-cluster", len(l.NodesClusters) > 0},
	} {
		if module.wanted {
			names = append(names, "modules/"+module.name+".bicep")
		}
	}
	return write("bicep/rights", names, l)
}

// ARM writes the rights as an ARM template for a subscription: the same roles, names and
// assignments as the Bicep.
func (r Rights) ARM() ([]Output, error) {
	l, err := r.check()
	if err != nil {
		return nil, err
	}
	return write("arm/rights", []string{"main.json"}, l)
}

// rights has the data for the templates.
type rights struct {
	Rights
	Roles []KeeperRole
	// Home is the cluster through which the keeper's pods log in. It is nil if no document has a
	// cluster. Then a person names the issuer, or gives the identity to a machine.
	Home *ManagedCluster
	// Subscription is the subscription of the managed clusters, or of the first document's subnets.
	Subscription string
	// GuardedClusters are the clusters with guarded node subnets. GuardedSubnets and Targets are
	// the resources that the configs name, each once; LinkedGroups are the resource groups of these
	// subnets and of their tables.
	GuardedClusters                       []ManagedCluster
	GuardedSubnets, Targets, LinkedGroups []arm.ID
	// NodesClusters are the clusters whose nodes are read.
	NodesClusters []arm.ID
	// Subscriptions are the GUIDs of the subscriptions of all these resources.
	Subscriptions []string
}

// check refuses what could not be applied, and collects the resources that the configs name.
func (r Rights) check() (rights, error) {
	l := rights{Rights: r, Roles: KeeperRoles()}
	switch {
	case !nameShape().MatchString(r.Name):
		return l, fmt.Errorf("%q is not a valid name, expected up to 30 lower-case letters, "+
			"digits and hyphens", r.Name)
	case !locationShape().MatchString(r.Location):
		return l, fmt.Errorf("%q is not a location, expected one such as westeurope", r.Location)
	case r.Provider != 4 && r.Provider != 5:
		return l, unknownProvider(r.Provider)
	case len(r.Clusters) == 0:
		return l, fmt.Errorf("the config has no documents")
	}
	last := map[bool]int{true: 1} // the first cluster is the keeper's home
	l.Clusters = slices.SortedStableFunc(slices.Values(r.Clusters), func(a, b ManagedCluster) int {
		return last[a.None] - last[b.None]
	})
	if first := l.Clusters[0]; !first.None {
		l.Home = &first
	}
	note := func(list *[]arm.ID, id arm.ID) {
		if s := strings.ToLower(id.Subscription()); !slices.Contains(l.Subscriptions, s) {
			l.Subscriptions = append(l.Subscriptions, s)
		}
		if !slices.ContainsFunc(*list, id.Equal) {
			*list = append(*list, id)
		}
	}
	var read []arm.ID
	for _, k := range l.Clusters {
		subscription := strings.ToLower(k.Cluster.Subscription())
		if k.None && l.Subscription != "" { // it may be in another subscription, like a hub
			subscription = l.Subscription
		}
		if l.Subscription != "" && l.Subscription != subscription {
			return l, fmt.Errorf("the clusters are in the subscriptions %s and %s: expected "+
				"configs for one subscription, and separate code for each", l.Subscription,
				subscription)
		}
		l.Subscription = subscription
		note(&read, k.Cluster)
		if k.Firewall != "" {
			note(&read, k.Firewall)
		}
		if k.FromNodes {
			note(&l.NodesClusters, k.Cluster)
		}
		if k.Guarded && !k.None {
			l.GuardedClusters = append(l.GuardedClusters, k)
			if k.Table != "" {
				note(&l.LinkedGroups, k.Table.Group())
			}
		}
		for _, s := range k.Subnets {
			note(&l.GuardedSubnets, s.Subnet)
			note(&l.LinkedGroups, s.Subnet.Group())
			for _, id := range s.Linked {
				note(&l.LinkedGroups, id.Group())
			}
		}
		for _, id := range k.Targets {
			note(&l.Targets, id)
		}
	}
	if len(l.NodesClusters) > 0 {
		l.Roles = append(l.Roles, CredentialsRole())
	}
	slices.Sort(l.Subscriptions)
	return l, nil
}
