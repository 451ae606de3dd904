package egress

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// subject is a cluster behind an appliance, with the properties that decide what it needs.
type subject struct {
	*inventory.Cluster
	cloud cloud
	// pods has the pods of kube-system; nil if they were not read.
	pods []inventory.Pod
	// extensions has the cluster's extensions; known is false if they were not read.
	extensions []*inventory.Extension
	known      bool
	// dns has the network's own DNS servers that packets reach through the appliance. learned is
	// set if a route that a gateway has learned may lead elsewhere.
	dns     []netip.Addr
	learned bool
	// addresses has the addresses of the API server, if its name was resolved.
	addresses []netip.Addr
}

// need says whether a destination is needed: no, yes, or under a condition that cannot be read.
type need string

const (
	no  need = "-"
	yes need = ""
)

func subjectOf(s *inventory.Snapshot, read *inventory.Egress, c *inventory.Cluster, hop netip.Addr,
	behind []*inventory.Subnet) *subject {
	about := &subject{Cluster: c, cloud: cloudOf(c)}
	about.extensions, about.known = read.ExtensionsFor(c.ID)
	if k := s.Kubernetes[c.ID.Key()]; k != nil {
		for _, pod := range k.Pods {
			if pod.Namespace == "kube-system" {
				about.pods = append(about.pods, pod)
			}
		}
	}
	for _, subnet := range behind {
		vnet := s.VNets[subnet.ID.Parent().Key()]
		if vnet == nil {
			continue
		}
		table := s.Table(subnet.RouteTable)
		for _, server := range vnet.DNS {
			if server != hop && !slices.Contains(about.dns, server) &&
				viaDefault(vnet, table, server) {
				about.dns = append(about.dns, server)
			}
		}
		gateway := slices.ContainsFunc(vnet.Peerings, func(p inventory.Peering) bool {
			return p.RemoteGateways
		}) || s.Subnet(vnet.ID.Child("subnets", "GatewaySubnet")) != nil
		about.learned = about.learned || gateway && !table.NoLearned
	}
	return about
}

// viaDefault reports whether packets to an address take the default route: no prefix of the network
// or of a peered one, and no other route, includes it.
func viaDefault(vnet *inventory.VNet, table *inventory.RouteTable, to netip.Addr) bool {
	near := slices.Clone(vnet.Prefixes)
	for _, p := range vnet.Peerings {
		if p.Connected {
			near = append(near, p.Prefixes...)
		}
	}
	for _, r := range table.Routes() {
		if r.Prefix.IsValid() && r.Prefix.Bits() > 1 {
			near = append(near, r.Prefix)
		}
	}
	return !inventory.Within(near, to)
}

// names returns the destinations that the cluster needs, or may need.
func (c *subject) names() []Name {
	all := []Name{}
	add := func(r required) {
		name, has := r.names[c.cloud]
		when := yes
		if r.needed != nil {
			when = r.needed(c)
		}
		if !has || when == no {
			return
		}
		n := Name{Verdict: Ask, If: string(when), tagged: r.tagged, service: r.service,
			region: region(c.Location)}
		n.Port, n.Protocol, _ = strings.Cut(r.port, "/")
		n.Name = strings.ReplaceAll(name, "REGION", n.region)
		if n.Protocol != "" && n.service != "" {
			n.host, n.addresses = c.host(), c.addresses
		}
		if name == "API" {
			n.Name = n.host
		}
		all = append(all, n)
	}
	for _, r := range table {
		add(r)
	}
	for _, server := range c.dns {
		when := yes
		if c.learned {
			when = "no route that a gateway has learned leads to it another way"
		}
		add(required{everywhere(server.String()), "53/UDP", false, "", whenever(when)})
		if when == yes {
			when = "answers do not fit into a UDP packet"
		}
		add(required{everywhere(server.String()), "53/TCP", false, "", whenever(when)})
	}
	return all
}

// notes lists what is missing from names.
func (c *subject) notes() []string {
	if !slices.ContainsFunc(c.extensions, func(x *inventory.Extension) bool {
		return x.Type == kindFlux
	}) {
		return nil
	}
	return []string{"the extension microsoft.flux also needs the hosts of its Git, Helm and " +
		"container sources, which are not compared"}
}

// host returns the name of the API server.
func (c *subject) host() string {
	if len(c.Hosts) == 0 {
		return "the API server"
	}
	return c.Hosts[0]
}

// cloudOf returns the cloud that the names of the API server show.
func cloudOf(c *inventory.Cluster) cloud {
	for _, host := range c.Hosts {
		switch {
		case strings.HasSuffix(host, ".azure.us"):
			return government
		case strings.HasSuffix(host, ".azk8s.cn"):
			return china
		}
	}
	return public
}

// region returns a location in the form that names of endpoints have.
func region(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// only turns a fact into a need.
func only(fact bool) need {
	if fact {
		return yes
	}
	return no
}

// whenever returns a function that always returns the same need. when returns one with a condition.
func whenever(n need) func(*subject) need { return func(*subject) need { return n } }

func when(condition string) func(*subject) need { return whenever(need(condition)) }

// notPrivate returns no if the cluster is private: then the API server has an address in the
// cluster's network.
func notPrivate(c *subject) need { return only(c.PrivateZone == "") }

func windows(c *subject) need {
	return only(slices.ContainsFunc(c.Pools, func(p inventory.Pool) bool { return p.Windows }))
}

// gpu returns yes if a pool has machines of the N series, except NP: these have FPGAs.
func gpu(c *subject) need {
	return only(slices.ContainsFunc(c.Pools, func(p inventory.Pool) bool {
		size := strings.ToLower(p.Size)
		return strings.HasPrefix(size, "standard_n") && !strings.HasPrefix(size, "standard_np")
	}))
}

func defender(c *subject) need { return only(c.Defender) }

func metrics(c *subject) need { return only(c.Metrics) }

func cost(c *subject) need { return only(c.CostAnalysis) }

func addon(name string) func(*subject) need {
	return func(c *subject) need { return only(slices.Contains(c.Addons, name)) }
}

func or(a, b func(*subject) need) func(*subject) need {
	return func(c *subject) need {
		if n := a(c); n != no {
			return n
		}
		return b(c)
	}
}

// extension returns yes if the cluster has an extension of the kind; "" means any extension.
func extension(kind string) func(*subject) need {
	return func(c *subject) need {
		return c.having(func(x *inventory.Extension) bool {
			return kind == "" || x.Type == kind
		}, "the cluster has an extension")
	}
}

func marketplace(c *subject) need {
	return c.having(func(x *inventory.Extension) bool { return x.Marketplace },
		"the cluster has an extension of the marketplace")
}

// backup never returns yes: the page of Azure Backup lists wildcards only, and a narrower rule may
// be enough.
func backup(c *subject) need {
	if extension(kindBackup)(c) != yes {
		return no
	}
	return "Azure Backup has no narrower rules for what it uses: its page lists this name"
}

func (c *subject) having(is func(*inventory.Extension) bool, unknown need) need {
	if slices.ContainsFunc(c.extensions, is) {
		return yes
	}
	if c.known {
		return no
	}
	return unknown
}

// tunnel returns no if the cluster is private or has the konnectivity agent. AKS's page says so for
// the public cloud. For the other clouds it lists the rule without a condition, but an agent in the
// cluster is the tunnel there, too.
func tunnel(c *subject) need {
	has := func(names ...string) bool {
		return slices.ContainsFunc(c.pods, func(p inventory.Pod) bool {
			return slices.ContainsFunc(names, func(name string) bool {
				return strings.HasPrefix(p.Name, name+"-")
			})
		})
	}
	switch {
	case c.PrivateZone != "" || has("konnectivity-agent"):
		return no
	case c.cloud != public || has("tunnelfront", "aks-link"):
		return yes
	}
	return "kube-system has no pods konnectivity-agent-…, which are its tunnel"
}

// ntp returns yes. In the public cloud it returns a condition: nodes from before March 2021.
func ntp(c *subject) need {
	if c.cloud == public {
		return "nodes are from before March 2021"
	}
	return yes
}

// direct returns a condition: pods call the API server by its address. AKS's own pods use its name.
func direct(c *subject) need {
	if notPrivate(c) == no || len(c.Hosts) == 0 {
		return no
	}
	return "pods other than AKS's call the API server without the annotation " +
		"kubernetes.azure.com/set-kube-service-host-fqdn"
}
