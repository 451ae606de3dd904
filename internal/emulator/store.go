package emulator

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// resource is a stored document.
type resource struct {
	id   arm.ID // in the case it was created with
	body object // what was sent and what Azure adds, without what is computed when it is read
	etag string
	// settled is the ETag from settles on, when the operation of the last write ends; "" for no
	// such operation.
	settled string
	settles time.Time
	fresh   bool // the last write made it
	// asOf is the date at which it counts as created, if a call set one.
	asOf time.Time
	// busyUntil is when the operation on it ends; until then it is Updating.
	busyUntil time.Time
	doing     string   // the state it is in until then, "" for Updating
	failed    *failure // how that operation ends, where it fails
	deleting  bool     // on its way out
	created   time.Time
	changed   time.Time
	// rendered is the document as bytes, nil when something it shows has changed.
	rendered map[string][]byte // by api-version
	// renderedAs is the state and the ETag that rendered shows.
	renderedAs [2]string

	// children are the subnets and peerings that came inside a virtual network, on their way into
	// the store; keepChildren leaves the subnets there are as they are.
	children     []*resource
	keepChildren bool
	// seats are the addresses it will take in subnets once it is stored.
	seats []seat
}

// newResource makes a resource of a document that was sent, without what only Azure may say.
func (k *kernel) newResource(id arm.ID, sent object, old *resource) *resource {
	body := clone(sent)
	for _, field := range []string{"id", "name", "type", "etag", "systemData"} {
		delete(body, field)
	}
	if body["properties"] == nil {
		body["properties"] = object{}
	}
	delete(objectAt(body, "properties"), "provisioningState")
	if old != nil {
		id = old.id // a resource keeps the case it was created with
	}
	return &resource{id: k.spelled(id), body: body, etag: newETag()}
}

func newETag() string { return `W/"` + uuid.NewString() + `"` }

// store holds the documents, and who is linked to whom. Its caller holds the lock.
type store struct {
	subscriptions []string
	resources     map[string]*resource            // by ID.Key()
	byType        map[string]map[string]*resource // by lower-case type, then ID.Key()
	// indexes are told of what is stored and removed.
	indexes []index
	// dirty are the keys of resources that changed since they were last kept on disk; nil when
	// nothing keeps them.
	dirty map[string]bool
	// undo is what a write under way may have to take back.
	undo *undo
}

// index finds resources by something in their documents.
type index interface {
	added(r *resource)
	removed(r *resource)
}

func newStore() *store {
	return &store{
		resources: map[string]*resource{},
		byType:    map[string]map[string]*resource{},
	}
}

func (s *store) addSubscription(id string) { s.subscriptions = append(s.subscriptions, id) }

func (s *store) hasSubscription(id string) bool {
	return slices.ContainsFunc(s.subscriptions, func(have string) bool {
		return strings.EqualFold(have, id)
	})
}

// get returns a resource by its ID in any case, or nil.
func (s *store) get(id arm.ID) *resource {
	r := s.resources[id.Key()]
	if s.undo != nil {
		s.undo.noted(id.Key(), r)
	}
	return r
}

// put stores a resource.
func (s *store) put(r *resource) {
	s.remove(r.id)
	s.resources[r.id.Key()] = r
	t := strings.ToLower(r.id.Type())
	if s.byType[t] == nil {
		s.byType[t] = map[string]*resource{}
	}
	s.byType[t][r.id.Key()] = r
	for _, index := range s.indexes {
		index.added(r)
	}
	s.touchAround(r.id)
}

// remove forgets a resource.
func (s *store) remove(id arm.ID) {
	r := s.get(id)
	if r == nil {
		return
	}
	delete(s.resources, id.Key())
	if s.dirty != nil {
		s.dirty[id.Key()] = true
	}
	delete(s.byType[strings.ToLower(id.Type())], id.Key())
	for _, index := range s.indexes {
		index.removed(r)
	}
	s.touchAround(id)
}

// touch makes a resource be rendered anew.
func (s *store) touch(id arm.ID) {
	if r := s.get(id); r != nil {
		s.changed(r)
	}
}

// changed notes that something a resource shows, or what has to be kept of it, is not what it was.
func (s *store) changed(r *resource) {
	r.rendered = nil
	if s.dirty != nil {
		s.dirty[r.id.Key()] = true
	}
}

// touchAround does so for a resource and the parent that shows it.
func (s *store) touchAround(id arm.ID) {
	s.touch(id)
	s.touch(id.Parent())
}

// list returns the resources of a type whose ID starts with the scope, sorted by key.
func (s *store) list(resourceType string, scope arm.ID) []*resource {
	prefix := scope.Key() + "/"
	all := s.byType[strings.ToLower(resourceType)]
	var keys []string
	for key := range all {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var out []*resource
	for _, key := range keys {
		if s.undo != nil && len(keys) < manyResources {
			s.undo.noted(key, all[key])
		}
		out = append(out, all[key])
	}
	return out
}

// manyResources of a type are not copied because a write lists them all: it changes the ones that
// it looks at by name.
const manyResources = 100

// below returns all resources whose ID starts with the scope, sorted by key.
func (s *store) below(scope arm.ID) []*resource {
	prefix := scope.Key() + "/"
	var out []*resource
	for _, key := range slices.Sorted(maps.Keys(s.resources)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, s.resources[key])
		}
	}
	return out
}

// seat is an address that an IP configuration takes in a subnet.
type seat struct {
	subnet arm.ID
	addr   netip.Addr
	holder arm.ID
}
