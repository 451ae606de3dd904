package kernel

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Resource is a stored document.
type Resource struct {
	ID arm.ID `json:"id"` // ID is in the case with which the resource was created
	// the sent document and Azure's additions, without fields that are computed at a read
	Body Object `json:"body"`
	ETag string `json:"etag,omitempty"`
	// Settled is the ETag from Settles on, when the operation of the last write ends; "" without
	// such an operation.
	Settled string    `json:"settled,omitempty"`
	Settles time.Time `json:"settles,omitzero"`
	// Fresh: the last write created it, or was accepted while it was being created.
	Fresh bool `json:"fresh,omitempty"`
	// AsOf is the date of its creation, if a call set one.
	AsOf time.Time `json:"asOf,omitzero"`
	// BusyUntil is when the operation on it ends; until then it is Updating, or what Doing says.
	BusyUntil time.Time `json:"busyUntil,omitzero"`
	Doing     string    `json:"doing,omitempty"`
	// Failed is the failure of that operation, if it fails.
	Failed   *Failure  `json:"failed,omitempty"`
	Deleting bool      `json:"deleting,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Changed  time.Time `json:"changed,omitzero"`
	// rendered is the document as bytes, nil if a field that it shows has changed.
	rendered map[string][]byte // by api-version
	// renderedAs is the state and the ETag in rendered.
	renderedAs [2]string

	// Children are the subnets and peerings of a virtual network's document, before they are
	// stored; KeepChildren leaves the existing subnets unchanged.
	Children     []*Resource `json:"-"`
	KeepChildren bool        `json:"-"`
	// Addresses are the addresses that the resource will take in subnets once it is stored.
	Addresses []TakenAddress `json:"-"`
}

// Properties returns the properties of the document.
func (r *Resource) Properties() Object { return ObjectAt(r.Body, "properties") }

// NewResource makes a resource of a request's document, without the fields that only Azure may
// write.
func (k *Kernel) NewResource(id arm.ID, sent Object, old *Resource) *Resource {
	body := Clone(sent)
	kind := k.KindOf(id)
	kind.dropReadOnly(body)
	if body["properties"] == nil {
		body["properties"] = Object{}
	}
	if old != nil {
		id = old.ID // a resource keeps the case with which it was created
	}
	return &Resource{ID: k.Spelled(id), Body: body, ETag: newETag()}
}

func newETag() string { return `W/"` + uuid.NewString() + `"` }

// store holds the documents, and their links. Its caller holds the lock.
type store struct {
	Subscriptions []string
	Resources     map[string]*Resource            // by ID.Key()
	byType        map[string]map[string]*Resource // by lower-case type, then ID.Key()
	// indexes are called for stored and removed documents.
	indexes []index
	// dirty are the keys of resources that changed since they were last saved; nil if nothing saves
	// them.
	dirty map[string]bool
	// Undo is the state to restore if the current write fails.
	Undo *undo
}

// index finds resources by the content of their documents.
type index interface {
	// Stored follows a stored document. before is the document that it replaces, or nil.
	Stored(r, before *Resource)
	Removed(r *Resource)
}

func (s *store) HasSubscription(id string) bool {
	return slices.ContainsFunc(s.Subscriptions, func(have string) bool {
		return strings.EqualFold(have, id)
	})
}

// Get returns a resource by its ID in any case, or nil.
func (s *store) Get(id arm.ID) *Resource {
	r := s.Resources[id.Key()]
	if s.Undo != nil {
		s.Undo.noted(id.Key(), r)
	}
	return r
}

// Put stores a resource.
func (s *store) Put(r *Resource) {
	before := s.take(r.ID)
	s.Resources[r.ID.Key()] = r
	t := strings.ToLower(r.ID.Type())
	if s.byType[t] == nil {
		s.byType[t] = map[string]*Resource{}
	}
	s.byType[t][r.ID.Key()] = r
	for _, index := range s.indexes {
		index.Stored(r, before)
	}
	s.TouchAround(r.ID)
}

// take removes a resource without telling the indexes, and returns it, or nil if there is none.
func (s *store) take(id arm.ID) *Resource {
	r := s.Get(id)
	if r == nil {
		return nil
	}
	delete(s.Resources, id.Key())
	if s.dirty != nil {
		s.dirty[id.Key()] = true
	}
	delete(s.byType[strings.ToLower(id.Type())], id.Key())
	return r
}

// Remove removes a resource.
func (s *store) Remove(id arm.ID) {
	r := s.take(id)
	if r == nil {
		return
	}
	for _, index := range s.indexes {
		index.Removed(r)
	}
	s.TouchAround(id)
}

// Touch makes a resource be rendered again.
func (s *store) Touch(id arm.ID) {
	if r := s.Get(id); r != nil {
		s.Changed(r)
	}
}

// Changed records that a shown or saved field of a resource has changed.
func (s *store) Changed(r *Resource) {
	r.rendered = nil
	if s.dirty != nil {
		s.dirty[r.ID.Key()] = true
	}
}

// TouchAround works like Touch for a resource and its parent.
func (s *store) TouchAround(id arm.ID) {
	s.Touch(id)
	s.Touch(id.Parent())
}

// List returns the resources of a type whose ID starts with the scope, sorted by key.
func (s *store) List(resourceType string, scope arm.ID) []*Resource {
	prefix := scope.Key() + "/"
	all := s.byType[strings.ToLower(resourceType)]
	var keys []string
	for key := range all {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var out []*Resource
	for _, key := range keys {
		if s.Undo != nil && len(keys) < manyResources {
			s.Undo.noted(key, all[key])
		}
		out = append(out, all[key])
	}
	return out
}

// manyResources is a limit. A write that lists more resources of a type does not copy them all for
// an undo. Such a write asks by name for each resource that it changes.
const manyResources = 100

// Below returns all resources whose ID starts with the scope, sorted by key.
func (s *store) Below(scope arm.ID) []*Resource {
	prefix := scope.Key() + "/"
	var out []*Resource
	for _, key := range slices.Sorted(maps.Keys(s.Resources)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, s.Resources[key])
		}
	}
	return out
}

// TakenAddress is an address that an IP configuration takes in a subnet.
type TakenAddress struct {
	Subnet arm.ID
	Addr   netip.Addr
	Holder arm.ID
}
