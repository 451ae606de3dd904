// Package egress compares what a firewall allows with what AKS requires of a cluster's egress.
//
// How it works. The nodes' default route leads to an appliance. If the appliance is an Azure
// Firewall whose rules were read, this package looks up every destination in the table of
// required.go in these rules, in the order in which the firewall processes them
// (inventory.Egress.RulesOf). The first rule that matches decides. If no rule matches, the
// destination is denied. For any other appliance, the result is a list of destinations to allow.
//
// For some destinations it is unknown whether the cluster needs them. For others it is unknown
// whether a rule with addresses has the right ones, unless the caller resolved the API server's
// name. These have the verdict Check: they are shown with the reason, without a claim.
package egress

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Verdict is what happens to packets to a destination.
type Verdict string

// The verdicts.
const (
	Allowed Verdict = "allowed"
	Denied  Verdict = "denied"  // a rule denies it
	Missing Verdict = "missing" // no rule matches
	Check   Verdict = "check"   // as far as is known not allowed, but maybe not needed
	Ask     Verdict = "ask"     // the rules are unknown
)

// Name is a destination that nodes must reach.
type Name struct {
	// Name is a name such as mcr.microsoft.com, a service tag or an address.
	Name string `json:"name"`
	Port string `json:"port"`
	// Protocol is TCP or UDP if only a network rule can allow it, or "" for HTTP and HTTPS.
	Protocol string  `json:"protocol,omitempty"`
	Verdict  Verdict `json:"verdict"`
	// Rule is the rule that decides, or "".
	Rule string `json:"rule,omitempty"`
	// If says when the destination is needed, or is "" if it always is. Why says what is uncertain
	// about the verdict Check.
	If  string `json:"if,omitempty"`
	Why string `json:"why,omitempty"`

	tagged bool
	// a service tag that may replace it in a network rule, with or without the region
	service string
	region  string
	// host is the name of the API server, if the destination is the API server or the tunnel from
	// it. A network rule may have the name, or its addresses, which ARM does not show. addresses
	// are these, if they were resolved.
	host      string
	addresses []netip.Addr
}

// Endpoint returns the destination with its port, such as mcr.microsoft.com:443 or 10.0.0.4:53/udp.
func (n Name) Endpoint() string {
	if n.Protocol == "" {
		return n.Name + ":" + n.Port
	}
	return n.Name + ":" + n.Port + "/" + strings.ToLower(n.Protocol)
}

// Exit is the appliance to which the default route of a cluster's nodes leads.
type Exit struct {
	Cluster arm.ID     `json:"cluster"`
	Hop     netip.Addr `json:"hop"`
	// Firewall is "" if the appliance is no Azure Firewall or was not read.
	Firewall arm.ID `json:"firewall,omitempty"`
	Names    []Name `json:"names"`
	// Notes lists what was not compared.
	Notes []string `json:"notes"`
	// Partly is set if some rules could not be read.
	Partly bool                `json:"partly,omitempty"`
	Next   finding.CommandLine `json:"-"`
	AsOf   string              `json:"asOf"`
}

// Lacking returns the destinations that are not allowed.
func (e Exit) Lacking() (names []Name) {
	for _, n := range e.Names {
		if n.Verdict != Allowed && n.Verdict != Check {
			names = append(names, n)
		}
	}
	return names
}

// Of compares every appliance to which the default routes of a cluster's node subnets lead, in the
// order of the subnets.
func Of(s *inventory.Snapshot, c *inventory.Cluster) []Exit {
	var hops []netip.Addr
	behind := map[netip.Addr][]*inventory.Subnet{}
	for _, id := range s.NodeSubnetIDs(c) {
		subnet := s.Subnet(id)
		if subnet == nil || s.Table(subnet.RouteTable) == nil {
			continue
		}
		for _, r := range s.Table(subnet.RouteTable).Default() {
			if r.HopType != inventory.HopAppliance {
				continue
			}
			if behind[r.Hop] == nil {
				hops = append(hops, r.Hop)
			}
			if !slices.Contains(behind[r.Hop], subnet) {
				behind[r.Hop] = append(behind[r.Hop], subnet)
			}
		}
	}
	var exits []Exit
	for _, hop := range hops {
		exits = append(exits, compareAt(s, c, hop, behind[hop]))
	}
	return exits
}

// compareAt compares one appliance. behind has the node subnets whose default route leads to it.
func compareAt(s *inventory.Snapshot, c *inventory.Cluster, hop netip.Addr,
	behind []*inventory.Subnet) Exit {
	exit := Exit{Cluster: c.ID, Hop: hop, AsOf: AsOf, Names: []Name{}, Notes: []string{}}
	read := s.Egress
	if read == nil {
		read = &inventory.Egress{}
	}
	var firewall *inventory.Firewall
	for _, key := range slices.Sorted(maps.Keys(s.Firewalls)) {
		if slices.Contains(s.Firewalls[key].Addresses, hop) {
			firewall = s.Firewalls[key]
		}
	}
	about := subjectOf(s, read, c, hop, behind)
	about.addresses = read.Addresses[about.host()]
	exit.Names = about.names()
	if why := read.Unresolved[about.host()]; why != "" {
		exit.Notes = append(exit.Notes, "the addresses of "+about.host()+" are not known: "+why)
	}
	exit.Notes = append(exit.Notes, about.notes()...)
	var nodes []netip.Prefix
	for _, subnet := range behind {
		for _, p := range subnet.Prefixes {
			if !slices.Contains(nodes, p) {
				nodes = append(nodes, p)
			}
		}
	}
	if firewall == nil {
		for _, key := range slices.Sorted(maps.Keys(read.Unread)) {
			if strings.HasSuffix(key, "/"+strings.ToLower(arm.TypeFirewall)) {
				exit.Notes = append(exit.Notes, "the Azure Firewalls could not be listed: "+
					read.Unread[key])
			}
		}
		return exit
	}
	exit.Firewall = firewall.ID
	rules, unread := read.RulesOf(firewall)
	for i := range exit.Names {
		exit.Names[i].judge(rules, nodes)
	}
	if unread != "" {
		exit.Partly = true
		exit.Notes = append(exit.Notes, "not all rules could be read: "+unread)
	}
	if lacking := exit.Lacking(); len(lacking) > 0 {
		exit.Next = addRule(firewall, lacking, nodes, about.cloud)
	}
	return exit
}

func (n *Name) allowed(rules []inventory.FirewallRule, nodes []netip.Prefix) bool {
	verdict, _ := decide(rules, *n, nodes)
	return verdict == Allowed
}

// currentAddresses returns the present addresses of the API server.
func (n *Name) currentAddresses() string {
	var all []string
	for _, a := range n.addresses {
		all = append(all, a.String())
	}
	return fmt.Sprintf("%s is at %s now", n.host, strings.Join(all, ", "))
}

// judge looks a destination up in the rules.
func (n *Name) judge(rules []inventory.FirewallRule, nodes []netip.Prefix) {
	n.Verdict, n.Rule = decide(rules, *n, nodes)
	switch {
	case n.Verdict == Check:
		n.Why = "check that the rule's addresses are those of " + n.host +
			" (--resolve looks them up)"
	case len(n.addresses) > 0 && n.Verdict == Allowed:
		other := *n
		if other.addresses = nil; !other.allowed(rules, nodes) {
			n.Why = n.currentAddresses() +
				"; a rule for the name or the service tag would follow a change"
		}
	case len(n.addresses) > 0 && n.If != "":
		n.Verdict, n.Why = Check, "needed if "+n.If+"; "+n.currentAddresses()
	case n.Verdict != Allowed && n.If != "":
		n.Verdict, n.Why = Check, "needed if "+n.If
	}
}
