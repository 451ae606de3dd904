package iac

import (
	"cmp"
	"encoding/json"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// after makes the snapshots of the resulting and of the present network.
func (w *whatIf) after() {
	w.reading.After = w.snapshot(func(c *whatIfChange) *armtemplate.Object {
		if strings.EqualFold(c.kind, "Delete") {
			return nil
		}
		return cmp.Or(c.after, c.before)
	})
	w.reading.Before = w.snapshot(func(c *whatIfChange) *armtemplate.Object {
		if c.before == nil &&
			(strings.EqualFold(c.kind, "Ignore") || strings.EqualFold(c.kind, "NoChange")) {
			return c.after
		}
		return c.before
	})
}

func (w *whatIf) snapshot(of func(*whatIfChange) *armtemplate.Object) *inventory.Snapshot {
	s := inventory.NewSnapshot()
	add := func(id arm.ID, o *armtemplate.Object) {
		if id.Is(arm.TypeSubnet) && propertyOf(o, inventory.PropertyTable) == unresolved {
			delete(s.Subnets, id.Key())
			s.Unread[id.Key()] = inventory.Unread{ID: id,
				Message: "its route table depends on the deployment itself"}
			return
		}
		if err := addPlain(s, id, o); err != nil {
			w.note(subnetPlace(string(id)), false, "it is not checked: "+err.Error())
		}
	}
	// networks first: a separate subnet says more than its network
	for _, own := range []bool{false, true} {
		for _, c := range w.changes {
			o := of(c)
			if o == nil || c.id.Is(arm.TypeSubnet) != own ||
				c.id.Is("Microsoft.Resources/deployments") ||
				c.id.Is(arm.TypeCluster+"/agentPools") || c.id.Is(arm.TypeRouteTable+"/routes") {
				continue
			}
			add(c.id, o)
			if c.id.Is(arm.TypeVNet) {
				if o.Object("properties").Get("subnets") == nil {
					o = cmp.Or(c.before, o)
				}
				for _, sub := range o.Object("properties").Objects("subnets") {
					if sub.Text("name") != "" {
						add(c.id.Child("subnets", sub.Text("name")), sub)
					}
				}
			}
		}
	}
	return s
}

// addPlain adds a resource to a snapshot, without expressions that what-if did not resolve.
func addPlain(s *inventory.Snapshot, id arm.ID, o *armtemplate.Object) error {
	if o == nil {
		return nil
	}
	doc := plainObject(o)
	doc["id"] = string(id)
	if properties, is := doc["properties"].(map[string]any); is && id.Is(arm.TypeVNet) {
		delete(properties, "subnets")
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return s.Add(raw)
}

// subnetsIn returns the subnets that a network's document lists, by name.
func subnetsIn(o *armtemplate.Object) map[string]*armtemplate.Object {
	out := map[string]*armtemplate.Object{}
	for _, s := range o.Object("properties").Objects("subnets") {
		if s.Text("name") != "" {
			out[s.Text("name")] = s
		}
	}
	return out
}

// propertyOf returns a property in a subnet's document, "" for none, and unresolved for an
// expression that what-if could not resolve.
func propertyOf(o *armtemplate.Object, p inventory.Property) string {
	value := o.Object("properties").Get(string(p))
	if link, is := value.(*armtemplate.Object); is {
		value = link.Get("id")
	}
	text, _ := value.(string)
	if strings.HasPrefix(text, "[") {
		return unresolved
	}
	return text
}

// unresolved stands for a value that depends on the deployment itself: what-if shows its expression
// (Azure/arm-template-whatif#46 has one).
const unresolved = "[]"
