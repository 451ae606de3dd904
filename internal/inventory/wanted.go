package inventory

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Wanted names what to read.
type Wanted struct {
	Clusters []arm.ID
	VNets    []arm.ID // with all their subnets
	Subnets  []arm.ID
	Tables   []arm.ID
	Groups   []arm.ID // network security groups
	// Firewalls are Azure Firewalls, Balancers load balancers.
	Firewalls, Balancers []arm.ID
	// Networks works like VNets, for reads that several callers share. Interfaces may include those
	// of scale sets.
	Networks, Interfaces []arm.ID
	// For these clusters, which must be in the snapshot: node subnets that AKS made, managed
	// tables, the next tables written by the cluster's identity, addresses of the nodes' NICs.
	AKSSubnets []arm.ID
	Managed    []arm.ID
	Written    []arm.ID
	NICs       []arm.ID
	// Writers are resources, whose last writer the activity log may show.
	Writers []arm.ID
}

// Documents returns the resources whose own documents are wanted, each in the way that all readers
// of it share. Strays are of another type than their list has: garbled documents can name any ID.
func (w *Wanted) Documents() (ids, strays []arm.ID) {
	for _, list := range []struct {
		ids  []arm.ID
		kind string
	}{
		{w.Clusters, arm.TypeCluster}, {w.Subnets, arm.TypeSubnet}, {w.Tables, arm.TypeRouteTable},
		{w.Groups, arm.TypeSecurityGroup}, {w.Firewalls, arm.TypeFirewall},
		{w.Balancers, arm.TypeLoadBalancer}, {w.Networks, arm.TypeVNet},
		{w.Interfaces, arm.TypeInterface},
	} {
		for _, id := range list.ids {
			if Kind(id) == list.kind {
				ids = append(ids, id)
			} else {
				strays = append(strays, id)
			}
		}
	}
	return ids, strays
}

// lists returns all lists.
func (w *Wanted) lists() []*[]arm.ID {
	return []*[]arm.ID{&w.Clusters, &w.VNets, &w.Subnets, &w.Tables, &w.Groups, &w.Firewalls,
		&w.Balancers, &w.Networks, &w.Interfaces, &w.AKSSubnets, &w.Managed, &w.Written, &w.NICs,
		&w.Writers}
}

// Empty reports whether nothing is wanted.
func (w Wanted) Empty() bool {
	return !slices.ContainsFunc(w.lists(), func(list *[]arm.ID) bool { return len(*list) > 0 })
}

// Add adds another Wanted.
func (w *Wanted) Add(o Wanted) {
	more := o.lists()
	for i, list := range w.lists() {
		*list = append(*list, *more[i]...)
	}
}
