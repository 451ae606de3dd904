package inventory

import (
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Appliance is a resource that spec.egress can name as the next hop of its routes: an Azure
// Firewall, or all or one of the internal front ends of a load balancer.
type Appliance struct {
	Name string // such as "firewall hub", as Azure spells it
	// Hops are the addresses to which routes can lead. Unclear has the addresses of front ends
	// without HA ports, and Empty those of front ends without backends.
	Hops, Unclear, Empty []netip.Addr
	// Unknown is set if the document of a front end lacks its address.
	Unknown bool
	// Lacks names what an appliance without an address lacks, and Fix says how to repair it.
	Lacks, Fix string
}

// ApplianceOf returns the resource whose document shows an appliance, and the name of its kind.
func ApplianceOf(id arm.ID) (resource arm.ID, kind string) {
	switch {
	case id.Is(arm.TypeFrontend):
		return id.Parent(), "load balancer"
	case id.Is(arm.TypeLoadBalancer):
		return id, "load balancer"
	}
	return id, "firewall"
}

// AddAppliance adds the documents to read for an appliance.
func (w *Wanted) AddAppliance(id arm.ID) {
	if resource, _ := ApplianceOf(id); resource.Is(arm.TypeLoadBalancer) {
		w.Balancers = append(w.Balancers, resource)
	} else if id != "" {
		w.Firewalls = append(w.Firewalls, id)
	}
}

// Appliance returns what was read of an appliance, nil if it was not.
func (s *Snapshot) Appliance(id arm.ID) *Appliance {
	resource, kind := ApplianceOf(id)
	if f := s.Firewalls[id.Key()]; f != nil {
		return &Appliance{Name: kind + " " + f.ID.Short(), Hops: f.Addresses,
			Lacks: "address: it is deallocated", Fix: "start the firewall"}
	}
	b := s.Balancers[resource.Key()]
	if b == nil {
		return nil
	}
	a := &Appliance{Name: kind + " " + b.ID.Short(), Lacks: "internal front end",
		Fix: "create the front end again"}
	one := id.Is(arm.TypeFrontend)
	if one {
		a.Lacks += " " + id.Name()
	}
	for _, f := range b.Frontends {
		if one && !strings.EqualFold(f.Name, id.Name()) {
			continue
		}
		switch {
		case !f.Address.IsValid():
			a.Unknown = true
		case f.Empty:
			a.Empty = append(a.Empty, f.Address)
		case f.Forwards:
			a.Hops = append(a.Hops, f.Address)
		default:
			a.Unclear = append(a.Unclear, f.Address)
		}
		if one {
			a.Name = "front end " + f.Name + " of " + a.Name
		}
	}
	return a
}
