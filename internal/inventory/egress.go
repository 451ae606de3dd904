package inventory

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Egress has what was read to compare firewalls with what clusters need. Maps are keyed by
// ID.Key().
type Egress struct {
	Policies map[string]*FirewallPolicy // of Firewalls, including the ones they inherit from
	Groups   map[string]*RuleGroup
	IPGroups map[string]*IPGroup
	// Extensions are those of the clusters in ExtensionsOf.
	Extensions   map[string]*Extension
	ExtensionsOf []arm.ID
	// Addresses are the addresses of API servers by name, according to this machine's DNS, if they
	// were asked for. Unresolved says why a name has no address.
	Addresses  map[string][]netip.Addr
	Unresolved map[string]string
	// Unread says why a document or a list is missing.
	Unread map[string]string
}

// WithEgress returns the snapshot's Egress, and creates it if there is none.
func (s *Snapshot) WithEgress() *Egress {
	if s.Egress == nil {
		s.Egress = &Egress{Policies: map[string]*FirewallPolicy{},
			Groups: map[string]*RuleGroup{}, IPGroups: map[string]*IPGroup{},
			Extensions: map[string]*Extension{}, Unread: map[string]string{}}
	}
	return s.Egress
}

// FirewallPolicy is a firewall policy. Its rules are in its rule collection groups.
type FirewallPolicy struct {
	arm.Document
	Base arm.ID // the policy that it inherits from, or ""
}

// RuleGroup is a rule collection group of a policy.
type RuleGroup struct {
	arm.Document
	Rules []FirewallRule
}

// IPGroup is a list of addresses that rules name.
type IPGroup struct {
	arm.Document
	Addresses []string
}

// Extension is a cluster extension.
type Extension struct {
	arm.Document
	Type string // such as microsoft.flux, in lower case
	// Marketplace is set if the extension has a plan, so it comes from the marketplace.
	Marketplace bool
}

// mostPolicies limits how many policies a firewall's policy inherits from.
const mostPolicies = 4

// PoliciesOf returns the policy of a firewall, then its parents, as far as they were read.
func (e *Egress) PoliciesOf(f *Firewall) (policies []arm.ID) {
	for id := f.Policy; id != "" && len(policies) < mostPolicies; {
		policies = append(policies, id)
		policy := e.Policies[id.Key()]
		if policy == nil {
			break
		}
		id = policy.Base
	}
	return policies
}

// RulesOf returns all rules of a firewall, in the order in which it processes them
// (azure/firewall/rule-processing). Network rules come before application rules, rules of parent
// policies first, then by the priorities of rule collection groups and collections. unread says why
// the rules are incomplete, or "".
func (e *Egress) RulesOf(f *Firewall) (rules []FirewallRule, unread string) {
	rules = slices.Clone(f.Rules)
	missing := func(id arm.ID) {
		unread = cmp.Or(unread, e.Unread[id.Key()], id.Short()+" was not read")
	}
	for depth, policy := range e.PoliciesOf(f) {
		if e.Policies[policy.Key()] == nil {
			missing(policy)
		}
		if list := RuleGroupsOf(policy); e.Unread[list.Key()] != "" {
			missing(list)
		}
		for _, group := range e.Groups {
			if !group.ID.Parent().Equal(policy) {
				continue
			}
			for _, r := range group.Rules {
				r.Depth = depth
				rules = append(rules, r)
			}
		}
	}
	for i := range rules {
		r := &rules[i]
		resolve := func(groups []arm.ID, addresses []string) (_ []string, whole bool) {
			addresses, whole = slices.Clone(addresses), true
			for _, id := range groups {
				if group := e.IPGroups[id.Key()]; group != nil {
					addresses = append(addresses, group.Addresses...)
				} else {
					missing(id)
					whole = false
				}
			}
			return addresses, whole
		}
		var whole bool
		r.Sources, whole = resolve(r.SourceGroups, r.Sources)
		r.AnySource = !whole && !r.Denies
		r.Destinations, whole = resolve(r.DestinationGroups, r.Destinations)
		r.AnyDestination = !whole && !r.Denies
	}
	SortRules(rules)
	return rules, unread
}

// RuleGroupsOf returns the list of a policy's rule collection groups.
func RuleGroupsOf(policy arm.ID) arm.ID { return policy + "/ruleCollectionGroups" }

// ExtensionsIn returns the list of a cluster's extensions.
func ExtensionsIn(cluster arm.ID) arm.ID { return cluster + "/providers/" + arm.TypeExtension }

// ExtensionsFor returns the extensions of a cluster; known is false if they were not read.
func (e *Egress) ExtensionsFor(cluster arm.ID) (extensions []*Extension, known bool) {
	for _, x := range e.Extensions {
		if strings.HasPrefix(x.ID.Key(), ExtensionsIn(cluster).Key()+"/") {
			extensions = append(extensions, x)
		}
	}
	slices.SortFunc(extensions, func(a, b *Extension) int {
		return strings.Compare(a.ID.Key(), b.ID.Key())
	})
	return extensions, slices.ContainsFunc(e.ExtensionsOf, cluster.Equal)
}

// SortRules sorts rules as RulesOf returns them.
func SortRules(rules []FirewallRule) {
	last := func(application bool) int {
		if application {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(rules, func(a, b FirewallRule) int {
		return cmp.Or(cmp.Compare(last(a.Application), last(b.Application)),
			cmp.Compare(b.Depth, a.Depth), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Collection, b.Collection))
	})
}

// DecodeFirewallPolicy reads a firewall policy.
func DecodeFirewallPolicy(raw []byte) (*FirewallPolicy, error) {
	var p struct {
		Base *arm.Ref `json:"basePolicy"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeFirewallPolicy)
	if err != nil {
		return nil, err
	}
	return &FirewallPolicy{document, p.Base.Target()}, nil
}

// DecodeIPGroup reads an IP group.
func DecodeIPGroup(raw []byte) (*IPGroup, error) {
	var p struct {
		Addresses []string `json:"ipAddresses"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeIPGroup)
	if err != nil {
		return nil, err
	}
	return &IPGroup{document, p.Addresses}, nil
}

// DecodeRuleGroup decodes a rule collection group of a firewall policy. It keeps only the rules
// that allow or deny.
func DecodeRuleGroup(raw []byte) (*RuleGroup, error) {
	var p struct {
		Priority    int `json:"priority"`
		Collections []struct {
			Priority int            `json:"priority"`
			Action   ruleAction     `json:"action"`
			Rules    []firewallRule `json:"rules"`
		} `json:"ruleCollections"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeRuleGroup)
	if err != nil {
		return nil, err
	}
	group := &RuleGroup{Document: document}
	for _, c := range p.Collections {
		for _, r := range c.Rules {
			if !c.Action.filters() {
				continue
			}
			rule := r.decoded(strings.EqualFold(r.Kind, "ApplicationRule"), c.Action.denies(),
				c.Priority)
			rule.Group = p.Priority
			group.Rules = append(group.Rules, rule)
		}
	}
	return group, nil
}

// DecodeExtension reads a cluster extension.
func DecodeExtension(raw []byte) (*Extension, error) {
	var p struct {
		Type string `json:"extensionType"`
	}
	document, err := arm.Decode(raw, &p, arm.TypeExtension)
	if err != nil {
		return nil, err
	}
	var top struct {
		Plan *struct {
			Name string `json:"name"`
		} `json:"plan"`
	}
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, arm.DescribeJSON(raw, err)
	}
	return &Extension{document, strings.ToLower(p.Type),
		top.Plan != nil}, nil
}
