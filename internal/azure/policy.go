package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// providerVersion is the api-version of resource providers, and policyVersion that of Azure Policy.
// Exemptions have their own.
const (
	providerVersion  = "2021-04-01"
	policyVersion    = "2023-04-01"
	exemptionVersion = "2022-07-01-preview"

	typePolicyAssignment = "Microsoft.Authorization/policyAssignments"
	typePolicyDefinition = "Microsoft.Authorization/policyDefinitions"
	typePolicySet        = "Microsoft.Authorization/policySetDefinitions"
	typePolicyExemption  = "Microsoft.Authorization/policyExemptions"
)

// NetworkAliases returns the aliases that policies can use for the resource types of
// Microsoft.Network. Azure adds aliases, and clouds differ.
func (c *caller) NetworkAliases(ctx context.Context, subscription arm.ID) ([]string, error) {
	page, err := c.get(ctx, c.address(subscription, "/providers/Microsoft.Network",
		providerVersion)+"&$expand="+url.QueryEscape("resourceTypes/aliases"))
	if err != nil {
		return nil, err
	}
	var doc struct {
		ResourceTypes []struct {
			Aliases []struct{ Name string }
		}
	}
	if err := json.Unmarshal(page.Body, &doc); err != nil {
		return nil, fmt.Errorf("the resource types of Microsoft.Network: %w", err)
	}
	var names []string
	for _, t := range doc.ResourceTypes {
		for _, alias := range t.Aliases {
			names = append(names, alias.Name)
		}
	}
	return names, nil
}

// LoggedWrite is a write in the activity log. Body is the request's body, nil if the log does not
// have it.
type LoggedWrite struct {
	LastWrite
	Body []byte
}

// String says who made the write, and when.
func (w LoggedWrite) String() string {
	return strings.Replace(w.LastWrite.String(), " was last ", " was ", 1)
}

// Writes returns the writes of a resource group's resources in the activity log, the newest first,
// including refused ones. whole is false if the log has more records than were read.
func (c *activityLog) Writes(ctx context.Context, group arm.ID, ids ...arm.ID) (all []LoggedWrite,
	whole bool, err error) {
	found := map[string]int{}
	now := time.Now()
	whole, err = c.eachRecord(ctx, group, now.Add(-logReach), now,
		"resourceGroupName eq '"+group.ResourceGroup()+"'", func(raw json.RawMessage) bool {
			var r struct {
				logRecord
				OperationID string            `json:"operationId"`
				Properties  map[string]string `json:"properties"`
			}
			_ = json.Unmarshal(raw, &r) // properties of other kinds of records
			w, timed := r.write()
			if !timed || !r.isWrite() || !slices.ContainsFunc(ids, r.ResourceID.Equal) {
				return true
			}
			// a write has a record when it starts, and more when it is accepted and when it ends
			key := r.OperationID + r.CorrelationID + r.ResourceID.Key()
			i, known := found[key]
			if !known {
				i = len(all)
				found[key] = i
				all = append(all, LoggedWrite{LastWrite: w})
			}
			if body := r.Properties["requestbody"]; body != "" {
				all[i].Body = []byte(body)
			}
			return true
		})
	return all, whole, err
}
