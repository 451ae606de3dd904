package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// resource has the fields of an alert rule or action group that this package manages.
type resource struct {
	Tags       map[string]string `json:"tags"`
	Properties struct {
		Enabled *bool `json:"enabled"`
		// of an alert rule
		Scopes    []arm.ID `json:"scopes"`
		Condition struct {
			AllOf []condition `json:"allOf"`
		} `json:"condition"`
		Actions struct {
			ActionGroups []struct {
				ActionGroupID arm.ID `json:"actionGroupId"`
			} `json:"actionGroups"`
		} `json:"actions"`
		// of an action group
		GroupShortName   string     `json:"groupShortName"`
		WebhookReceivers []receiver `json:"webhookReceivers"`
	} `json:"properties"`
}

// leaf is a comparison of one field with one value, or with several.
type leaf struct {
	Field       string   `json:"field,omitempty"`
	Equals      string   `json:"equals,omitempty"`
	ContainsAny []string `json:"containsAny,omitempty"`
}

// condition is a leaf, or alternatives.
type condition struct {
	leaf
	AnyOf []leaf `json:"anyOf,omitempty"`
}

// meaning returns a normal form, so that equivalent conditions are equal: the alternatives, sorted.
func (c condition) meaning() string {
	var all []string
	for _, l := range append(slices.Clone(c.AnyOf), c.leaf) {
		for _, value := range append(slices.Clone(l.ContainsAny), l.Equals) {
			if l.Field != "" && value != "" {
				all = append(all, l.Field+"="+value)
			}
		}
	}
	return strings.Join(sorted(all), " or ")
}

func meanings(all []condition) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = c.meaning()
	}
	return sorted(out)
}

// conditions select completed operations: each operation leaves several records, and the last one
// says Succeeded. Any field of an event, including operationName, may be in the leaves of an anyOf
// (REST reference of Activity Log Alerts, AlertRuleAnyOfOrLeafCondition); the portal creates rules
// for only one operation.
func conditions() []condition {
	operations := condition{}
	for _, o := range Operations() {
		operations.AnyOf = append(operations.AnyOf, leaf{Field: "operationName", Equals: o})
	}
	return []condition{{leaf: leaf{Field: "category", Equals: "Administrative"}}, operations,
		{leaf: leaf{Field: "status", Equals: "Succeeded"}}}
}

// receiver is a webhook of an action group.
type receiver struct {
	Name     string `json:"name"`
	URI      string `json:"serviceUri"`
	Common   bool   `json:"useCommonAlertSchema"`
	Secure   bool   `json:"useAadAuth"`
	ObjectID string `json:"objectId,omitempty"`
	Audience string `json:"identifierUri,omitempty"`
	TenantID string `json:"tenantId,omitempty"`
}

// wanted is a resource in its desired state.
type wanted struct {
	Installation
	id     arm.ID
	scopes []arm.ID // of an alert rule
	group  arm.ID   // the action group that it notifies
	// keepScopes is set if not all resources to watch are known: scopes that are no longer wanted
	// stay.
	keepScopes bool
	// gone is set for an action group of others that must not have the webhook.
	gone bool
}

func (w wanted) receiver() receiver {
	return receiver{
		Name: ReceiverName, URI: w.webhook.URL, Common: true, Secure: w.webhook.Secure(),
		ObjectID: w.webhook.ObjectID, Audience: w.webhook.Audience, TenantID: w.webhook.Tenant,
	}
}

func (w wanted) isRule() bool { return w.id.Is(arm.TypeAlertRule) }

// difference is one deviation from the desired state, and the edits that fix it.
type difference struct {
	why   string
	edits []edit
}

type edit struct {
	path  string
	value any // nil deletes it
}

// document returns the document of a new resource.
func (w wanted) document() ([]byte, error) {
	// Both kinds are global services. (Activity log alerts may be processed in Europe as well.)
	doc := map[string]any{"location": "Global", "properties": map[string]any{}}
	if w.isRule() {
		doc["properties"] = map[string]any{"description": Description}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	raw, _, err = w.edited(raw)
	return raw, err
}

// edited returns a document with its differences fixed and every other byte unchanged, and the list
// of differences. Without differences it is the document itself.
func (w wanted) edited(raw []byte) (out []byte, why []string, err error) {
	differences, err := w.differences(raw)
	if err != nil {
		return nil, nil, err
	}
	out = raw
	for _, d := range differences {
		why = append(why, d.why)
		for _, e := range d.edits {
			if e.value == nil {
				out, err = sjson.DeleteBytes(out, e.path)
			} else {
				out, err = sjson.SetBytes(out, e.path, e.value)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("setting %s: %w", e.path, err)
			}
		}
	}
	// A duplicate or unusually spelled key would be edited in one place and read in another.
	if left, err := w.differences(out); err != nil || len(left) > 0 {
		return nil, nil, fmt.Errorf("the document of %s cannot be edited safely: it reads "+
			"differently after the change", w.id)
	}
	return out, why, nil
}

// differences compares a document with the desired state, by meaning.
func (w wanted) differences(raw []byte) (all []difference, err error) {
	var have resource
	if err := json.Unmarshal(raw, &have); err != nil {
		return nil, fmt.Errorf("%s cannot be decoded: %w", w.id, err)
	}
	note := func(why string, edits ...edit) { all = append(all, difference{why, edits}) }
	if w.gone {
		ours, _ := receivers(raw)
		for _, at := range slices.Backward(ours) {
			note("the webhook is still in it",
				edit{path: fmt.Sprintf("properties.webhookReceivers.%d", at)})
		}
		return all, nil
	}
	tags := w.Tags()
	for _, tag := range []string{tagBy, tagInstallation} {
		if have.Tags[tag] != tags[tag] {
			note("tag "+tag, edit{"tags." + tag, tags[tag]})
		}
	}
	p := have.Properties
	if p.Enabled == nil || !*p.Enabled {
		note("enables it again", edit{"properties.enabled", true})
	}
	if w.isRule() {
		w.ruleDifferences(have, note)
	} else {
		w.groupDifferences(have, note)
	}
	return all, nil
}

func (w wanted) ruleDifferences(have resource, note func(string, ...edit)) {
	p := have.Properties
	more, fewer := without(w.scopes, p.Scopes), without(p.Scopes, w.scopes)
	scopes := w.scopes
	if w.keepScopes {
		scopes, fewer = outermost(inventory.SortIDs(slices.Concat(w.scopes, p.Scopes))), nil
		more = without(scopes, p.Scopes)
	}
	if len(more)+len(fewer) > 0 {
		var words []string
		for _, id := range more {
			words = append(words, "watches "+string(id)+", too")
		}
		for _, id := range fewer {
			words = append(words, "no longer watches "+string(id))
		}
		note(strings.Join(words, "; "), edit{"properties.scopes", scopes})
	}
	if !slices.Equal(meanings(p.Condition.AllOf), meanings(conditions())) {
		note("its conditions", edit{"properties.condition.allOf", conditions()})
	}
	tells := false
	for _, a := range p.Actions.ActionGroups {
		tells = tells || a.ActionGroupID.Equal(w.group)
	}
	if !tells {
		note("tells action group "+w.group.Name(),
			edit{fmt.Sprintf("properties.actions.actionGroups.%d", len(p.Actions.ActionGroups)),
				map[string]any{"actionGroupId": w.group}})
	}
}

// without returns the IDs of a list that are not in another.
func without(ids, other []arm.ID) []arm.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id arm.ID) bool {
		return slices.ContainsFunc(other, id.Equal)
	})
}

func (w wanted) groupDifferences(have resource, note func(string, ...edit)) {
	p := have.Properties
	if p.GroupShortName == "" {
		note("short name", edit{"properties.groupShortName", ShortName})
	}
	at := fmt.Sprintf("properties.webhookReceivers.%d", len(p.WebhookReceivers))
	want := w.receiver()
	i := slices.IndexFunc(p.WebhookReceivers, func(r receiver) bool {
		return strings.EqualFold(r.Name, ReceiverName)
	})
	if i < 0 {
		note("posts to "+w.webhook.String(), edit{at, want})
		return
	}
	at = fmt.Sprintf("properties.webhookReceivers.%d.", i)
	is := p.WebhookReceivers[i]
	// a webhook must have an address, so Azure hides one that it does not show
	if is.URI != want.URI && is.URI != "" {
		why := "posts to " + shown(want.URI) + " instead of " + shown(is.URI)
		if shown(want.URI) == shown(is.URI) {
			why = "posts to another path of " + shown(want.URI)
		}
		note(why, edit{at + "serviceUri", want.URI})
	}
	if !is.Common {
		note("common alert schema", edit{at + "useCommonAlertSchema", true})
	}
	if is.Secure != want.Secure {
		note("whether it logs in to Entra ID", edit{at + "useAadAuth", want.Secure})
	}
	if !want.Secure {
		return
	}
	for _, f := range []struct{ what, path, is, want string }{
		{"object ID", "objectId", is.ObjectID, want.ObjectID}, {"application ID URI",
			"identifierUri", is.Audience, want.Audience},
		{"tenant", "tenantId", is.TenantID, want.TenantID},
	} {
		if f.want != "" && !strings.EqualFold(f.is, f.want) {
			note(f.what+" "+f.want, edit{at + f.path, f.want})
		}
	}
}
