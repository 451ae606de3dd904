package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/network"
)

// Verb is what a change does.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Change is one resource to write or to delete. Why never holds what is secret.
type Change struct {
	Verb     Verb
	Resource network.ID
	Why      []string
	// Body is what is to be created.
	Body []byte
	// Edit changes a fresh document, of an update, and returns nil where there is nothing to change any more. One that is not ours any more
	// is an error, also before a delete.
	Edit func(network.Document) ([]byte, error)
	// Left says how a document that was read after the change differs from what is wanted.
	Left func(network.Document) []string
}

// Plan compares what is to be watched with what is there: all alert rules and action groups of the installation's resource groups. Rules
// come after the groups they tell, and go before them.
func (i Installation) Plan(w Watched, have []network.Document) ([]Change, error) {
	var all []Change
	used := map[string]bool{}
	for _, s := range w.Subscriptions {
		group, err := i.Group(s.Subscription)
		if err != nil {
			return nil, err
		}
		actions := i.in(group, network.TypeActionGroup)
		for _, want := range []wanted{
			{Installation: i, id: actions},
			{Installation: i, id: i.in(group, network.TypeAlertRule), scopes: s.IDs, group: actions, keep: len(w.Unknown) > 0},
		} {
			used[want.id.Key()] = true
			c, err := want.change(have)
			if err != nil {
				return nil, err
			}
			if c != nil {
				all = append(all, *c)
			}
		}
	}
	for _, c := range i.Removal(have) { // of a subscription in which nothing is watched any more
		if !used[c.Resource.Key()] {
			c.Why = append([]string{"nothing is watched in this subscription any more"}, c.Why...)
			all = append(all, c)
		}
	}
	return all, nil
}

func (i Installation) in(group network.ID, resourceType string) network.ID {
	return network.ResourceID(group.Subscription(), group.ResourceGroup(), resourceType, i.name)
}

// change is what it takes, nil where nothing.
func (w wanted) change(have []network.Document) (*Change, error) {
	at := slices.IndexFunc(have, func(d network.Document) bool { return d.ID.Equal(w.id) })
	c := &Change{Verb: Create, Resource: w.id, Left: w.left}
	var err error
	if at < 0 {
		if c.Body, err = w.document(); err != nil {
			return nil, err
		}
		c.Why = []string{"posts to " + w.webhook.String()}
		if w.isRule() {
			c.Why = []string{fmt.Sprintf("watches %d operations in %d places", len(Operations()), len(w.scopes))}
		}
		return c, nil
	}
	if !w.mine(have[at]) {
		return nil, fmt.Errorf("%s is there and was not made for this installation: its tags are not %s=%s and %s=%s; take another name", w.id, tagBy, prefix, tagInstallation, w.name)
	}
	_, why, err := w.edited(have[at].Raw)
	if err != nil || len(why) == 0 {
		return nil, err
	}
	c.Verb, c.Why = Update, why
	c.Edit = func(d network.Document) ([]byte, error) {
		if !w.mine(d) {
			return nil, lost(d.ID)
		}
		out, why, err := w.edited(d.Raw)
		if len(why) == 0 {
			return nil, err
		}
		return out, err
	}
	return c, nil
}

func (w wanted) left(d network.Document) []string {
	_, why, err := w.edited(d.Raw)
	if err != nil {
		return []string{err.Error()}
	}
	return why
}

// Removal takes away what was made for the installation, and nothing else. An action group to which somebody added receivers of their own
// stays, without ours.
func (i Installation) Removal(have []network.Document) []Change {
	var all []Change
	for _, resourceType := range []string{network.TypeAlertRule, network.TypeActionGroup} {
		for _, d := range have {
			if d.ID.Is(resourceType) && i.mine(d) {
				all = append(all, i.removal(d))
			}
		}
	}
	return all
}

func (i Installation) removal(d network.Document) Change {
	c := Change{Verb: Delete, Resource: d.ID}
	others := othersReceivers(d.Raw)
	if len(others) == 0 {
		c.Edit = func(d network.Document) ([]byte, error) {
			if !i.mine(d) || len(othersReceivers(d.Raw)) > 0 {
				return nil, lost(d.ID)
			}
			return nil, nil
		}
		return c
	}
	c.Verb = Update
	c.Why = []string{"others receive by it as well, so it stays without the webhook: " + strings.Join(others, ", ")}
	c.Edit = func(d network.Document) ([]byte, error) {
		if !i.mine(d) {
			return nil, nil
		}
		return released(d.Raw)
	}
	c.Left = func(d network.Document) []string {
		if i.mine(d) {
			return []string{"it is still tagged as ours"}
		}
		return nil
	}
	return c
}

func lost(id network.ID) error {
	return fmt.Errorf("%s was changed by somebody in the meantime and is left alone: look again", id)
}

// othersReceivers names the receivers of an action group that are not ours.
func othersReceivers(raw []byte) []string {
	var doc struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	var names []string
	for field, value := range doc.Properties {
		var receivers []struct {
			Name string `json:"name"`
		}
		if !strings.HasSuffix(field, "Receivers") || json.Unmarshal(value, &receivers) != nil {
			continue
		}
		for _, r := range receivers {
			if field != "webhookReceivers" || !strings.EqualFold(r.Name, ReceiverName) {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// released is an action group without our webhook and tags.
func released(raw []byte) ([]byte, error) {
	var have resource
	err := json.Unmarshal(raw, &have)
	paths := []string{"tags." + tagBy, "tags." + tagInstallation}
	for i, r := range have.Properties.WebhookReceivers {
		if strings.EqualFold(r.Name, ReceiverName) {
			paths = append(paths, fmt.Sprintf("properties.webhookReceivers.%d", i))
		}
	}
	for _, path := range paths {
		if err == nil {
			raw, err = sjson.DeleteBytes(raw, path)
		}
	}
	return raw, err
}
