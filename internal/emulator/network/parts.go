package network

import (
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// parts are the lists of a resource type whose items have IDs and refer to each other.
type parts struct {
	lists []string
	// back is the list of back references in a part, by the list of the parts that refer to it.
	back map[string]string
	// sub are lists in parts whose items are parts, too.
	sub map[string]string
}

// emptyLists returns facts of lists of properties that are shown although they are empty.
func emptyLists(when func(kernel.Sight) bool, lists []string) []kernel.Fact {
	var out []kernel.Fact
	for _, list := range lists {
		out = append(out, kernel.Fact{Path: "properties." + list, Value: []any{}, When: when})
	}
	return out
}

// show gives the parts of a resource their IDs, and adds back references.
func (of parts) show(r *kernel.Resource, properties kernel.Object) {
	known := map[string]kernel.Object{} // the properties of each, by its ID's key
	type part struct {
		id         arm.ID
		list       string
		properties kernel.Object
	}
	var all []part
	add := func(id arm.ID, list string, item kernel.Object) {
		kernel.SetDefault(item, "properties", kernel.Object{})
		kernel.ShowPart(r, id, item)
		p := kernel.ObjectAt(item, "properties")
		known[id.Key()] = p
		all = append(all, part{id, list, p})
	}
	for _, list := range of.lists {
		for _, item := range kernel.ListAt(properties, list) {
			id := r.ID.Child(list, kernel.Text(item, "name"))
			add(id, list, item)
			if sub := of.sub[list]; sub != "" {
				for _, below := range kernel.ListAt(item, "properties", sub) {
					add(id.Child(sub, kernel.Text(below, "name")), sub, below)
				}
			}
		}
	}
	type back struct {
		target kernel.Object
		name   string
		from   arm.ID
	}
	var backs []back
	for _, from := range all {
		name := of.back[from.list]
		for field, value := range from.properties {
			for _, to := range referred(value) {
				if target := known[to.Key()]; target != nil && name != "" &&
					field != of.sub[from.list] {
					backs = append(backs, back{target, name, from.id})
				}
			}
		}
	}
	for _, b := range backs {
		if known, _ := b.target[b.name].([]any); !contains(known, b.from) {
			b.target[b.name] = append(known, arm.Link(b.from))
		}
	}
}

// referred returns the IDs in a reference, or in a list of them.
func referred(value any) []arm.ID {
	switch v := value.(type) {
	case kernel.Object:
		if id := kernel.Text(v, "id"); id != "" {
			return []arm.ID{arm.ID(id)}
		}
	case []any:
		var out []arm.ID
		for _, item := range v {
			out = append(out, referred(item)...)
		}
		return out
	}
	return nil
}

func contains(references []any, id arm.ID) bool {
	return slices.ContainsFunc(referred(references), id.Equal)
}

// drop removes from a request the fields of the parts that only Azure may write: clients send what
// they read.
func (of parts) drop(properties kernel.Object) {
	for _, list := range of.lists {
		for _, item := range kernel.ListAt(properties, list) {
			p := kernel.ObjectAt(item, "properties")
			for _, name := range of.back {
				if _, isList := p[name].([]any); isList && name != of.sub[list] {
					delete(p, name)
				}
			}
			for _, below := range kernel.ListAt(p, of.sub[list]) {
				dropReadOnly(below)
			}
			dropReadOnly(item)
		}
	}
}

func dropReadOnly(part kernel.Object) {
	for _, field := range []string{"id", "etag", "type"} {
		delete(part, field)
	}
	delete(kernel.ObjectAt(part, "properties"), "provisioningState")
}
