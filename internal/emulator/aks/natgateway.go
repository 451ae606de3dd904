package aks

import (
	"cmp"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// natGateway returns the NAT gateway that AKS makes with outbound type managedNATGateway. Its name
// is not documented [U].
func (cl *cluster) natGateway() arm.ID {
	return cl.inNodeGroup(arm.TypeNATGateway, "aks-natgateway")
}

// natAddresses returns the public IP addresses of that gateway.
func (cl *cluster) natAddresses(profile kernel.Object) []arm.ID {
	if kernel.Text(profile, "outboundType") != "managedNATGateway" {
		return nil
	}
	return cl.managedAddresses("nat", kernel.NumberOf(profile, "natGatewayProfile",
		"managedOutboundIPProfile", "count"))
}

// updateNATGateway makes the NAT gateway of a cluster and attaches it to AKS's own subnet
// (aks/egress-outboundtype), or removes it from a cluster that has another outbound type.
func (s balancers) updateNATGateway(cl *cluster, profile kernel.Object) *kernel.Failure {
	store, id, ips := s.kernel.Store, cl.natGateway(), cl.natAddresses(profile)
	had := store.Get(id)
	if had == nil && ips == nil {
		return nil
	}
	for _, ip := range ips {
		if f := s.publicIP(cl, ip, cl.tags(), 4); f != nil {
			return f
		}
	}
	if ips != nil {
		idle := kernel.NumberOf(profile, "natGatewayProfile", "idleTimeoutInMinutes")
		if f := s.store(cl, id, kernel.Object{"sku": kernel.Object{"name": "Standard"},
			"properties": kernel.Object{"publicIpAddresses": kernel.Links(ips),
				"idleTimeoutInMinutes": cmp.Or(idle, 4)}}); f != nil {
			return f
		}
	}
	if f := s.attach(cl, id, ips != nil); f != nil || had == nil {
		return f
	}
	if ips == nil {
		delete(cl.written, id.Name())
		if f := s.kernel.RemoveResource(had); f != nil {
			return f
		}
	}
	for _, link := range kernel.ListAt(had.Properties(), "publicIpAddresses") {
		ip := store.Get(arm.ID(kernel.Text(link, "id")))
		if ip == nil || slices.ContainsFunc(ips, ip.ID.Equal) {
			continue
		}
		if f := s.kernel.RemoveResource(ip); f != nil {
			return f
		}
	}
	return nil
}

// attach attaches the NAT gateway to AKS's own subnet, or detaches it.
func (s balancers) attach(cl *cluster, gateway arm.ID, attached bool) *kernel.Failure {
	subnet := s.kernel.Store.Get(cl.OwnSubnet())
	if subnet == nil || kernel.LinkOf(subnet.Body, "natGateway").Equal(gateway) == attached {
		return nil
	}
	body := kernel.Clone(subnet.Body)
	p := kernel.ObjectAt(body, "properties")
	delete(p, "natGateway")
	if attached {
		p["natGateway"] = arm.Link(gateway)
	}
	return s.aksPut(cl, subnet.ID, body)
}
