package inventory

import (
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Balancer is a load balancer, as far as routes can lead to it.
type Balancer struct {
	arm.Document
	Frontends []Frontend // those with an address in a subnet
}

// Frontend is an internal front end of a load balancer.
type Frontend struct {
	Name    string
	Address netip.Addr // zero if the document does not say it
	Subnet  arm.ID
	// Forwards is set if a rule balances all protocols and ports (HA ports). Then all packets that
	// a route leads to the front end reach the backends (load-balancer-ha-ports-overview).
	Forwards bool
	// Backends are the IP configurations in the pools of its rules, and Others the backends that a
	// pool names by their addresses.
	Backends []arm.ID
	Others   []netip.Addr
	// Empty is set if no pool of its rules has a backend.
	Empty bool
}

type balancerPool struct {
	Name       string `json:"name"`
	Properties struct {
		Members   []arm.Ref `json:"backendIPConfigurations"`
		Addresses []struct {
			Properties struct {
				Address string   `json:"ipAddress"`
				Member  *arm.Ref `json:"networkInterfaceIPConfiguration"`
			} `json:"properties"`
		} `json:"loadBalancerBackendAddresses"`
	} `json:"properties"`
}

type balancerRule struct {
	Properties struct {
		Frontend *arm.Ref  `json:"frontendIPConfiguration"`
		Pool     *arm.Ref  `json:"backendAddressPool"`
		Pools    []arm.Ref `json:"backendAddressPools"`
		Protocol string    `json:"protocol"`
	} `json:"properties"`
}

// belongsTo reports whether the rule belongs to the front end.
func (r balancerRule) belongsTo(frontend arm.ID) bool {
	return r.Properties.Frontend.Target().Equal(frontend)
}

// DecodeBalancer reads a load balancer.
func DecodeBalancer(raw []byte) (*Balancer, error) {
	var p struct {
		Frontends []struct {
			Name       string `json:"name"`
			Properties struct {
				Address string   `json:"privateIPAddress"`
				Subnet  *arm.Ref `json:"subnet"`
			} `json:"properties"`
		} `json:"frontendIPConfigurations"`
		Pools []balancerPool `json:"backendAddressPools"`
		Rules []balancerRule `json:"loadBalancingRules"`
		NAT   []balancerRule `json:"inboundNatRules"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeLoadBalancer)
	if err != nil {
		return nil, err
	}
	b := &Balancer{Document: document}
	for _, c := range p.Frontends {
		f := Frontend{Name: c.Name, Subnet: c.Properties.Subnet.Target()}
		if f.Subnet == "" { // a public one
			continue
		}
		f.Address, _ = netip.ParseAddr(c.Properties.Address)
		id := document.ID.Child("frontendIPConfigurations", c.Name)
		rules := slices.DeleteFunc(slices.Clone(p.Rules), func(r balancerRule) bool {
			return !r.belongsTo(id)
		})
		all := slices.DeleteFunc(slices.Clone(rules), func(r balancerRule) bool {
			return !strings.EqualFold(r.Properties.Protocol, "All")
		})
		if f.Forwards = len(all) > 0; f.Forwards {
			rules = all
		}
		for _, pool := range p.Pools {
			f.addBackends(rules, pool, document.ID.Child("backendAddressPools", pool.Name))
		}
		f.Backends = SortIDs(f.Backends)
		f.Empty = len(rules) > 0 && len(f.Backends)+len(f.Others) == 0 &&
			!slices.ContainsFunc(p.NAT, func(r balancerRule) bool { return r.belongsTo(id) })
		b.Frontends = append(b.Frontends, f)
	}
	return b, nil
}

// addBackends adds the backends in a pool if one of the rules names it. A pool lists a network
// interface's configuration twice.
func (f *Frontend) addBackends(rules []balancerRule, pool balancerPool, id arm.ID) {
	if !slices.ContainsFunc(rules, func(r balancerRule) bool {
		return slices.ContainsFunc(append(refIDs(r.Properties.Pools), r.Properties.Pool.Target()),
			id.Equal)
	}) {
		return
	}
	f.Backends = append(f.Backends, refIDs(pool.Properties.Members)...)
	for _, a := range pool.Properties.Addresses {
		if member := a.Properties.Member.Target(); member != "" {
			f.Backends = append(f.Backends, member)
		} else if at, err := netip.ParseAddr(a.Properties.Address); err == nil {
			f.Others = append(f.Others, at)
		}
	}
}

// FrontendAt returns the front end that has an address in a subnet, and its load balancer, or nil
// if it was not read.
func (s *Snapshot) FrontendAt(a netip.Addr, subnet *Subnet) (*Balancer, *Frontend) {
	for _, b := range s.Balancers {
		for i := range b.Frontends {
			if f := &b.Frontends[i]; f.Address == a && f.Subnet.Equal(subnet.ID) {
				return b, f
			}
		}
	}
	return nil, nil
}

// knows reports whether the load balancer's document says the address of a front end.
func (b *Balancer) knows(frontend arm.ID) bool {
	return slices.ContainsFunc(b.Frontends, func(f Frontend) bool {
		return strings.EqualFold(f.Name, frontend.Name()) && f.Address.IsValid()
	})
}
