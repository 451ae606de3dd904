package trace

import (
	"net/netip"
	"slices"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// trafficControllers is the delegation of the subnet of Application Gateway for Containers.
const trafficControllers = "Microsoft.ServiceNetworking/trafficControllers"

// learnsOverlay says whether packets from an address reach overlay pods without routes. They do
// from the cluster's nodes, and from the subnet of the Application Gateway that its ingress
// controller configures (application-gateway-ingress-controller-overview,
// for-containers/container-networking). The cluster's document names the gateway only if the
// controller is an add-on.
func (t *Tracer) learnsOverlay(a netip.Addr, subnet *inventory.Subnet,
	c *inventory.Cluster) answer {
	for _, n := range t.nodesAt(a, subnet) {
		if n.Cluster.Equal(c.ID) {
			return yes
		}
	}
	switch {
	case c.Ingress != "" && slices.ContainsFunc(subnet.Gateways, c.Ingress.Equal):
		return yes
	case len(subnet.Gateways) > 0 || subnet.DelegatedTo(trafficControllers):
		return perhaps
	}
	return no
}

// routed reports whether a user-defined route leads to the pod.
func (t *Tracer) routed(subnet *inventory.Subnet, to netip.Addr) bool {
	routes, err := t.routesOf(subnet.ID)
	if err != nil {
		return false
	}
	route, found := routes.Lookup(to)
	return found && route.Source == User
}

// throughOverlay returns the path to an overlay pod. Azure delivers the packet to the pod's node
// without using a route table, and without encapsulation. So network security groups see the pods'
// addresses (azure-cni-overlay: network security groups).
func (j *journey) throughOverlay(at netip.Addr, subnet *inventory.Subnet,
	c *inventory.Cluster) Way {
	j.step(at, "* in "+subnet.ID.Short(), "the overlay of cluster %s delivers it, whatever the "+
		"routes are", c.ID.Name())
	if why := j.gate(at, subnet, false, true); why != "" {
		return j.end(Dropped, "%s", why)
	}
	nodes := j.nodesOf(j.way.To, c.ID)
	if len(nodes) == 0 || nodes[0].subnet == nil {
		return j.end(Unknown, "it is unknown which node of cluster %s has the pod %s: only "+
			"Kubernetes knows it", c.ID.Name(), j.called(j.way.To))
	}
	j.step(nodes[0].Addr, "node "+nodes[0].String(), "delivers it to the pod %s", j.way.To)
	if why := j.gate(nodes[0].Addr, nodes[0].subnet, true, true); why != "" {
		return j.end(Dropped, "%s", why)
	}
	return j.end(Delivered, "the pod is on this node, and the overlay knows it")
}
