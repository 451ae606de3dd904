package azure

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// ReadPolicies adds the policies that are assigned in the surveyed subscriptions or above. It takes
// two lists for each subscription, a read for each assigned custom initiative and each assigned
// definition that Azure ships, and a list of exemptions if a policy is about networks. Initiatives
// that Azure ships are not read, nor are such definitions inside of custom ones: they are hundreds.
func ReadPolicies(ctx context.Context, c *Client, s *inventory.Snapshot) error {
	var subscriptions []arm.ID
	for _, id := range s.Listed {
		subscriptions = append(subscriptions, id.SubscriptionID())
	}
	for _, id := range inventory.SortIDs(subscriptions) {
		if err := readAssigned(ctx, c, s, id); err != nil {
			return err
		}
	}
	return nil
}

func readAssigned(ctx context.Context, c *Client, s *inventory.Snapshot,
	subscription arm.ID) error {
	assignments, err := listAs[inventory.PolicyAssignment](ctx, c, s, subscription,
		typePolicyAssignment, policyVersion, "")
	if err != nil || len(assignments) == 0 {
		return err
	}
	custom, err := listAs[inventory.PolicyDefinition](ctx, c, s, subscription,
		typePolicyDefinition, policyVersion, "policyType eq 'Custom'")
	if err != nil {
		return err
	}
	definitions := map[string]*inventory.PolicyDefinition{}
	for i := range custom {
		definitions[strings.ToLower(custom[i].ID)] = &custom[i]
	}
	for _, a := range assignments {
		id := a.Properties.Definition
		if key := strings.ToLower(id); definitions[key] == nil && (isCustomSet(id) ||
			strings.HasPrefix(key, builtInDefinitions)) {
			set := new(inventory.PolicyDefinition)
			page, err := c.get(ctx, c.address(arm.ID(id), "", policyVersion))
			if err == nil && json.Unmarshal(page.body, set) == nil {
				definitions[key] = set
			} else if err := noted(s, subscription+arm.ID("/providers/"+assignedType(id)),
				err); err != nil {
				return err
			}
		}
	}
	assigned := inventory.AssignPolicies(assignments, definitions)
	if !slices.ContainsFunc(assigned, inventory.AssignedPolicy.OfNetworks) {
		return nil
	}
	exemptions, err := listAs[inventory.PolicyExemption](ctx, c, s, subscription,
		typePolicyExemption, exemptionVersion, "")
	if err != nil {
		return err
	}
	for _, p := range assigned {
		if !p.OfNetworks() {
			continue
		}
		for _, e := range exemptions {
			until, err := time.Parse(time.RFC3339, e.Properties.ExpiresOn)
			of := e.Properties.References
			scope, _, _ := strings.Cut(strings.ToLower(e.ID),
				"/providers/microsoft.authorization/policyexemptions/")
			if strings.EqualFold(e.Properties.Assignment, p.Assignment) &&
				(err != nil || until.After(s.Taken)) &&
				(len(of) == 0 || slices.Contains(of, p.Reference)) {
				p.Exempt = append(p.Exempt, scope)
			}
		}
		s.Policies = append(s.Policies, p)
	}
	return nil
}

// builtInDefinitions begins the IDs of definitions that Azure ships, in lower case.
const builtInDefinitions = "/providers/microsoft.authorization/policydefinitions/"

// assignedType returns the type of what an assignment assigns.
func assignedType(definition string) string {
	if strings.HasPrefix(strings.ToLower(definition), builtInDefinitions) {
		return typePolicyDefinition
	}
	return typePolicySet
}

// isCustomSet reports whether a definition is an initiative that Azure does not ship: those have no
// scope.
func isCustomSet(id string) bool {
	lower := strings.ToLower(id)
	return strings.Contains(lower, "/policysetdefinitions/") && !strings.Contains(lower, "/.") &&
		!strings.HasPrefix(lower, "/providers/microsoft.authorization/")
}

// listAs lists documents of Azure Policy. What cannot be listed is noted as unread.
func listAs[T any](ctx context.Context, c *Client, s *inventory.Snapshot, subscription arm.ID,
	resourceType, version, filter string) (all []T, err error) {
	address := c.address(subscription, "/providers/"+resourceType, version)
	if filter != "" {
		address += "&$filter=" + url.QueryEscape(filter)
	}
	where := subscription + arm.ID("/providers/"+resourceType)
	err = c.listAll(ctx, address, func(raw json.RawMessage) bool {
		var doc T
		if wrong := json.Unmarshal(raw, &doc); wrong != nil {
			garbled(s, where, wrong)
		} else {
			all = append(all, doc)
		}
		return true
	})
	return all, noted(s, where, err)
}
