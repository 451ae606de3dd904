package kernel

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// arm answers one authenticated request.
func (q request) arm() (answer Reply, f *Failure) {
	if q.c.Version == "" {
		return Reply{}, Bad("MissingApiVersionParameter",
			"The api-version query parameter (?api-version=) is required for all requests.")
	}
	for _, s := range q.services {
		if s.Prepare != nil {
			s.Prepare(q.c)
		}
	}
	defer q.Lock()()
	q.Happen()
	q.watch()
	defer q.recovered(&answer, &f)
	return q.ArmLocked(q.c)
}

// ArmLocked works like arm for callers that hold the lock already: the clusters' cloud providers.
func (k *Kernel) ArmLocked(c *Call) (Reply, *Failure) {
	for _, above := range k.above {
		if answer, f, handled := above(c); handled {
			return answer, f
		}
	}
	if f := k.Guard.Admit(c); f != nil {
		return Reply{}, f
	}
	for _, s := range k.services {
		if s.Refuse != nil {
			if f := s.Refuse(c); f != nil {
				return Reply{}, f
			}
		}
	}
	for _, special := range k.specials {
		if answer, f, handled := special(c); handled {
			return answer, f
		}
	}
	if answer, f, handled := k.on(c).within(); handled {
		return answer, f
	}
	id, err := arm.ParseID("/" + strings.Join(c.Path, "/"))
	if err != nil {
		answer, f := k.on(c).list()
		of, err := arm.ParseID("/" + strings.Join(c.Path[:max(0, len(c.Path)-1)], "/"))
		if err == nil && f != nil && k.KindOf(of).unknown { // an action, or a list of children
			f.Message += " This emulator stores " + of.Type() + " as a plain document, without " +
				"actions."
		}
		return answer, f
	}
	answer, f := k.on(c).resource(id)
	if f == nil && k.KindOf(id).unknown {
		answer.Set(PlainHeader, id.Type())
	}
	return answer, f
}

// PlainHeader names the type of a resource that the emulator stores as clients send it, because it
// does not know the type.
const PlainHeader = "X-Routekeeper-Plain-Document"

// Special answers for endpoints that are neither a stored resource nor a list of them. It reports
// whether the call is for it; every call is for at most one.
type Special func(c *Call) (answer Reply, f *Failure, handled bool)

// Handled returns the answer of a Special to a call that is for it.
func Handled(answer Reply, f *Failure) (Reply, *Failure, bool) { return answer, f, true }

func OK(doc any) Reply { return Reply{Status: http.StatusOK, Body: Encode(doc)} }

func NotFound(c *Call) *Failure {
	return Fail(http.StatusNotFound, "NotFound", "No resource or endpoint at '%s'.", c.Key())
}

// resource handles a call to one resource by its ID.
func (q request) resource(id arm.ID) (Reply, *Failure) {
	if group := id.Group(); !id.Is(arm.TypeResourceGroup) && group != "" &&
		q.Store.Get(group) == nil {
		return Reply{}, q.Missing(group)
	}
	switch q.c.Method {
	case http.MethodGet, http.MethodHead:
		r := q.Store.Get(id)
		if raw, stale := q.olderState(id); stale && raw != nil {
			return Reply{Status: http.StatusOK, Body: raw}, nil
		} else if r == nil || stale {
			return q.absent(id)
		}
		if q.c.Method == http.MethodHead { // whether it exists
			return Reply{Status: http.StatusNoContent}, nil
		}
		return Reply{Status: http.StatusOK, Header: tagHeader(r),
			Body: q.Render(r, q.c.Version)}, nil
	case http.MethodPut:
		return q.PutCall(q.c, id)
	case http.MethodPatch:
		return q.patch(id)
	case http.MethodDelete:
		return q.remove(id)
	}
	return Reply{}, Fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
		"The method %s is not supported for %s.", q.c.Method, id)
}

// absent answers for a resource that does not exist, or is a child that is being deleted.
func (q request) absent(id arm.ID) (Reply, *Failure) {
	g, leaves := q.leaving.at(id)
	switch {
	case leaves && q.c.Method == http.MethodGet:
		return Reply{Status: http.StatusOK, Body: g.Doc}, nil
	case leaves && q.c.Method == http.MethodDelete:
		return q.AcceptedUntil(q.c, &Operation{Ends: g.Ends}), nil
	case q.c.Method == http.MethodDelete:
		return Reply{Status: http.StatusNoContent}, nil
	}
	return Reply{}, q.Missing(id)
}

// Missing returns Azure's 404: one code for a resource, another for a child of one.
func (k *kinds) Missing(id arm.ID) *Failure {
	if id.Is(arm.TypeResourceGroup) {
		return Fail(http.StatusNotFound, "ResourceGroupNotFound",
			"Resource group '%s' could not be found.", id.Name())
	}
	if says := k.KindOf(id).Missing; says[0] != "" {
		return &Failure{Status: http.StatusNotFound, Code: says[0],
			Message: strings.NewReplacer("{name}", id.Name(), "{id}", string(id)).Replace(says[1])}
	}
	if strings.Count(id.Type(), "/") > 1 {
		return Fail(http.StatusNotFound, "NotFound", "Resource %s not found.", id)
	}
	return Fail(http.StatusNotFound, "ResourceNotFound",
		"The Resource '%s/%s' under resource group '%s' was not found. For more details please "+
			"go to https://aka.ms/ARMResourceNotFoundFix", id.Type(), id.Name(), id.ResourceGroup())
}

// PutCall creates or replaces a resource.
func (k *Kernel) PutCall(c *Call, id arm.ID) (Reply, *Failure) {
	sent, f := DecodeObject(c.Body)
	if f != nil {
		return Reply{}, f
	}
	kind, old := k.KindOf(id), k.Store.Get(id)
	kind.Accept(sent)
	if parent := id.Parent(); strings.Count(id.Type(), "/") > 1 && k.Store.Get(parent) == nil {
		return Reply{}, Fail(http.StatusNotFound, "ParentResourceNotFound", "Can not perform "+
			"requested operation on nested resource. Parent resource '%s' not found.",
			parent.Name())
	}
	if f := k.on(c).precondition(id, old); f != nil {
		return Reply{}, f
	}
	if f := k.Busy(id); f != nil {
		return Reply{}, f
	}
	if old != nil && kind.Keeps {
		had := Object{"sku": old.Body["sku"], "properties": old.Body["properties"]}
		if sent["identity"] == nil { // the identity is one value
			had["identity"] = old.Body["identity"]
		}
		KeepLeftOut(sent, had)
	}
	stored, f := k.PutResource(c, id, sent)
	k.Record(c, id, "write", f)
	if f != nil {
		return Reply{}, f
	}
	status := http.StatusCreated
	if old != nil {
		status = http.StatusOK
	}
	answer := Reply{Status: cmp.Or(kind.PutStatus, status), Body: k.Render(stored, c.Version)}
	if answer.Status == http.StatusCreated && kind.Located {
		answer.Set("Location", c.Base+string(stored.ID)+"?api-version="+c.Version)
	}
	return k.Started(c, stored, answer), nil
}

// PutResource makes a document of a request's body and stores it, with all steps of its type.
func (k *Kernel) PutResource(c *Call, id arm.ID, sent Object) (*Resource, *Failure) {
	old := k.Store.Get(id)
	kind := k.KindOf(id)
	if _, isObject := sent["properties"].(Object); sent["properties"] != nil && !isObject {
		return nil, Bad("InvalidRequestContent",
			"The request content was invalid: properties is not an object.")
	}
	if f := CheckTags(sent); f != nil {
		return nil, f
	}
	k.Remember(id)
	before := k.compared(old)
	r := k.NewResource(id, sent, old)
	kind.DropNewer(r.Body, c.Version)
	if kind.Tracked {
		if f := checkLocation(r.Body, old); f != nil {
			return nil, f
		}
		if f := k.Fabric.SettleLinks(r, Text(r.Body, "location")); f != nil {
			return nil, f
		}
	}
	if kind.Settle != nil {
		if f := kind.Settle(c, r, old); f != nil {
			return nil, f
		}
	}
	if f := k.Addresses.Settle(r); f != nil {
		return nil, f
	}
	if kind.unknown {
		k.Log.Info("a type this emulator does not know, stored as a plain document", "type",
			id.Type(), "id", string(id))
	}
	if !kind.Immediate && (c.Fault != nil || kind.Synchronous == nil || !kind.Synchronous(r, old)) {
		occupyUntil(k, c, r, r.Doing, endOfWrite(k, c, old))
	}
	r.Created, r.Changed, r.AsOf = time.Now(), time.Now(), c.asOf
	r.Fresh = old == nil || old.Fresh && old.BusyUntil.After(time.Now())
	if old != nil {
		r.Created, r.AsOf = old.Created, old.AsOf
		k.Addresses.Leave(old)
	}
	k.Addresses.Take(r)
	k.Store.Put(r)
	if kind.Stored != nil {
		if f := kind.Stored(c, r, old); f != nil {
			return nil, f
		}
	}
	if before != nil && r.Failed == nil && !old.BusyUntil.After(time.Now()) &&
		bytes.Equal(before, k.compared(r)) {
		k.endUnchanged(r)
	}
	return r, nil
}

func checkLocation(body Object, old *Resource) *Failure {
	location := NormalLocation(Text(body, "location"))
	if location == "" {
		return Bad("LocationRequired", "The location property is required for this definition.")
	}
	if old != nil && NormalLocation(Text(old.Body, "location")) != location {
		return Fail(http.StatusConflict, "InvalidResourceLocation", "The resource '%s' already "+
			"exists in location '%s'. A resource with the same name cannot be created in "+
			"location '%s'. Please select a new resource name.",
			old.ID.Name(), Text(old.Body, "location"), location)
	}
	body["location"] = location
	return nil
}

// precondition checks If-Match and If-None-Match.
func (q request) precondition(id arm.ID, old *Resource) *Failure {
	if q.KindOf(id).IgnoresMatch {
		return nil
	}
	match, none := q.c.Header.Get("If-Match"), q.c.Header.Get("If-None-Match")
	if none == "*" && old != nil {
		return Fail(http.StatusPreconditionFailed, "PreconditionFailed",
			"The resource %s exists already.", id)
	}
	if match == "" || match == "*" && old != nil || old != nil &&
		(match == old.Tag() || match == old.Settled) {
		return nil
	}
	return Fail(http.StatusPreconditionFailed, "PreconditionFailedEtagMismatch",
		"Etag provided in if-match header %s does not match etag of resource %s in NRP data store.",
		match, id)
}

// Busy refuses a write to a resource while an operation runs on it. A virtual network and its
// subnets count as one.
func (k *Kernel) Busy(id arm.ID) *Failure {
	whole := WholeOf(id)
	r := k.Store.Get(whole)
	if r == nil || !r.BusyUntil.After(time.Now()) {
		return nil
	}
	if busy := k.KindOf(whole).Busy; busy != nil {
		return busy(r)
	}
	return Fail(http.StatusConflict, "AnotherOperationInProgress", "Another operation on this or "+
		"dependent resource is in progress. To retrieve status of the operation use uri: %s.",
		whole)
}

// remove removes a resource.
func (q request) remove(id arm.ID) (Reply, *Failure) {
	r := q.Store.Get(id)
	if r == nil {
		if id.Is(arm.TypeResourceGroup) {
			return Reply{}, q.Missing(id)
		}
		if parent := id.Parent(); ofNetwork(id) && strings.Count(id.Type(), "/") > 1 &&
			q.Store.Get(parent) == nil {
			return Reply{}, q.Missing(parent)
		}
		return q.absent(id)
	}
	if f := q.precondition(id, r); f != nil {
		return Reply{}, f
	}
	if deleting := q.KindOf(id).Deleting; deleting != nil {
		if answer, f, handled := deleting(q.c, r); handled {
			return answer, f
		}
	}
	if f := q.Busy(id); f != nil {
		return Reply{}, f
	}
	if q.c.Failing() != nil {
		q.Occupy(q.c, r, "Deleting")
		return q.Accepted(q.c, nil), nil
	}
	doc := q.Document(r, q.c.Version)
	f := q.RemoveResource(r)
	q.Record(q.c, id, "delete", f)
	if f != nil {
		return Reply{}, f
	}
	if kind := q.KindOf(id); kind.Immediate && !kind.unknown {
		return Reply{Status: http.StatusOK, Body: q.Render(r, q.c.Version)}, nil
	}
	q.leaving.add(id, doc, time.Now().Add(q.OperationTime(q.c)))
	return q.Accepted(q.c, nil), nil
}

// RemoveResource deletes a resource and its parts, or refuses.
func (k *Kernel) RemoveResource(r *Resource) *Failure {
	kind := k.KindOf(r.ID)
	k.Remember(r.ID)
	if f := k.Fabric.Unlinked(r); f != nil {
		return f
	}
	if kind.Removable != nil {
		if f := kind.Removable(r); f != nil {
			return f
		}
	}
	if kind.Removed != nil {
		kind.Removed(r)
	}
	for _, child := range k.Store.Below(r.ID) {
		if kind := k.KindOf(child.ID); kind.Removed != nil && k.Store.Get(child.ID) != nil {
			kind.Removed(child)
		}
		k.Addresses.Leave(child)
		k.Store.Remove(child.ID)
	}
	k.Addresses.Leave(r)
	k.Store.Remove(r.ID)
	if parent := k.Store.Get(r.ID.Parent()); parent != nil {
		if removed := k.KindOf(parent.ID).ChildRemoved; removed != nil {
			removed(parent)
		}
	}
	return nil
}

// list lists resources of a type in a subscription, a group or a parent.
func (q request) list() (Reply, *Failure) {
	if q.c.Method != http.MethodGet {
		return Reply{}, Fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The method %s is not supported for %s.", q.c.Method, q.c.Key())
	}
	scope, resourceType, ok := listScope(q.c.Path)
	if !ok {
		return Reply{}, NotFound(q.c)
	}
	if group := scope.Group(); group != "" && q.Store.Get(group) == nil {
		return Reply{}, q.Missing(group)
	}
	if scope.ResourceGroup() != "" && !scope.Is(arm.TypeResourceGroup) &&
		q.Store.Get(scope) == nil {
		return Reply{}, q.Missing(scope)
	}
	all := q.Store.List(resourceType, scope)
	if resourceType == arm.TypeResourceGroup { // by their tags
		matches, f := ResourceFilter(q.c.Param("$filter"))
		if f != nil {
			return Reply{}, f
		}
		all = slices.DeleteFunc(all, func(r *Resource) bool { return !matches(r) })
	}
	return q.Page(q.c, all)
}

// listScope reads the path of a list: the type, and the scope.
func listScope(path []string) (scope arm.ID, resourceType string, ok bool) {
	n := len(path)
	parent, err := arm.ParseID("/" + strings.Join(path[:n-1], "/"))
	last := path[n-1]
	switch {
	case err == nil && parent.Is(arm.TypeSubscription) && strings.EqualFold(last, "resourceGroups"):
		return parent, arm.TypeResourceGroup, true
	case err == nil && !parent.Is(arm.TypeSubscription) && !parent.Is(arm.TypeResourceGroup):
		return parent, parent.Type() + "/" + last, true
	case n >= 5 && strings.EqualFold(path[n-3], "providers"):
		scope, err := arm.ParseID("/" + strings.Join(path[:n-3], "/"))
		return scope, path[n-2] + "/" + last, err == nil
	}
	return "", "", false
}

// Page answers with one page of a list of resources, and the absolute link to the next.
func (k *Kernel) Page(c *Call, resources []*Resource) (Reply, *Failure) {
	if c.Filtered {
		resources = slices.DeleteFunc(resources, func(r *Resource) bool {
			return !k.Guard.MayRead(c.Who, r.ID)
		})
	}
	if hidden := k.Faults.hidden(c.Who); hidden != nil {
		resources = slices.DeleteFunc(slices.Clone(resources), func(r *Resource) bool {
			return hidden(r.ID)
		})
	}
	start := 0
	if token := c.Param("$skiptoken"); token != "" {
		for start < len(resources) && resources[start].ID.Key() <= token {
			start++
		}
	}
	end := min(start+k.Opts.PageSize, len(resources))
	docs := []json.RawMessage{}
	for _, r := range resources[start:end] {
		raw, stale := k.on(c).olderState(r.ID)
		if !stale {
			raw = k.Render(r, c.Version)
		}
		if raw != nil {
			docs = append(docs, raw)
		}
	}
	token := ""
	if end < len(resources) {
		token = resources[end-1].ID.Key()
	}
	return c.PageEnding(docs, token), nil
}

// PageObjects answers with one page of objects that are not stored; the token is the position.
func (k *Kernel) PageObjects(c *Call, all []Object) (Reply, *Failure) {
	return k.PageOf(c, all, 0)
}

// PageOf works like PageObjects with pages no longer than top, unless that is 0.
func (k *Kernel) PageOf(c *Call, all []Object, top int) (Reply, *Failure) {
	if c.Filtered {
		all = slices.DeleteFunc(slices.Clone(all), func(o Object) bool {
			return !k.Guard.MayRead(c.Who, arm.ID(Text(o, "id")))
		})
	}
	size := k.Opts.PageSize
	if top > 0 {
		size = min(size, top)
	}
	start, _ := strconv.Atoi(c.Param("$skiptoken")) // no token is the first page
	start = min(max(start, 0), len(all))
	end := min(start+size, len(all))
	token := ""
	if end < len(all) {
		token = strconv.Itoa(end)
	}
	return c.PageEnding(append([]Object{}, all[start:end]...), token), nil
}
