package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// monitor writes alert rules.
type monitor struct{ *caller }

// alertType is a type of Azure Monitor with the api-version of its calls: the newest that is not a
// preview and that azurerm uses as well.
type alertType struct{ name, version string }

// alertTypes are the types that may be created and deleted.
var alertTypes = []alertType{{arm.TypeActionGroup, "2023-01-01"}, {arm.TypeAlertRule, "2020-10-01"}}

// alertTypeOf returns the type of a resource.
func alertTypeOf(id arm.ID) (alertType, bool) {
	for _, t := range alertTypes {
		if id.Is(t.name) {
			return t, true
		}
	}
	return alertType{}, false
}

// AlertResources reads the action groups and activity log alert rules of resource groups.
func (c *monitor) AlertResources(ctx context.Context, groups []arm.ID) ([]arm.Document, error) {
	var all []arm.Document
	for _, group := range groups {
		for _, t := range alertTypes {
			err := c.listAll(ctx, c.address(group, "/providers/"+t.name, t.version),
				func(raw json.RawMessage) bool {
					if d, err := document(group, answer{body: raw}); err == nil {
						all = append(all, d)
					}
					return true
				})
			var fault *Error
			if errors.As(err, &fault) && fault.Status == http.StatusNotFound {
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
	if err := alertResource(id); err != nil {
		return arm.Document{}, err
	}
	var fault *Error
	if _, err := c.getResource(ctx, id); err == nil {
		return arm.Document{}, fmt.Errorf("%s was created in the meantime: run the command again",
			id)
	} else if !errors.As(err, &fault) || fault.Status != http.StatusNotFound {
		return arm.Document{}, err
	}
	if err := c.change(ctx, http.MethodPut, id, body); err != nil {
		return arm.Document{}, err
	}
	return c.readBack(ctx, id)
}

// readBack reads a resource that was just created, which may take a moment to appear.
func (c *monitor) readBack(ctx context.Context, id arm.ID) (arm.Document, error) {
	for wait := time.Second; ; wait *= 2 {
		doc, err := c.getResource(ctx, id)
		var fault *Error
		if !errors.As(err, &fault) || fault.Status != http.StatusNotFound || wait > backoffMax {
			return doc, err
		}
		if err := Pause(ctx, wait); err != nil {
			return doc, err
		}
	}
}

// DeleteAlertResource deletes an action group or an alert rule, if the current one passes meant. A
// missing resource is not an error.
func (c *monitor) DeleteAlertResource(ctx context.Context, id arm.ID,
	meant func(arm.Document) error) error {
	err := alertResource(id)
	var doc arm.Document
	if err == nil {
		doc, err = c.getResource(ctx, id)
	}
	if err == nil {
		err = meant(doc)
	}
	if err == nil {
		err = c.change(ctx, http.MethodDelete, id, nil)
	}
	var fault *Error
	if errors.As(err, &fault) && fault.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// change sends a write that is safe to repeat.
func (c *monitor) change(ctx context.Context, method string, id arm.ID, body []byte) error {
	if err := c.throttle.wait(ctx, method, string(id)); err != nil {
		return err
	}
	_, err := c.send(policy.WithRetryOptions(ctx, writeRetries), method,
		c.address(id, "", apiVersion(id)), body, "")
	return err
}

func alertResource(id arm.ID) error {
	if _, ok := alertTypeOf(id); !ok {
		return fmt.Errorf("%s is neither an action group nor an alert rule: only these are "+
			"created or deleted", id)
	}
	return nil
}
