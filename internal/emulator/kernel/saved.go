package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"
)

// savedResource is a resource, with the state that its type saves in addition to its document.
type savedResource struct {
	*Resource
	Extra json.RawMessage `json:"extra,omitempty"`
}

// keepResource writes a resource, or deletes it if it no longer exists.
func (d *disk) keepResource(part *bbolt.Bucket, key string) error {
	r := d.Store.Resources[key]
	if r == nil {
		return part.Delete([]byte(key))
	}
	s := savedResource{Resource: r}
	if extra := d.KindOf(r.ID).Extra; extra != nil {
		s.Extra = extra(r)
	}
	return put(part, []byte(key), s)
}

func (d *disk) restoreResource(s savedResource) error {
	d.Store.Put(s.Resource)
	if restored := d.KindOf(s.ID).Restored; restored != nil {
		return restored(s.Resource, s.Extra)
	}
	return nil
}

// address is where a server listens, and its certificate authority, so that clients find it again.
type address struct {
	HTTPS string `json:"https,omitempty"`
	HTTP  string `json:"http,omitempty"`
	CA    []byte `json:"ca,omitempty"`    // certificate, DER
	CAKey []byte `json:"caKey,omitempty"` // SEC 1, DER
}

// Thing is state that is saved as a whole.
type Thing struct {
	Name    string
	Save    func() any
	Restore func(raw []byte) error
}

// ThingAt returns the thing that a variable holds.
func ThingAt[T any](name string, at *T) Thing {
	return Thing{name, func() any { return *at },
		func(raw []byte) error { return decodeKept(raw, at) }}
}

// changedThings returns the things that differ from what was last written.
func (d *disk) changedThings() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, thing := range d.things {
		raw, err := json.Marshal(thing.Save())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", thing.Name, err)
		}
		if !bytes.Equal(raw, d.wrote[thing.Name]) {
			out[thing.Name] = raw
		}
	}
	return out, nil
}

// Resumer continues a service's work after a restart: before operations in the activity log end,
// and after. Ends reports whether the service itself ends an operation.
type Resumer struct {
	First, Last func()
	Ends        func(ActivityRecord) bool
}

// resume continues running operations.
func (d *disk) resume() {
	under := map[string]ActivityRecord{}
	for _, r := range d.Activity {
		if delete(under, r.OperationID); r.Status == ActivityAccepted {
			under[r.OperationID] = r
		}
	}
	for _, s := range d.services {
		if s.Resume.First != nil {
			s.Resume.First()
		}
	}
	for _, id := range slices.Sorted(maps.Keys(under)) {
		if !slices.ContainsFunc(d.services, func(s Service) bool {
			return s.Resume.Ends != nil && s.Resume.Ends(under[id])
		}) {
			d.At(under[id].Ends, func() { d.Note(under[id].Ended(nil)) })
		}
	}
	for _, s := range d.services {
		if s.Resume.Last != nil {
			s.Resume.Last()
		}
	}
}
