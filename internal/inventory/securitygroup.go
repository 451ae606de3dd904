package inventory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// SecurityGroup is a network security group.
type SecurityGroup struct {
	arm.Document
	// Rules has its own rules and Azure's default rules, in the order of evaluation: by direction,
	// then by priority.
	Rules []SecurityRule
}

// SecurityRule is one rule of a network security group. Each list combines the singular and the
// plural form of a field.
type SecurityRule struct {
	Name     string
	Priority int // 100 to 4096; the default rules have 65000 and more
	Inbound  bool
	Allow    bool
	Protocol string // Tcp, Udp, Icmp, Esp, Ah, or * for all
	// Sources and Destinations are prefixes, addresses, service tags, or *; empty if the rule names
	// application security groups instead.
	Sources, Destinations []string
	// SourceGroups and DestinationGroups are application security groups.
	SourceGroups, DestinationGroups []arm.ID
	// SourcePorts and DestinationPorts are ports, ranges such as 1024-65535, or *.
	SourcePorts, DestinationPorts []string
}

// DecodeSecurityGroup reads a network security group.
func DecodeSecurityGroup(raw []byte) (*SecurityGroup, error) {
	var p struct {
		Rules    []json.RawMessage `json:"securityRules"`
		Defaults []json.RawMessage `json:"defaultSecurityRules"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeSecurityGroup)
	if err != nil {
		return nil, err
	}
	g := &SecurityGroup{Document: document}
	for i, rawRule := range slices.Concat(p.Rules, p.Defaults) {
		rule, err := decodeSecurityRule(rawRule)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
		g.Rules = append(g.Rules, rule)
	}
	slices.SortStableFunc(g.Rules, func(a, b SecurityRule) int {
		if a.Inbound != b.Inbound {
			if a.Inbound {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Priority, b.Priority)
	})
	return g, nil
}

func decodeSecurityRule(raw []byte) (SecurityRule, error) {
	type properties struct {
		Protocol          string    `json:"protocol"`
		Access            string    `json:"access"`
		Direction         string    `json:"direction"`
		Priority          int       `json:"priority"`
		Source            string    `json:"sourceAddressPrefix"`
		Sources           []string  `json:"sourceAddressPrefixes"`
		Destination       string    `json:"destinationAddressPrefix"`
		Destinations      []string  `json:"destinationAddressPrefixes"`
		SourcePort        string    `json:"sourcePortRange"`
		SourcePorts       []string  `json:"sourcePortRanges"`
		DestinationPort   string    `json:"destinationPortRange"`
		DestinationPorts  []string  `json:"destinationPortRanges"`
		SourceGroups      []arm.Ref `json:"sourceApplicationSecurityGroups"`
		DestinationGroups []arm.Ref `json:"destinationApplicationSecurityGroups"`
	}
	var doc struct {
		Name       string      `json:"name"`
		Properties *properties `json:"properties"`
		properties
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return SecurityRule{}, arm.DescribeJSON(raw, err)
	}
	p := doc.properties
	if doc.Properties != nil {
		p = *doc.Properties
	}
	return SecurityRule{
		Name: doc.Name, Priority: p.Priority, Protocol: p.Protocol,
		Inbound: strings.EqualFold(p.Direction, "Inbound"), Allow: strings.EqualFold(p.Access,
			"Allow"),
		Sources: oneAndMany(p.Source, p.Sources), Destinations: oneAndMany(p.Destination,
			p.Destinations),
		SourcePorts: oneAndMany(p.SourcePort, p.SourcePorts), DestinationPorts: oneAndMany(
			p.DestinationPort, p.DestinationPorts),
		SourceGroups: refIDs(p.SourceGroups), DestinationGroups: refIDs(p.DestinationGroups),
	}, nil
}

// oneAndMany combines the singular and the plural form of a field.
func oneAndMany(one string, many []string) []string {
	if one == "" {
		return many
	}
	return append([]string{one}, many...)
}

func refIDs(refs []arm.Ref) []arm.ID {
	var ids []arm.ID
	for _, r := range refs {
		if id := r.Target(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
