package egress

import (
	"net/netip"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// addRule returns the command that adds a rule for missing destinations. A rule has either names,
// or tags, or addresses with a protocol. The next check shows the remaining destinations. A rule
// that denies is processed first unless the new rule has a lower priority number.
func addRule(firewall *inventory.Firewall, lacking []Name, nodes []netip.Prefix,
	where cloud) finding.CommandLine {
	var names, sources []string
	tagged := false
	for _, n := range lacking {
		switch {
		case n.Protocol != "":
		case n.tagged && where == public:
			tagged = true
		default:
			names = append(names, n.Name)
		}
	}
	for _, prefix := range nodes {
		sources = append(sources, prefix.String())
	}
	kind, verb := "ApplicationRule", "application-rule"
	what := finding.Command("--protocols Http=80 Https=443 --target-fqdns %s", names)
	switch {
	case tagged:
		what = finding.Command("--protocols Http=80 Https=443 --fqdn-tags AzureKubernetesService")
	case len(names) == 0:
		kind, verb = "NetworkRule", "network-rule"
		what = networkRule(lacking, firewall.Policy != "")
	}
	if firewall.Policy != "" {
		return finding.Command("az network firewall policy rule-collection-group collection "+
			"add-filter-collection --subscription %s --resource-group %s --policy-name %s "+
			"--rule-collection-group-name GROUP --name aks-egress --collection-priority PRIORITY "+
			"--action Allow --rule-type %s --rule-name aks --source-addresses %s %s",
			firewall.Policy.Subscription(), firewall.Policy.ResourceGroup(),
			firewall.Policy.Name(), kind, sources, what)
	}
	return finding.Command("az network firewall %s create --subscription %s "+
		"--resource-group %s --firewall-name %s --collection-name aks-egress --name aks "+
		"--priority PRIORITY --action Allow --source-addresses %s %s", verb,
		firewall.ID.Subscription(), firewall.ID.ResourceGroup(), firewall.ID.Name(), sources, what)
}

// networkRule returns the fields of a network rule for the first destination and for similar ones.
func networkRule(lacking []Name, policy bool) finding.CommandLine {
	first := lacking[0]
	var to, ports []string
	for _, n := range lacking {
		if n.Protocol != first.Protocol || n.byName() != first.byName() {
			continue
		}
		if n.Name == first.Name && n.Port != first.Port {
			ports = append(ports, n.Port)
		} else if n.Port == first.Port {
			to = append(to, n.Name)
		}
	}
	ports = append([]string{first.Port}, ports...)
	what := finding.Command("%s --destination-addresses %s --destination-ports %s", first.Protocol,
		to, ports)
	if first.byName() {
		what = finding.Command("%s --destination-fqdns %s --destination-ports %s", first.Protocol,
			to, ports)
	}
	if policy {
		return finding.Command("--ip-protocols %s", what)
	}
	return finding.Command("--protocols %s", what)
}

// byName reports whether a network rule needs a name for the destination, not an address or a
// service tag.
func (n Name) byName() bool {
	_, err := netip.ParseAddr(n.Name)
	return err != nil && n.service == ""
}
