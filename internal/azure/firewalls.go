package azure

import (
	"context"
	"encoding/json"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// mostPolicies limits how many policies a firewall's policy inherits from.
const mostPolicies = 4

// ReadFirewalls reads the Azure Firewalls of the surveyed scopes, with the rules of their policies.
// What cannot be read becomes Unread, or incomplete rules.
func (c *Client) ReadFirewalls(ctx context.Context, s *inventory.Snapshot) error {
	s.Firewalls = map[string]*inventory.Firewall{}
	for _, scope := range s.Listed {
		if err := c.listInto(ctx, s, scope, arm.TypeFirewall, networkVersion); err != nil {
			return err
		}
	}
	for _, f := range s.Firewalls {
		policy := f.Policy
		for range mostPolicies {
			if policy == "" {
				break
			}
			base, err := c.readPolicy(ctx, f, policy)
			fault, fatal := asFault(err)
			if fatal != nil {
				return fatal
			}
			if fault != nil {
				f.Unread = fault.Error()
			}
			policy = base
		}
	}
	return nil
}

// readPolicy adds the rules of a policy to a firewall's, and returns the policy it inherits from.
func (c *Client) readPolicy(ctx context.Context, f *inventory.Firewall,
	policy arm.ID) (base arm.ID, err error) {
	err = c.listAll(ctx, c.address(policy, "/ruleCollectionGroups", networkVersion),
		func(raw json.RawMessage) bool {
			rules, wrong := inventory.DecodeFirewallRules(raw)
			if wrong != nil {
				f.Unread = wrong.Error()
			}
			f.Rules = append(f.Rules, rules...)
			return true
		})
	if err != nil {
		return "", err
	}
	answer, err := c.get(ctx, c.address(policy, "", networkVersion))
	if err != nil {
		return "", err
	}
	doc, err := document(policy, answer)
	if err != nil {
		return "", err
	}
	return inventory.DecodeBasePolicy(doc.Raw)
}
