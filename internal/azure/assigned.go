package azure

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// ReadPolicies adds the policies that are assigned in the surveyed subscriptions or above. For each
// subscription it reads two lists, each assigned initiative, and each definition that Azure ships
// and that is assigned directly or in an initiative. It also lists exemptions if a policy is about
// networks. Azure's initiatives have hundreds of members. A member whose assigned effect only
// reports is not read.
func ReadPolicies(ctx context.Context, c *Client, s *inventory.Snapshot) error {
	var subscriptions []arm.ID
	for _, id := range s.Listed {
		subscriptions = append(subscriptions, id.SubscriptionID())
	}
	shipped := map[string]*inventory.PolicyDefinition{}
	for _, id := range inventory.SortIDs(subscriptions) {
		if err := readAssigned(ctx, c, s, id, shipped); err != nil {
			return err
		}
	}
	return nil
}

func readAssigned(ctx context.Context, c *Client, s *inventory.Snapshot, subscription arm.ID,
	shipped map[string]*inventory.PolicyDefinition) error {
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
	definitions := maps.Clone(shipped)
	for i := range custom {
		definitions[strings.ToLower(custom[i].ID)] = &custom[i]
	}
	for range 2 { // first what is assigned, then the members of initiatives
		if err := readDefinitions(ctx, c, s, subscription,
			inventory.LackingPolicies(assignments, definitions), definitions); err != nil {
			return err
		}
	}
	for key, d := range definitions {
		if strings.HasPrefix(key, shippedPolicies) {
			shipped[key] = d
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

// shippedPolicies is how the IDs of definitions and initiatives that Azure ships begin, in lower
// case.
const shippedPolicies = "/providers/microsoft.authorization/"

// readDefinitions reads initiatives, and the definitions that Azure ships. Custom definitions are
// listed, so they need no read of their own.
func readDefinitions(ctx context.Context, c *Client, s *inventory.Snapshot, subscription arm.ID,
	ids []string, into map[string]*inventory.PolicyDefinition) error {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, id := range ids {
		key := strings.ToLower(id)
		kind := typePolicyDefinition
		if strings.Contains(key, "/policysetdefinitions/") {
			kind = typePolicySet
		} else if !strings.HasPrefix(key, shippedPolicies) {
			continue
		}
		if strings.Contains(key, "/.") {
			continue
		}
		g.Go(func() error {
			d := new(inventory.PolicyDefinition)
			page, err := c.get(ctx, c.address(arm.ID(id), "", policyVersion))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				return noted(s, subscription+arm.ID("/providers/"+kind), err)
			}
			if err := json.Unmarshal(page.Body, d); err != nil {
				garbled(s, arm.ID(id), err)
				return nil
			}
			into[key] = d
			return nil
		})
	}
	return g.Wait()
}

// listAs lists documents of Azure Policy. It notes a list that fails as unread.
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
