package diagnose

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func windows(c *inventory.Cluster) bool {
	return slices.ContainsFunc(c.Pools, func(p inventory.Pool) bool { return p.Windows })
}

func ifAddon(names ...string) func(*inventory.Cluster) bool {
	return func(c *inventory.Cluster) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return slices.Contains(c.Addons, n)
		})
	}
}

// checkFirewalls compares the rules of the Azure Firewall to which the nodes' default route leads
// with what AKS requires. It reports nothing if firewalls were not read, and nothing in other
// clouds than the public one, which have other names.
func checkFirewalls(p *clusterCase) []finding.Finding {
	elsewhere := slices.ContainsFunc(p.cluster.Hosts, func(host string) bool {
		return strings.HasSuffix(host, ".azk8s.cn") || strings.HasSuffix(host, ".azure.us")
	})
	if p.s.Firewalls == nil || elsewhere {
		return nil
	}
	var found []finding.Finding
	told := map[netip.Addr]bool{}
	for _, subnet := range p.subnets {
		table := p.s.Table(subnet.RouteTable)
		if table == nil {
			continue
		}
		for _, r := range defaultRoutes(table) {
			if r.HopType != inventory.HopAppliance || told[r.Hop] {
				continue
			}
			told[r.Hop] = true
			found = append(found, p.behind(r.Hop)...)
		}
	}
	return found
}

// behind compares what the appliance at an address allows with what the cluster needs.
func (p *clusterCase) behind(hop netip.Addr) []finding.Finding {
	var firewall *inventory.Firewall
	for _, key := range slices.Sorted(maps.Keys(p.s.Firewalls)) {
		if slices.Contains(p.s.Firewalls[key].Addresses, hop) {
			firewall = p.s.Firewalls[key]
		}
	}
	var missing []endpoint
	var lines []string
	for _, e := range endpoints {
		if e.needed != nil && !e.needed(p.cluster) {
			continue
		}
		e.name = strings.ReplaceAll(e.name, "REGION", region(p.cluster.Location))
		if firewall == nil || !p.allows(firewall, e) {
			missing, lines = append(missing, e), append(lines, e.name+":"+e.port)
		}
	}
	switch {
	case firewall == nil:
		return []finding.Finding{p.found(finding.EgressFirewallUnknown, p.cluster.ID,
			"the egress of cluster %s leads to %s, which is no Azure Firewall that was read: "+
				"check that it allows what AKS requires", p.cluster.ID.Short(), hop).
			About(hop.String()).With(lines...).With("as of " + outboundAsOf)}
	case len(missing) == 0:
		return nil
	}
	f := p.found(finding.EgressRulesMissing, firewall.ID,
		"firewall %s has no rule that allows the nodes of cluster %s %s that AKS requires",
		firewall.ID.Short(), p.cluster.ID.Short(), count(len(missing), "name", "names")).
		With(lines...).With("as of " + outboundAsOf)
	if firewall.Unread != "" {
		f.Severity = finding.Info
		f = f.With("not all rules could be read: " + firewall.Unread)
	}
	return []finding.Finding{f.WithFix("%s", p.addRule(firewall, missing))}
}

// region is a location as names of endpoints have it.
func region(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// allows reports whether a rule lets the nodes reach an endpoint. The order of rules does not
// count, and rules that deny do not either: a firewall denies what no rule allows.
func (p *clusterCase) allows(firewall *inventory.Firewall, e endpoint) bool {
	return slices.ContainsFunc(firewall.Rules, func(r inventory.FirewallRule) bool {
		if !p.appliesTo(r) {
			return false
		}
		if e.tagged && slices.ContainsFunc(r.Tags, func(tag string) bool {
			return strings.EqualFold(tag, "AzureKubernetesService")
		}) {
			return true
		}
		if !slices.ContainsFunc(r.Ports, func(ports string) bool {
			return hasPort(ports, e.port)
		}) {
			return false
		}
		anywhere := !r.Application && slices.ContainsFunc(r.Destinations, func(to string) bool {
			return to == "*" || to == "0.0.0.0/0"
		}) && slices.ContainsFunc(r.Protocols, func(protocol string) bool {
			return strings.EqualFold(protocol, "TCP") || strings.EqualFold(protocol, "Any")
		})
		return anywhere || slices.ContainsFunc(r.FQDNs, func(name string) bool {
			return covers(name, e.name)
		})
	})
}

// appliesTo reports whether a rule's sources include the nodes. Sources that an IP group names are
// unknown, and count.
func (p *clusterCase) appliesTo(r inventory.FirewallRule) bool {
	return len(r.Sources) == 0 || slices.ContainsFunc(r.Sources, func(source string) bool {
		if source == "*" {
			return true
		}
		prefix, err := netip.ParsePrefix(source)
		if err != nil {
			return false
		}
		return slices.ContainsFunc(p.prefixes, func(nodes netip.Prefix) bool {
			return prefix.Bits() <= nodes.Bits() && prefix.Contains(nodes.Addr())
		})
	})
}

// hasPort reports whether ports such as 443, 400-500 or * include a port.
func hasPort(ports, port string) bool {
	low, high, isRange := strings.Cut(ports, "-")
	var from, to, want int
	if _, err := fmt.Sscan(port, &want); err != nil || ports == "*" {
		return ports == "*"
	}
	if !isRange {
		high = low
	}
	_, err := fmt.Sscan(low, &from)
	_, err2 := fmt.Sscan(high, &to)
	return err == nil && err2 == nil && from <= want && want <= to
}

// covers reports whether a rule's name allows all of a required one, which may begin with a star.
func covers(rule, required string) bool {
	suffix, wild := strings.CutPrefix(strings.ToLower(rule), "*")
	required = strings.ToLower(required)
	if !wild {
		return suffix == required
	}
	return strings.HasSuffix(strings.TrimPrefix(required, "*"), suffix)
}

// addRule is the command that adds a rule for the missing names.
func (p *clusterCase) addRule(firewall *inventory.Firewall,
	missing []endpoint) finding.CommandLine {
	var names []string
	tagged := false
	for _, e := range missing {
		if tagged = tagged || e.tagged; !e.tagged {
			names = append(names, e.name)
		}
	}
	var sources []string
	for _, prefix := range p.prefixes {
		sources = append(sources, prefix.String())
	}
	what := finding.Command("--target-fqdns %s", names)
	if tagged { // one rule has either names or tags; the check shows the names next time
		what = finding.Command("--fqdn-tags AzureKubernetesService")
	}
	if firewall.Policy != "" {
		return finding.Command("az network firewall policy rule-collection-group collection "+
			"add-filter-collection --subscription %s --resource-group %s --policy-name %s "+
			"--rule-collection-group-name GROUP --name aks-egress --collection-priority PRIORITY "+
			"--action Allow --rule-type ApplicationRule --rule-name aks --source-addresses %s "+
			"--protocols Http=80 Https=443 %s", firewall.Policy.Subscription(),
			firewall.Policy.ResourceGroup(), firewall.Policy.Name(), sources, what)
	}
	return finding.Command("az network firewall application-rule create --subscription %s "+
		"--resource-group %s --firewall-name %s --collection-name aks-egress --name aks "+
		"--priority PRIORITY --action Allow --source-addresses %s "+
		"--protocols Http=80 Https=443 %s", firewall.ID.Subscription(),
		firewall.ID.ResourceGroup(), firewall.ID.Name(), sources, what)
}
