package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// monitor writes alert rules.
type monitor struct{ builder }

// alertTypes are the types of these resources, in the order in which they are read.
var alertTypes = []string{arm.TypeActionGroup, arm.TypeAlertRule}

// alertWithin is how long an alert rule may take to be made or deleted.
const alertWithin = 5 * time.Minute

// AlertResources reads the action groups and activity log alert rules of resource groups.
func (c *monitor) AlertResources(ctx context.Context, groups []arm.ID) ([]arm.Document, error) {
	var all []arm.Document
	for _, group := range groups {
		for _, t := range alertTypes {
			err := c.listAll(ctx, c.address(group, "/providers/"+t, buildVersions[t]),
				func(raw json.RawMessage) bool {
					if d, err := (Reply{Body: raw}).Document(group); err == nil {
						all = append(all, d)
					}
					return true
				})
			if absent(err) {
				return nil, fmt.Errorf("resource group %s does not exist: %s", group,
					finding.Command("az group create --subscription %s -n %s -l LOCATION",
						group.Subscription(), group.ResourceGroup()))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// CreateAlertResource creates an action group or an alert rule that does not exist yet, and reads
// it back.
func (c *monitor) CreateAlertResource(ctx context.Context, id arm.ID, body []byte) (arm.Document,
	error) {
	have, err := c.findAlert(ctx, id)
	if err == nil && have != nil {
		err = fmt.Errorf("%s was created in the meantime: run the command again", id)
	}
	if err != nil {
		return arm.Document{}, err
	}
	return c.Make(ctx, id, body, "", alertWithin)
}

// DeleteAlertResource deletes an action group or an alert rule, if the current one passes meant. A
// missing resource is not an error.
func (c *monitor) DeleteAlertResource(ctx context.Context, id arm.ID,
	meant func(arm.Document) error) error {
	have, err := c.findAlert(ctx, id)
	if err == nil && have != nil {
		err = meant(*have)
	}
	if err != nil || have == nil {
		return err
	}
	return c.Remove(ctx, id, alertWithin)
}

// findAlert reads an action group or an alert rule; nil if there is none.
func (c *monitor) findAlert(ctx context.Context, id arm.ID) (*arm.Document, error) {
	if !slices.ContainsFunc(alertTypes, id.Is) {
		return nil, fmt.Errorf("%s is neither an action group nor an alert rule: only these are "+
			"created or deleted", id)
	}
	return c.Find(ctx, id)
}
