package emulator

import (
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// itemList is a list in a document whose items are resources of their own as well: writing one is
// writing the document.
type itemList struct {
	name     string
	readOnly bool
}

// showNested adds to the items of such lists what they show of their parent.
func (k *kernel) showNested(r *resource, doc object) {
	kind := k.kindOf(r.id)
	if kind.parts {
		for list := range objectAt(doc, "properties") {
			for _, item := range listAt(objectAt(doc, "properties"), list) {
				if text(item, "name") != "" && objectAt(item, "properties") != nil {
					k.showItem(r, list, item)
				}
			}
		}
	}
	for _, list := range kind.lists {
		for _, item := range listAt(objectAt(doc, "properties"), list.name) {
			k.showItem(r, list.name, item)
		}
	}
}

func (k *kernel) showItem(parent *resource, list string, item object) {
	item["id"] = string(parent.id.Child(list, text(item, "name")))
	item["etag"] = parent.tag()
	item["type"] = k.kindName(parent.id) + "/" + list
	if p := objectAt(item, "properties"); p != nil {
		p["provisioningState"] = state(parent)
	}
}

// nestedCall handles such items by their own IDs.
func (k *kernel) nestedCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if n < 9 || n > 10 {
		return reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.path[:8], "/"))
	for _, list := range k.kindOf(id).lists {
		if !strings.EqualFold(c.path[8], list.name) {
			continue
		}
		parent := k.store.get(id)
		if parent == nil {
			return reply{}, k.missing(id), true
		}
		items := listAt(objectAt(k.document(parent, c.version), "properties"), list.name)
		switch {
		case n == 9 && c.method == http.MethodGet:
			answer, f := k.page(c, items, nil)
			return answer, f, true
		case n == 9, list.readOnly && c.method != http.MethodGet && c.method != http.MethodHead:
			return reply{}, notFound(c), true
		}
		answer, f := k.itemCall(c, parent, list.name, items)
		return answer, f, true
	}
	return reply{}, nil, false
}

// itemCall handles one item of a parent's list.
func (k *kernel) itemCall(c *call, parent *resource, list string, items []object) (reply,
	*failure) {
	name := c.path[9]
	id := parent.id.Child(list, name)
	named := func(o object) bool { return strings.EqualFold(text(o, "name"), name) }
	i := slices.IndexFunc(items, named)
	switch {
	case c.method == http.MethodGet && i < 0:
		return reply{}, k.missing(id)
	case c.method == http.MethodGet:
		return reply{status: http.StatusOK, header: tagHeader(parent), body: encode(items[i])}, nil
	case c.method == http.MethodDelete && i < 0:
		return reply{status: http.StatusNoContent}, nil
	}
	old := parent // an item has its parent's ETag, while it is there
	if i < 0 {
		old = nil
	}
	if f := k.precondition(c, id, old); f != nil {
		return reply{}, f
	}
	if f := k.busy(parent.id); f != nil {
		return reply{}, f
	}
	body := clone(parent.body)
	all, _ := objectAt(body, "properties")[list].([]any)
	status, verb := http.StatusOK, "write"
	switch c.method {
	case http.MethodPut:
		sent, f := decodeObject(c.body)
		if f != nil {
			return reply{}, f
		}
		sent["name"] = name
		if i < 0 {
			all, status = append(all, any(sent)), http.StatusCreated
		} else {
			all[i] = sent
		}
	case http.MethodDelete:
		all, verb = slices.Delete(all, i, i+1), "delete"
	default:
		return reply{}, notFound(c)
	}
	objectAt(body, "properties")[list] = all
	stored, f := k.putResource(c, parent.id, body)
	k.record(c, id, verb, f)
	if f != nil {
		return reply{}, f
	}
	if verb == "delete" {
		return k.accepted(c, nil), nil
	}
	items = listAt(objectAt(k.document(stored, c.version), "properties"), list)
	i = slices.IndexFunc(items, named)
	return k.started(c, stored, reply{status: status, header: map[string]string{},
		body: encode(items[i])}), nil
}
