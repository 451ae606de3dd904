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
			for _, item := range ListAt(doc, "properties", list) {
				if Text(item, "name") != "" && ObjectAt(item, "properties") != nil {
					ShowPart(r, r.ID.Child(list, Text(item, "name")), item)
				}
			}
		}
	}
	for _, list := range kind.Lists {
		for _, item := range ListAt(doc, "properties", list.Name) {
			ShowPart(r, r.ID.Child(list.Name, Text(item, "name")), item)
		}
	}
}

// ShowPart adds, to a part of a resource, what Azure adds to every part.
func ShowPart(of *Resource, id arm.ID, part Object) {
	part["id"], part["etag"], part["type"] = string(id), of.Tag(), id.Type()
	if p := ObjectAt(part, "properties"); p != nil {
		p["provisioningState"] = State(of)
	}
}

// nested handles calls to such items by their own IDs.
func (q request) nested() (Reply, *Failure, bool) {
	n := len(q.c.Path)
	if n < 9 || n > 10 {
		return Reply{}, nil, false
	}
	id := q.c.ID(8)
	for _, list := range q.KindOf(id).Lists {
		if !strings.EqualFold(q.c.Path[8], list.Name) {
			continue
		}
		parent := q.Store.Get(id)
		if parent == nil {
			return Reply{}, q.Missing(id), true
		}
		items := ListAt(q.Document(parent, q.c.Version), "properties", list.Name)
		switch {
		case n == 9 && q.c.Method == http.MethodGet:
			return Handled(q.PageObjects(q.c, items))
		case n == 9, list.ReadOnly && q.c.Method != http.MethodGet && q.c.Method != http.MethodHead:
			return Reply{}, NotFound(q.c), true
		}
		return Handled(q.item(parent, list.Name, items))
	}
	return Reply{}, nil, false
}

// within answers a call to a path below a resource, if the resource's type answers such calls.
func (q request) within() (Reply, *Failure, bool) {
	if len(q.c.Path) < 9 {
		return Reply{}, nil, false
	}
	id := q.c.ID(8)
	rest := strings.Split(strings.ToLower(strings.Join(q.c.Path[8:], "/")), "/")
	if q.KindOf(id).Within == nil || rest[0] == "providers" ||
		q.Kinds[strings.ToLower(id.Type()+"/"+rest[0])] != nil {
		return Reply{}, nil, false
	}
	r := q.Store.Get(id)
	if r == nil {
		return Reply{}, q.Missing(id), true
	}
	return q.KindOf(id).Within(q.c, r, rest)
}

// item handles a call to one item of a parent's list.
func (q request) item(parent *Resource, list string, items []Object) (Reply, *Failure) {
	name := q.c.Path[9]
	id := parent.ID.Child(list, name)
	i := IndexOf(items, name)
	switch {
	case i < 0 && (q.c.Method == http.MethodGet || q.c.Method == http.MethodDelete):
		return q.absent(id)
	case q.c.Method == http.MethodGet:
		return Reply{Status: http.StatusOK, Header: tagHeader(parent), Body: Encode(items[i])}, nil
	}
	old := parent // an item has its parent's ETag, while the item exists
	if i < 0 {
		old = nil
	}
	if f := q.precondition(id, old); f != nil {
		return Reply{}, f
	}
	if f := q.Busy(parent.ID); f != nil {
		return Reply{}, f
	}
	body := Clone(parent.Body)
	all, _ := ObjectAt(body, "properties")[list].([]any)
	status, verb := http.StatusOK, "write"
	switch q.c.Method {
	case http.MethodPut:
		sent, f := DecodeObject(q.c.Body)
		if f != nil {
			return Reply{}, f
		}
		q.KindOf(parent.ID).spelling.spellBelow(list, sent)
		sent["name"] = name
		if i < 0 {
			all, status = append(all, any(sent)), http.StatusCreated
		} else {
			all[i] = sent
		}
	case http.MethodDelete:
		all, verb = slices.Delete(all, i, i+1), "delete"
	default:
		return Reply{}, NotFound(q.c)
	}
	ObjectAt(body, "properties")[list] = all
	stored, f := q.PutResource(q.c, parent.ID, body)
	q.Record(q.c, id, verb, f)
	if f != nil {
		return Reply{}, f
	}
	if verb == "delete" {
		q.leaving.add(id, items[i], time.Now().Add(q.OperationTime(q.c)))
		return q.Accepted(q.c, nil), nil
	}
	items = ListAt(q.Document(stored, q.c.Version), "properties", list)
	return q.Started(q.c, stored,
		Reply{Status: status, Body: Encode(Named(items, name))}), nil
}
