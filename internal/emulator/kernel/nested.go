package kernel

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// ItemList is a list in a document whose items are also resources: writing one writes the document.
type ItemList struct {
	Name     string
	ReadOnly bool
}

// showNested adds fields of the parent to the items of such lists.
func (k *Kernel) showNested(r *Resource, doc Object) {
	kind := k.KindOf(r.ID)
	if kind.Parts {
		for list := range ObjectAt(doc, "properties") {
			for _, item := range ListAt(ObjectAt(doc, "properties"), list) {
				if Text(item, "name") != "" && ObjectAt(item, "properties") != nil {
					k.ShowItem(r, list, item)
				}
			}
		}
	}
	for _, list := range kind.Lists {
		for _, item := range ListAt(ObjectAt(doc, "properties"), list.Name) {
			k.ShowItem(r, list.Name, item)
		}
	}
}

func (k *Kernel) ShowItem(parent *Resource, list string, item Object) {
	item["id"] = string(parent.ID.Child(list, Text(item, "name")))
	item["etag"] = parent.Tag()
	item["type"] = k.KindName(parent.ID) + "/" + list
	if p := ObjectAt(item, "properties"); p != nil {
		p["provisioningState"] = State(parent)
	}
}

// nestedCall handles such items by their own IDs.
func (k *Kernel) nestedCall(c *Call) (Reply, *Failure, bool) {
	n := len(c.Path)
	if n < 9 || n > 10 {
		return Reply{}, nil, false
	}
	id := arm.ID("/" + strings.Join(c.Path[:8], "/"))
	for _, list := range k.KindOf(id).Lists {
		if !strings.EqualFold(c.Path[8], list.Name) {
			continue
		}
		parent := k.Store.Get(id)
		if parent == nil {
			return Reply{}, k.Missing(id), true
		}
		items := ListAt(ObjectAt(k.Document(parent, c.Version), "properties"), list.Name)
		switch {
		case n == 9 && c.Method == http.MethodGet:
			answer, f := k.Page(c, items, nil)
			return answer, f, true
		case n == 9, list.ReadOnly && c.Method != http.MethodGet && c.Method != http.MethodHead:
			return Reply{}, NotFound(c), true
		}
		answer, f := k.itemCall(c, parent, list.Name, items)
		return answer, f, true
	}
	return Reply{}, nil, false
}

// itemCall handles one item of a parent's list.
func (k *Kernel) itemCall(c *Call, parent *Resource, list string, items []Object) (Reply,
	*Failure) {
	name := c.Path[9]
	id := parent.ID.Child(list, name)
	named := func(o Object) bool { return strings.EqualFold(Text(o, "name"), name) }
	i := slices.IndexFunc(items, named)
	switch {
	case c.Method == http.MethodGet && i < 0:
		if g, leaves := k.leaving.at(id); leaves {
			return Reply{Status: http.StatusOK, Body: g.doc}, nil
		}
		return Reply{}, k.Missing(id)
	case c.Method == http.MethodGet:
		return Reply{Status: http.StatusOK, Header: tagHeader(parent), Body: Encode(items[i])}, nil
	case c.Method == http.MethodDelete && i < 0:
		if g, leaves := k.leaving.at(id); leaves {
			return k.AcceptedUntil(c, &Operation{Ends: g.ends}), nil
		}
		return Reply{Status: http.StatusNoContent}, nil
	}
	old := parent // an item has its parent's ETag, while it is there
	if i < 0 {
		old = nil
	}
	if f := k.precondition(c, id, old); f != nil {
		return Reply{}, f
	}
	if f := k.Busy(parent.ID); f != nil {
		return Reply{}, f
	}
	body := Clone(parent.Body)
	all, _ := ObjectAt(body, "properties")[list].([]any)
	status, verb := http.StatusOK, "write"
	switch c.Method {
	case http.MethodPut:
		sent, f := DecodeObject(c.Body)
		if f != nil {
			return Reply{}, f
		}
		k.KindOf(parent.ID).spelling.spellBelow(list, sent)
		sent["name"] = name
		if i < 0 {
			all, status = append(all, any(sent)), http.StatusCreated
		} else {
			all[i] = sent
		}
	case http.MethodDelete:
		all, verb = slices.Delete(all, i, i+1), "delete"
	default:
		return Reply{}, NotFound(c)
	}
	ObjectAt(body, "properties")[list] = all
	stored, f := k.PutResource(c, parent.ID, body)
	k.Record(c, id, verb, f)
	if f != nil {
		return Reply{}, f
	}
	if verb == "delete" {
		k.leaving.add(id, items[i], time.Now().Add(k.OperationTime(c)))
		return k.Accepted(c, nil), nil
	}
	items = ListAt(ObjectAt(k.Document(stored, c.Version), "properties"), list)
	i = slices.IndexFunc(items, named)
	return k.Started(c, stored, Reply{Status: status, Header: map[string]string{},
		Body: Encode(items[i])}), nil
}
