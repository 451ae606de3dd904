package inventory

import (
	"encoding/json"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Firewall is an Azure Firewall. Egress.RulesOf has all its rules.
type Firewall struct {
	arm.Document
	Addresses []netip.Addr   // private ones, to which routes lead
	Policy    arm.ID         // "" if its rules are its own
	Rules     []FirewallRule // its own
}

// FirewallRule is a network or application rule. Rules that translate addresses are left out.
type FirewallRule struct {
	Name   string
	Denies bool
	// Application rules filter by name, network rules by address.
	Application bool
	Sources     []string // prefixes, addresses, ranges or *
	// SourceGroups are IP groups with more sources.
	SourceGroups []arm.ID
	// DestinationGroups are IP groups with more destinations.
	DestinationGroups []arm.ID
	// AnySource and AnyDestination are set on an allow rule that names an IP group that was not
	// read.
	AnySource, AnyDestination bool
	// Depth is how many policies inherit the rule. Group and Collection are priorities.
	Depth, Group, Collection int
	// FQDNs are names such as *.azmk8s.io, Tags such as AzureKubernetesService.
	FQDNs, Tags []string
	// Destinations and Protocols belong to network rules. Ports, such as 443 or *, belong to both
	// kinds.
	Destinations, Protocols, Ports []string
}

type firewallRule struct {
	Name         string   `json:"name"`
	Kind         string   `json:"ruleType"`
	Sources      []string `json:"sourceAddresses"`
	SourceGroups []arm.ID `json:"sourceIpGroups"`
	FQDNs        []string `json:"targetFqdns"`
	Names        []string `json:"destinationFqdns"`
	Tags         []string `json:"fqdnTags"`
	Destinations []string `json:"destinationAddresses"`
	// DestinationGroups are IP groups.
	DestinationGroups []arm.ID `json:"destinationIpGroups"`
	Ports             []string `json:"destinationPorts"`
	// Protocols are objects in an application rule, and words in a network rule.
	Protocols   []json.RawMessage `json:"protocols"`
	IPProtocols []string          `json:"ipProtocols"`
}

func (r firewallRule) decoded(application, denies bool, collection int) FirewallRule {
	out := FirewallRule{Name: r.Name, Application: application, Denies: denies,
		Collection: collection, Sources: r.Sources, SourceGroups: r.SourceGroups,
		FQDNs: append(r.FQDNs, r.Names...), Tags: r.Tags, Destinations: r.Destinations,
		DestinationGroups: r.DestinationGroups, Protocols: r.IPProtocols, Ports: r.Ports}
	for _, raw := range r.Protocols {
		var word string
		var typed struct {
			Port json.Number `json:"port"`
		}
		if json.Unmarshal(raw, &word) == nil {
			out.Protocols = append(out.Protocols, word)
		} else if json.Unmarshal(raw, &typed) == nil {
			out.Ports = append(out.Ports, typed.Port.String())
		}
	}
	return out
}

type ruleAction struct {
	Type string `json:"type"`
}

// filters reports whether rules with the action allow or deny.
func (a ruleAction) filters() bool { return strings.EqualFold(a.Type, "Allow") || a.denies() }

func (a ruleAction) denies() bool { return strings.EqualFold(a.Type, "Deny") }

type firewallCollection struct {
	Properties struct {
		Priority int            `json:"priority"`
		Action   ruleAction     `json:"action"`
		Rules    []firewallRule `json:"rules"`
	} `json:"properties"`
}

// DecodeFirewall reads an Azure Firewall.
func DecodeFirewall(raw []byte) (*Firewall, error) {
	var p struct {
		IPs []struct {
			Properties struct {
				Address netip.Addr `json:"privateIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
		Hub struct {
			Private netip.Addr `json:"privateIPAddress"`
		} `json:"hubIPAddresses"`
		Policy      *arm.Ref             `json:"firewallPolicy"`
		Application []firewallCollection `json:"applicationRuleCollections"`
		Network     []firewallCollection `json:"networkRuleCollections"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeFirewall)
	if err != nil {
		return nil, err
	}
	f := &Firewall{Document: document, Policy: p.Policy.Target()}
	for _, ip := range p.IPs {
		if ip.Properties.Address.IsValid() {
			f.Addresses = append(f.Addresses, ip.Properties.Address)
		}
	}
	if p.Hub.Private.IsValid() {
		f.Addresses = append(f.Addresses, p.Hub.Private)
	}
	for i, collections := range [][]firewallCollection{p.Application, p.Network} {
		for _, c := range collections {
			for _, r := range c.Properties.Rules {
				if c.Properties.Action.filters() {
					f.Rules = append(f.Rules,
						r.decoded(i == 0, c.Properties.Action.denies(), c.Properties.Priority))
				}
			}
		}
	}
	return f, nil
}
