package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"routekeeper.dev/routekeeper/internal/network"
)

// The api-versions of Azure Monitor: the newest that are no previews and that azurerm uses as well.
const (
	alertRuleVersion   = "2020-10-01"
	actionGroupVersion = "2023-01-01"
)

// monitorTypes are what may be created and deleted. Nothing else is.
var monitorTypes = []string{network.TypeActionGroup, network.TypeAlertRule}

// AlertResources reads the action groups and activity log alert rules of resource groups.
func (c *Client) AlertResources(ctx context.Context, groups []network.ID) ([]network.Document, error) {
	var all []network.Document
	for _, group := range groups {
		for _, resourceType := range monitorTypes {
			err := c.listAll(ctx, c.address(group, "/providers/"+resourceType, apiVersion(network.ResourceID("", "", resourceType, ""))), func(raw json.RawMessage) bool {
				if d, err := document(group, answer{body: raw}); err == nil {
					all = append(all, d)
				}
				return true
			})
			var fault *Error
			if errors.As(err, &fault) && fault.Status == http.StatusNotFound {
				return nil, fmt.Errorf("resource group %s is not there: az group create --subscription %s -n %s -l <location>", group, group.Subscription(), group.ResourceGroup())
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// CreateAlertResource makes an action group or an alert rule where there is none, and reads it back.
func (c *Client) CreateAlertResource(ctx context.Context, id network.ID, body []byte) (network.Document, error) {
	if err := alertResource(id); err != nil {
		return network.Document{}, err
	}
	var fault *Error
	if _, err := c.getResource(ctx, id); err == nil {
		return network.Document{}, fmt.Errorf("%s has come to be in the meantime: look again", id)
	} else if !errors.As(err, &fault) || fault.Status != http.StatusNotFound {
		return network.Document{}, err
	}
	if err := c.change(ctx, http.MethodPut, id, body); err != nil {
		return network.Document{}, err
	}
	return c.getResource(ctx, id)
}

// DeleteAlertResource deletes an action group or an alert rule, if what is there now is the one that is meant. One that is gone already is
// no error.
func (c *Client) DeleteAlertResource(ctx context.Context, id network.ID, meant func(network.Document) error) error {
	err := alertResource(id)
	var doc network.Document
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

// change sends a write that can be sent again without harm.
func (c *Client) change(ctx context.Context, method string, id network.ID, body []byte) error {
	if err := c.pace.wait(ctx, method, string(id)); err != nil {
		return err
	}
	_, err := c.send(ctx, method, c.address(id, "", apiVersion(id)), body, "")
	return err
}

func alertResource(id network.ID) error {
	for _, t := range monitorTypes {
		if id.Is(t) {
			return nil
		}
	}
	return fmt.Errorf("%s is neither an action group nor an alert rule: nothing else is created or deleted", id)
}
