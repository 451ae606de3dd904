package trace

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Endpoint is where a packet starts or ends.
type Endpoint struct {
	Addr netip.Addr `json:"address"`
	// A description such as pod shop/web on n1, or "" for a bare address.
	What string `json:"what,omitempty"`
	// Subnet is the subnet of the address, or "" if the address alone decides it. Cluster is the
	// cluster of a pod behind its node. Both distinguish equal addresses in several networks or
	// clusters.
	Subnet  arm.ID `json:"subnet,omitempty"`
	Cluster arm.ID `json:"cluster,omitempty"`
}

// kind is a kind of thing that has a name.
type kind struct {
	word, form string
	named      func(*Tracer) []named
}

var kinds = []kind{
	{"pod", "pod/NAMESPACE/NAME", (*Tracer).podNames},
	{"node", "node/NAME", (*Tracer).nodeNames},
	{"gateway", "gateway/NAME", (*Tracer).gatewayNames},
	{"vm", "vm/NAME", (*Tracer).machineNames},
	{"subnet", "subnet/VNET/SUBNET", (*Tracer).subnetNames},
}

// named is a thing with a name. missing says why it has no address.
type named struct {
	name, place string // place distinguishes equal names
	owner       arm.ID // the cluster of a pod or node
	missing     string
	Endpoint
}

// Resolve finds what a text names: an address, pod/NAMESPACE/NAME or NAMESPACE/NAME, node/NAME,
// vm/NAME, or any address in a subnet: gateway/NAME or subnet/VNET/SUBNET. The error is one line,
// and lists similar names.
func (t *Tracer) Resolve(text string) (Endpoint, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return t.resolveAddr(a.Unmap())
	}
	at, name, err := split(text)
	if err != nil {
		return Endpoint{}, err
	}
	everywhere := kinds[at].named(t)
	var all, found []named
	var names []string
	for _, n := range everywhere {
		if strings.EqualFold(n.name, name) {
			found = append(found, n)
		}
		if len(t.choose([]named{n})) > 0 {
			all, names = append(all, n), append(names, n.name)
		}
	}
	far := found
	found = t.choose(found)
	word := kinds[at].word
	switch {
	case len(all) == 0 && word == "pod":
		why := "which was not read"
		if unseen := t.unseenKubernetes(func(*inventory.Cluster) bool {
			return true
		}); len(unseen) > 0 {
			why += " (" + strings.Join(unseen, "; ") + ")"
		}
		return Endpoint{}, fmt.Errorf("%s: only Kubernetes knows pod names, %s: use the pod's "+
			"address", text, why)
	case len(found) == 0 && len(far) > 0:
		return Endpoint{}, fmt.Errorf("%s is in %s, which is not connected with cluster %s: omit "+
			"--cluster to search everywhere", text, far[0].place, t.view.cluster.ID.Name())
	case len(found) == 0:
		return Endpoint{}, fmt.Errorf("no %s is named %s%s", word, name, Near(name, names))
	case len(found) > 1:
		var places []string
		for _, n := range found {
			places = append(places, n.place)
		}
		return Endpoint{}, fmt.Errorf("several are named %s: in %s: use an address, or choose "+
			"one with --cluster", text, strings.Join(places, ", "))
	case found[0].missing != "":
		return Endpoint{}, fmt.Errorf("%s %s", text, found[0].missing)
	}
	return found[0].Endpoint, nil
}

// Names lists all names that Resolve understands, such as node/NAME.
func (t *Tracer) Names() (names []string) {
	for _, k := range kinds {
		for _, n := range t.choose(k.named(t)) {
			names = append(names, k.word+"/"+n.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheckName says what is wrong with a text that Resolve can never understand.
func CheckName(text string) error {
	if _, err := netip.ParseAddr(text); err == nil {
		return nil
	}
	_, _, err := split(text)
	return err
}

// split returns the index of the kind in a text, and the name.
func split(text string) (at int, name string, err error) {
	word, name, _ := strings.Cut(text, "/")
	at = slices.IndexFunc(kinds, func(k kind) bool { return strings.EqualFold(k.word, word) })
	switch {
	case at < 0 && strings.Count(text, "/") == 1 && word != "" && name != "":
		return 0, text, nil
	case at < 0 || name == "":
		var forms []string
		for _, k := range kinds {
			forms = append(forms, k.form)
		}
		return 0, "", fmt.Errorf("%q is not an address, expected one such as 10.244.0.7, or %s",
			text, strings.Join(forms, ", "))
	}
	return at, name, nil
}

// podNames returns the pods that Kubernetes knows.
func (t *Tracer) podNames() []named {
	var out []named
	for _, key := range slices.Sorted(maps.Keys(t.s.Kubernetes)) {
		cluster := t.s.Clusters[key]
		if cluster == nil {
			continue
		}
		for _, p := range t.s.Kubernetes[key].Pods {
			n := named{name: p.Namespace + "/" + p.Name, place: "cluster " + cluster.ID.Name(),
				owner: cluster.ID}
			n.What = "pod " + n.name
			if p.Node != "" {
				n.What += " on " + p.Node
			}
			switch {
			case p.Ended():
				n.missing = "has finished: it has no address any more"
			case len(p.Addresses) == 0:
				n.missing = "has no address"
			default:
				n.Addr = p.Addresses[0]
				n.Cluster, n.Subnet = t.podPlace(cluster, p)
			}
			out = append(out, n)
		}
	}
	return out
}

// podPlace returns where a pod has its address: behind a node of its cluster, or in a subnet.
func (t *Tracer) podPlace(cluster *inventory.Cluster, p inventory.Pod) (behind, subnet arm.ID) {
	if !p.HostNetwork && contains(cluster.PodCIDRs, p.Addresses[0]) &&
		(cluster.Kubenet() || cluster.Overlay()) {
		return cluster.ID, ""
	}
	if s := subnetOf(t.s, t.clusterSubnets(cluster), p.Addresses[0]); s != nil {
		return "", s.ID
	}
	return "", ""
}

// clusterSubnets returns the subnets of a cluster's nodes and pods.
func (t *Tracer) clusterSubnets(cluster *inventory.Cluster) []arm.ID {
	return append(t.s.NodeSubnetIDs(cluster), cluster.PodSubnets()...)
}

// nodeNames returns the nodes, each once: a dual-stack node with its first address.
func (t *Tracer) nodeNames() []named {
	var out []named
	seen := map[string]bool{}
	for _, node := range t.nodes {
		name := cmp.Or(node.Name, node.Addr.String())
		key := node.Cluster.Key() + " " + name
		if seen[key] {
			continue
		}
		seen[key] = true
		n := named{name: name, place: "cluster " + node.Cluster.Name(), owner: node.Cluster,
			Endpoint: Endpoint{Addr: node.Addr, What: "node " + name}}
		if node.lost {
			n.missing = "is not at the next hop of its route, " + node.Addr.String() +
				": its address is unknown"
		}
		if node.subnet != nil {
			n.Subnet = node.subnet.ID
		}
		out = append(out, n)
	}
	return out
}

// gatewayNames returns the Application Gateways, as their documents or their subnets show them.
func (t *Tracer) gatewayNames() []named {
	var out []named
	seen := map[string]bool{}
	add := func(gateway, subnet arm.ID) {
		if seen[gateway.Key()] {
			return
		}
		seen[gateway.Key()] = true
		n := t.inSubnet(gateway.Name(), "gateway "+gateway.Name(), subnet)
		n.place = gateway.ResourceGroup()
		out = append(out, n)
	}
	for _, key := range slices.Sorted(maps.Keys(t.s.Subnets)) {
		for _, gateway := range t.s.Subnets[key].Gateways {
			add(gateway, t.s.Subnets[key].ID)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(t.s.Gateways)) {
		for _, subnet := range t.s.Gateways[key].Subnets {
			add(t.s.Gateways[key].ID, subnet)
		}
	}
	return out
}

// machineNames returns the virtual machines, by their names and by the names of their interfaces.
func (t *Tracer) machineNames() []named {
	var out []named
	for _, key := range slices.Sorted(maps.Keys(t.s.Interfaces)) {
		nic := t.s.Interfaces[key]
		if len(nic.Configs) == 0 {
			continue
		}
		names := []string{machineName(nic.ID)}
		if nic.Machine.Is(arm.TypeVM) {
			names = append(names, nic.Machine.Name())
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			n := named{name: name, place: nic.ID.ResourceGroup(),
				Endpoint: Endpoint{Addr: nic.Configs[0].Address, What: "vm " + name,
					Subnet: nic.Configs[0].Subnet}}
			if !n.Addr.IsValid() {
				n.missing = "has no address"
			}
			out = append(out, n)
		}
	}
	return out
}

func (t *Tracer) subnetNames() []named {
	var out []named
	for _, key := range slices.Sorted(maps.Keys(t.s.Subnets)) {
		id := t.s.Subnets[key].ID
		out = append(out, t.inSubnet(id.Short(), "subnet "+id.Short(), id))
	}
	return out
}

// inSubnet stands for any address of a subnet. It returns the first one that Azure assigns, after
// the four that it reserves.
func (t *Tracer) inSubnet(name, what string, id arm.ID) named {
	n := named{name: name, place: id.ResourceGroup(), Endpoint: Endpoint{What: what, Subnet: id}}
	subnet := t.s.Subnet(id)
	if subnet == nil || len(subnet.Prefixes) == 0 {
		n.missing = "has a subnet that was not read: " + id.Short()
		return n
	}
	n.Addr = inventory.FirstUsable(subnet.Prefixes[0])
	return n
}

// Near lists up to three similar names, as ": did you mean a, b?", or returns "".
func Near(name string, names []string) string {
	name = strings.ToLower(name)
	far := func(other string) int {
		other = strings.ToLower(other)
		if strings.Contains(other, name) || strings.Contains(name, other) {
			return 0
		}
		return levenshtein.Distance(name, other, nil)
	}
	names = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))),
		func(n string) bool { return far(n) > max(2, len(name)/3) })
	slices.SortStableFunc(names, func(a, b string) int { return far(a) - far(b) })
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(names[:min(3, len(names))], ", ") + "?"
}
