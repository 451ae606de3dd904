package trace

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works: a route can lead to the internal front end of a load balancer with two or more
// appliances behind it. With a rule for all protocols and ports (HA ports), the load balancer sends
// each packet unchanged to one backend. So the backend's network interface must forward packets.
// Security groups check the packet there, and not at the front end. The health probes' results are
// not read.

// backend is a backend of a front end. subnet is nil if it was not read.
type backend struct {
	addr   netip.Addr
	subnet *inventory.Subnet
}

// backends returns the backends of a front end, and the IDs of network interfaces that were not
// read. near is the front end's subnet. All backends are in its network.
func (t *Tracer) backends(f *inventory.Frontend, near *inventory.Subnet) (all []backend,
	unread []arm.ID) {
	for _, id := range f.Backends {
		nic := t.s.Interfaces[id.Parent().Key()]
		if nic == nil {
			unread = append(unread, id.Parent())
			continue
		}
		for _, c := range nic.Configs {
			if strings.EqualFold(c.Name, id.Name()) && c.Address.IsValid() {
				all = append(all, backend{c.Address, t.s.Subnet(c.Subnet)})
			}
		}
	}
	for _, a := range f.Others {
		b := backend{addr: a}
		for _, subnet := range t.subnetsOf(a) {
			if subnet.ID.Parent().Equal(near.ID.Parent()) {
				b.subnet = subnet
			}
		}
		all = append(all, b)
	}
	return all, unread
}

// balance follows a packet from a subnet to the front end of a load balancer, and to its backends.
func (j *journey) balance(from, near *inventory.Subnet, b *inventory.Balancer,
	f *inventory.Frontend) Way {
	name := "load balancer " + b.ID.Name()
	j.step(f.Address, "* in "+near.ID.Short(), "%s takes it with its front end %s", name, f.Name)
	switch {
	case f.Empty:
		return j.end(Dropped, "%s, which has %s, has no backend", name, j.calledHop(f.Address))
	case !f.Forwards:
		return j.end(Unknown, "%s has %s, without a rule for all protocols and ports (HA ports): "+
			"it is not documented what it forwards of packets to %s", name, j.calledHop(f.Address),
			j.called(j.way.To))
	}
	all, unread := j.backends(f, near)
	for _, id := range unread {
		j.unseen("the network interface %s, a backend of %s, was not read: its security group "+
			"and IP forwarding are not checked", inventory.HolderName(id), name)
	}
	j.unseen("the health probes of %s: only backends that answer them get packets", name)
	var denied []string
	before, maybe := j.doubt, ""
	passes := len(unread) > 0
	for _, to := range all {
		if to.subnet == nil {
			j.unseen("the subnet of %s, a backend of %s, was not read", to.addr, name)
			passes = true
			continue
		}
		j.step(to.addr, "* in "+to.subnet.ID.Short(), "is a backend of %s", name)
		j.doubt = ""
		if why := j.enter(from, to.subnet, to.addr); why != "" {
			j.last.What += ", and does not get it"
			denied = append(denied, why)
		} else {
			passes, maybe = true, cmp.Or(maybe, j.doubt)
		}
	}
	j.doubt = cmp.Or(before, maybe)
	slices.Sort(denied)
	why := strings.Join(slices.Compact(denied), "; ")
	switch {
	case !passes && why == "":
		return j.end(Unknown, "no backend of %s has an address", name)
	case !passes:
		return j.end(Dropped, "no backend of %s gets it: %s", name, why)
	case why != "":
		j.doubt = cmp.Or(before, fmt.Sprintf("it depends on the backend of %s: %s", name, why))
	}
	return j.end(Leaves, "a backend of %s takes it, and it is unknown where that forwards the "+
		"packet", name)
}

// Lost says more about a next hop that drops a subnet's packets: which load balancer without
// backends has the address, or which firewalls and load balancers in the hop's subnet have other
// addresses, to which routes can lead. others has these addresses. Lost returns "" if nothing more
// is known.
func (t *Tracer) Lost(from arm.ID, hop netip.Addr) (why string, others []netip.Addr) {
	subnet := t.s.Subnet(from)
	if subnet == nil || t.s.VNets[from.Parent().Key()] == nil {
		return "", nil
	}
	near, v := t.nextSubnet(subnet, hop)
	if v != Delivered || near == nil {
		return "", nil
	}
	if b, f := t.s.FrontendAt(hop, near); f != nil {
		return "load balancer " + b.ID.Name() + ", which has it, has no backend", nil
	}
	has := map[netip.Addr]string{}
	for _, b := range t.s.Balancers {
		for _, f := range b.Frontends {
			if f.Subnet.Equal(near.ID) && f.Forwards && !f.Empty && f.Address.IsValid() {
				has[f.Address] = "load balancer " + b.ID.Name()
			}
		}
	}
	for _, f := range t.s.Firewalls {
		for _, a := range f.Addresses {
			if t.s.FirewallAt(a, near) != nil {
				has[a] = "firewall " + f.ID.Name()
			}
		}
	}
	for a := range has {
		others = append(others, a)
	}
	slices.SortFunc(others, netip.Addr.Compare)
	var parts []string
	for _, a := range others {
		parts = append(parts, fmt.Sprintf("%s has %s", has[a], a))
	}
	return strings.Join(parts, ", "), others
}
