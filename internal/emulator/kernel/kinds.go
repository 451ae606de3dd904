package kernel

import (
	"encoding/json"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Kind is what a resource type does beyond being kept. Every function runs under the emulator's
// lock.
type Kind struct {
	Name      string // in Azure's case
	Tracked   bool   // has a location
	Immediate bool   // its writes are done when they are answered
	// Synchronous writes have an operation that has ended already.
	Synchronous bool
	Merges      bool // a PATCH changes more than its tags
	unknown     bool
	// AlwaysCreated answers every PUT with 201.
	AlwaysCreated bool
	// Settle turns what was sent (in r.body) into what is stored, or refuses it. old is nil for a
	// new one.
	Settle func(c *Call, r, old *Resource) *Failure
	// Stored does what follows from the write.
	Stored func(c *Call, r, old *Resource) *Failure
	// Show adds to a copy of the body what is computed when it is read.
	Show func(r *Resource, doc Object, version string)
	// Facts are what Azure says in its documents by itself.
	Facts []Fact
	// Removable refuses a delete, removed does what follows from one.
	Removable func(r *Resource) *Failure
	Removed   func(r *Resource)
	// ChildRemoved does what follows from the delete of a child, changed of a change of the tags.
	ChildRemoved, Retagged func(r *Resource)
	// Busy refuses a write while an operation runs on the resource; nil: as most of Azure does.
	Busy func(r *Resource) *Failure
	// Deleting answers a DELETE that is an operation with a course of its own.
	Deleting func(c *Call, r *Resource) (answer Reply, f *Failure, handled bool)
	// Together are the resources that are written with one of this type.
	Together func(r *Resource) []*Resource
	// Missing is the code and the message (with the name) of the 404; "": Azure's usual ones.
	Missing [2]string
	// Located adds where the resource is to the answer of the PUT that made it.
	Located bool
	// IgnoresMatch is for a type whose writes no If-Match refuses.
	IgnoresMatch bool
	// Linkless documents name resources without linking to them.
	Linkless bool
	// Lists are the lists in a document whose items are resources of their own, too; with parts,
	// the items of all its lists are parts with IDs that others link to.
	Lists []ItemList
	Parts bool
	// Gets throttles GETs of each resource in addition to ARM's limits.
	Gets *OwnBucket
	// Extra is what is kept of it in addition to its document; restored takes it back.
	Extra    func(r *Resource) json.RawMessage
	Restored func(r *Resource, extra json.RawMessage) error
}

func (k *Kernel) KindOf(id arm.ID) *Kind {
	if kind := k.Kinds[KindKey(id.Type())]; kind != nil {
		return kind
	}
	return &Kind{unknown: true, Immediate: true}
}

// Render writes a resource as it is read at an api-version.
func (k *Kernel) Render(r *Resource, version string) []byte {
	shows := [2]string{State(r), r.Tag()}
	if raw := r.rendered[version]; raw != nil && r.renderedAs == shows {
		return raw
	}
	if r.renderedAs != shows || len(r.rendered) == maxRendered {
		r.rendered = nil
	}
	if r.rendered == nil {
		r.rendered = map[string][]byte{}
	}
	raw := Encode(k.Document(r, version))
	r.rendered[version], r.renderedAs = raw, shows
	return raw
}

// maxRendered is at how many api-versions a resource is kept as it was last rendered.
const maxRendered = 4

// Document is render as an object.
func (k *Kernel) Document(r *Resource, version string) Object {
	doc := Clone(r.Body)
	doc["id"] = string(r.ID)
	doc["name"] = r.ID.Name()
	doc["type"] = k.KindName(r.ID)
	properties, has := doc["properties"].(Object)
	if has {
		properties["provisioningState"] = State(r)
	}
	if r.ETag != "" && ofNetwork(r.ID) {
		doc["etag"] = r.Tag()
	}
	if has {
		k.Fabric.ShowBack(r, doc)
	}
	if show := k.KindOf(r.ID).Show; show != nil {
		show(r, doc, version)
	}
	k.showFacts(r, doc, version)
	k.showNested(r, doc)
	for _, f := range k.newer(r.ID, version) {
		removePath(doc, f.Path)
	}
	return doc
}

// KindName is the type in Azure's case, whatever the case of the ID.
func (k *Kernel) KindName(id arm.ID) string {
	if kind := k.Kinds[KindKey(id.Type())]; kind != nil {
		return kind.Name
	}
	return id.Type()
}

// Spelled is an ID with its words in Azure's case, whatever the case they came in; the names in it
// keep theirs.
func (k *Kernel) Spelled(id arm.ID) arm.ID {
	segments := strings.Split(string(id), "/")
	for i := 1; i+1 < len(segments); i += 2 { // pairs of a word and a name
		switch strings.ToLower(segments[i]) {
		case "subscriptions", "providers":
			segments[i] = strings.ToLower(segments[i])
		case "resourcegroups":
			segments[i] = "resourceGroups"
		default:
			words := strings.Split(k.KindName(arm.ID(strings.Join(segments[:i+2], "/"))), "/")
			segments[i] = words[len(words)-1]
			if segments[i-2] == "providers" {
				segments[i-1] = words[0]
			}
		}
	}
	return arm.ID(strings.Join(segments, "/"))
}

func KindKey(resourceType string) string { return strings.ToLower(resourceType) }

func State(r *Resource) string {
	if r.Deleting {
		return "Deleting"
	}
	switch {
	case r.BusyUntil.After(time.Now()) && r.Doing != "":
		return r.Doing
	case r.BusyUntil.After(time.Now()):
		return "Updating"
	case r.Failed != nil:
		return "Failed"
	}
	return "Succeeded"
}

// NewerField is a field that exists from an api-version on: at an older one a GET hides it, and a
// PUT drops it.
type NewerField struct {
	Type  string // resource type
	Path  string // such as properties.defaultOutboundAccess
	Since string // api-version, such as 2023-09-01
}

func (k *Kernel) newer(id arm.ID, version string) []NewerField {
	var out []NewerField
	for _, f := range k.newerFields {
		if version < f.Since && id.Is(f.Type) {
			out = append(out, f)
		}
	}
	return out
}

// DropNewer removes from a sent document what the api-version does not know.
func (k *Kernel) DropNewer(id arm.ID, body Object, version string) {
	for _, f := range k.newer(id, version) {
		removePath(body, f.Path)
	}
}

func removePath(doc Object, path string) {
	names := strings.Split(path, ".")
	if at := ObjectAt(doc, names[:len(names)-1]...); at != nil {
		delete(at, names[len(names)-1])
	}
}

func ShowBare(r *Resource, doc Object, version string) {
	delete(ObjectAt(doc, "properties"), "provisioningState")
}
