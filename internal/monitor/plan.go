package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Change is one resource to write or delete. Why never contains a secret.
type Change struct {
	Verb     plan.Verb // Create, Update or Delete
	Resource arm.ID
	Why      []string
	// Body is the document to create.
	Body []byte
	// Edit changes a fresh document and returns nil if nothing has to change any more. It returns
	// an error if the resource no longer belongs to the installation, also before a delete.
	Edit func(arm.Document) ([]byte, error)
	// Left says how a document that was read after the change differs from the desired state.
	Left func(arm.Document) []string
}

// Plan compares what to watch with all existing alert rules and action groups in the installation's
// resource groups. It creates groups before the rules that notify them, and deletes groups after
// these rules.
func (i Installation) Plan(w Watched, have []arm.Document) ([]Change, error) {
	var all []Change
	used := map[string]bool{}
	for _, s := range w.Subscriptions {
		if _, err := i.Group(s.Subscription); err != nil {
			return nil, err
		}
	}
	for _, s := range w.Subscriptions {
		group := i.groups[strings.ToLower(s.Subscription)]
		actions := i.in(group, arm.TypeActionGroup)
		for _, want := range []wanted{
			{Installation: i, id: actions},
			{Installation: i, id: i.in(group, arm.TypeAlertRule), scopes: s.IDs, group: actions,
				keepScopes: len(w.Unknown) > 0},
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
	for _, c := range i.Removal(have) { // in a subscription where nothing is watched any more
		if !used[c.Resource.Key()] {
			c.Why = append([]string{"nothing is watched in this subscription any more"}, c.Why...)
			all = append(all, c)
		}
	}
	return all, nil
}

func (i Installation) in(group arm.ID, resourceType string) arm.ID {
	return arm.ResourceID(group.Subscription(), group.ResourceGroup(), resourceType, i.name)
}

// change returns the change to reach the desired state, or nil.
func (w wanted) change(have []arm.Document) (*Change, error) {
	at := slices.IndexFunc(have, func(d arm.Document) bool { return d.ID.Equal(w.id) })
	c := &Change{Verb: plan.Create, Resource: w.id, Left: w.left}
	var err error
	if at < 0 {
		if c.Body, err = w.document(); err != nil {
			return nil, err
		}
		c.Why = []string{"posts to " + w.webhook.String()}
		if w.isRule() {
			c.Why = []string{fmt.Sprintf("watches %d operations in %d places", len(Operations()),
				len(w.scopes))}
		}
		return c, nil
	}
	if !w.mine(have[at]) {
		return nil, fmt.Errorf("%s exists and does not belong to this installation: its tags are "+
			"not %s=%s and %s=%s; choose another name", w.id, tagBy, prefix, tagInstallation,
			w.name)
	}
	_, why, err := w.edited(have[at].Raw)
	if err != nil || len(why) == 0 {
		return nil, err
	}
	c.Verb, c.Why = plan.Update, why
	c.Edit = w.edit
	return c, nil
}

// edit brings a fresh document into the desired state.
func (w wanted) edit(d arm.Document) ([]byte, error) {
	if !w.mine(d) {
		return nil, errChanged(d.ID)
	}
	out, why, err := w.edited(d.Raw)
	if len(why) == 0 {
		return nil, err
	}
	return out, err
}

func (w wanted) left(d arm.Document) []string {
	_, why, err := w.edited(d.Raw)
	if err != nil {
		return []string{err.Error()}
	}
	return why
}

// Removal deletes what belongs to the installation, and nothing else. An action group that also has
// other receivers stays, without our webhook.
func (i Installation) Removal(have []arm.Document) []Change {
	var all []Change
	for _, resourceType := range []string{arm.TypeAlertRule, arm.TypeActionGroup} {
		for _, d := range have {
			if !d.ID.Is(resourceType) || !i.mine(d) {
				continue
			}
			ours, others := receivers(d.Raw)
			switch {
			case len(others) == 0:
				all = append(all, i.deletion(d.ID))
			case len(ours) > 0:
				all = append(all, i.removeWebhook(d.ID, others))
			}
		}
	}
	return all
}

func (i Installation) deletion(id arm.ID) Change {
	return Change{Verb: plan.Delete, Resource: id, Edit: func(d arm.Document) ([]byte, error) {
		if _, others := receivers(d.Raw); !i.mine(d) || len(others) > 0 {
			return nil, errChanged(id)
		}
		return nil, nil
	}}
}

// removeWebhook removes our webhook from an action group.
func (i Installation) removeWebhook(id arm.ID, others []string) Change {
	w := wanted{Installation: i, id: id, gone: true}
	return Change{Verb: plan.Update, Resource: id, Edit: w.edit, Left: w.left,
		Why: []string{"it has other receivers, so it stays, without the webhook: " +
			strings.Join(others, ", ")}}
}

func errChanged(id arm.ID) error {
	return fmt.Errorf("%s was changed in the meantime and stays as it is: run the command again",
		id)
}

// receivers returns the positions of our webhooks in an action group, and names all other
// receivers.
func receivers(raw []byte) (ours []int, others []string) {
	var doc struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil, nil
	}
	for field, value := range doc.Properties {
		var all []struct {
			Name string `json:"name"`
		}
		if !strings.HasSuffix(field, "Receivers") {
			continue
		}
		if json.Unmarshal(value, &all) != nil { // not our format, so not ours
			others = append(others, field)
		}
		for at, r := range all {
			if field == "webhookReceivers" && strings.EqualFold(r.Name, ReceiverName) {
				ours = append(ours, at)
			} else {
				others = append(others, r.Name)
			}
		}
	}
	slices.Sort(others)
	return ours, others
}
