package inventory

import (
	"encoding/json"
	"net/netip"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Firewall is an Azure Firewall with its rules: its own, and those of its policies.
type Firewall struct {
	arm.Document
	Addresses []netip.Addr // private ones, to which routes lead
	Policy    arm.ID       // "" if its rules are its own
	Rules     []FirewallRule
	// Unread says why the rules are incomplete, or "".
	Unread string
}

// FirewallRule is a rule that allows something; rules that deny are left out.
type FirewallRule struct {
	Name string
	// Application rules allow names; network rules allow addresses.
	Application bool
	Sources     []string // prefixes, addresses or *; empty if an IP group says it
	// FQDNs are names such as *.azmk8s.io, Tags such as AzureKubernetesService.
	FQDNs, Tags []string
	// Destinations and Protocols are those of a network rule. Ports are of both, such as 443 or *.
	Destinations, Protocols, Ports []string
}

type firewallRule struct {
	Name         string   `json:"name"`
	Kind         string   `json:"ruleType"`
	Sources      []string `json:"sourceAddresses"`
	FQDNs        []string `json:"targetFqdns"`
	Names        []string `json:"destinationFqdns"`
	Tags         []string `json:"fqdnTags"`
	Destinations []string `json:"destinationAddresses"`
	Ports        []string `json:"destinationPorts"`
	// Protocols are objects in an application rule, and words in a network rule.
	Protocols   []json.RawMessage `json:"protocols"`
	IPProtocols []string          `json:"ipProtocols"`
}

func (r firewallRule) decoded(application bool) FirewallRule {
	out := FirewallRule{Name: r.Name, Application: application, Sources: r.Sources,
		FQDNs: append(r.FQDNs, r.Names...), Tags: r.Tags, Destinations: r.Destinations,
		Protocols: r.IPProtocols, Ports: r.Ports}
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

func (a ruleAction) allows() bool { return strings.EqualFold(a.Type, "Allow") }

type firewallCollection struct {
	Properties struct {
		Action ruleAction     `json:"action"`
		Rules  []firewallRule `json:"rules"`
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
	h, err := arm.Decode(raw, arm.TypeFirewall, &p)
	if err != nil {
		return nil, err
	}
	f := &Firewall{Document: arm.Document{ID: h.ID, ETag: h.ETag, Raw: raw}}
	if p.Policy != nil {
		f.Policy = arm.Clean(p.Policy.ID)
	}
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
				if c.Properties.Action.allows() {
					f.Rules = append(f.Rules, r.decoded(i == 0))
				}
			}
		}
	}
	return f, nil
}

// DecodeFirewallRules reads the rules that allow something from a rule collection group of a
// policy.
func DecodeFirewallRules(raw []byte) ([]FirewallRule, error) {
	var doc struct {
		Properties struct {
			Collections []struct {
				Action ruleAction     `json:"action"`
				Rules  []firewallRule `json:"rules"`
			} `json:"ruleCollections"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, arm.DescribeJSON(raw, err)
	}
	var rules []FirewallRule
	for _, c := range doc.Properties.Collections {
		for _, r := range c.Rules {
			if c.Action.allows() {
				rules = append(rules, r.decoded(strings.EqualFold(r.Kind, "ApplicationRule")))
			}
		}
	}
	return rules, nil
}

// DecodeBasePolicy reads which policy a firewall policy inherits from, or "".
func DecodeBasePolicy(raw []byte) (arm.ID, error) {
	var doc struct {
		Properties struct {
			Base *arm.Ref `json:"basePolicy"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "", arm.DescribeJSON(raw, err)
	}
	if doc.Properties.Base == nil {
		return "", nil
	}
	return arm.Clean(doc.Properties.Base.ID), nil
}
