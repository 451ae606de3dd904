package kernel

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Kind is the behaviour of a resource type beyond storing documents. Every function runs under the
// emulator's lock.
type Kind struct {
	Name      string // in Azure's case
	Tracked   bool   // has a location
	Immediate bool   // its writes are done when they are answered
	// Synchronous reports whether a write ends before it is answered. At most the answer names an
	// operation that has ended. Nil: no write does.
	Synchronous func(r, old *Resource) bool
	Merges      bool // a PATCH changes more than its tags
	Keeps       bool // a PUT keeps the properties, sku and identity that it leaves out
	unknown     bool
	// PutStatus is the status of every PUT; 0: 201 if it creates, otherwise 200.
	PutStatus int
	// Settle turns a request's body (r.body) into the stored document, or refuses it. old is nil
	// for a new resource.
	Settle func(c *Call, r, old *Resource) *Failure
	// Stored does the work after a write.
	Stored func(c *Call, r, old *Resource) *Failure
	// Show adds, to a copy of the body, the fields that are computed at a read.
	Show func(r *Resource, doc Object, version string)
	// Facts are the values that Azure adds to its documents.
	Facts []Fact
	// ReadOnly are the properties that only Azure writes: a PUT drops them.
	ReadOnly []string
	// Newer has the api-versions from which on some fields exist, by path, such as
	// properties.defaultOutboundAccess. At an older one a GET hides them, and a PUT drops them.
	Newer map[string]string
	// spelling has the names of its properties (spelling.go).
	spelling names
	// Removable refuses a delete, Removed does the work after one.
	Removable func(r *Resource) *Failure
	Removed   func(r *Resource)
	// ChildRemoved does the work after the delete of a child, Retagged after a change of the tags.
	ChildRemoved, Retagged func(r *Resource)
	// Busy refuses a write while an operation runs on the resource. nil means the usual behavior of
	// Azure.
	Busy func(r *Resource) *Failure
	// Deleting answers a DELETE that has its own operation.
	Deleting func(c *Call, r *Resource) (answer Reply, f *Failure, handled bool)
	// Within answers calls to paths below a resource of the type, unless these are paths of other
	// types' resources. rest has the words of the path in lower case.
	Within func(c *Call, r *Resource, rest []string) (answer Reply, f *Failure, handled bool)
	// Together are the resources that are written with one of this type.
	Together func(r *Resource) []*Resource
	// Missing is the code and the message (with {name} and {id}) of the 404; "": Azure's usual
	// ones.
	Missing [2]string
	// Located adds a Location header to the answer of the PUT that creates the resource.
	Located bool
	// IgnoresMatch is set for a type whose writes ignore If-Match.
	IgnoresMatch bool
	// Linkless is set for a type whose documents contain IDs of other resources that do not count
	// as links.
	Linkless bool
	// Lists are the lists in a document whose items are also resources. If Parts is set, the items
	// of all lists in the document have IDs to which other resources link.
	Lists []ItemList
	Parts bool
	// Gets throttles GETs of each resource in addition to ARM's limits.
	Gets *OwnBucket
	// Extra returns state to save in addition to its document. Restored loads it.
	Extra    func(r *Resource) json.RawMessage
	Restored func(r *Resource, extra json.RawMessage) error
}

// kinds has the resource types of all services, and their behavior.
type kinds struct {
	Kinds map[string]*Kind  // by type in lower case
	waits map[string][2]int // Service.Waits
}

// KindOf returns the type of a resource. If no service knows a type, its documents are stored as
// they are sent.
func (k *kinds) KindOf(id arm.ID) *Kind {
	if kind := k.Kinds[strings.ToLower(id.Type())]; kind != nil {
		return kind
	}
	return &Kind{unknown: true, Immediate: true}
}

// Render returns a resource as it is read at an api-version.
func (k *Kernel) Render(r *Resource, version string) []byte {
	shows := [2]string{State(r), r.Tag()}
	if raw := r.rendered[version]; raw != nil && r.renderedAs == shows {
		return raw
	}
	if r.rendered == nil || r.renderedAs != shows || len(r.rendered) == maxRendered {
		r.rendered = map[string][]byte{}
	}
	raw := Encode(k.Document(r, version))
	r.rendered[version], r.renderedAs = raw, shows
	return raw
}

// maxRendered is the number of api-versions for which a rendered resource is cached.
const maxRendered = 4

// Document returns what Render returns, as an object.
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
	k.KindOf(r.ID).DropNewer(doc, version)
	return doc
}

// KindName returns the type in Azure's case, whatever the case of the ID.
func (k *kinds) KindName(id arm.ID) string {
	if kind := k.Kinds[strings.ToLower(id.Type())]; kind != nil {
		return kind.Name
	}
	return id.Type()
}

// Spelled returns an ID with its words in Azure's case; the names keep theirs.
func (k *kinds) Spelled(id arm.ID) arm.ID {
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

func State(r *Resource) string {
	if r.Deleting {
		return "Deleting"
	}
	switch {
	case r.BusyUntil.After(time.Now()):
		return cmp.Or(r.Doing, "Updating")
	case r.Failed != nil:
		return "Failed"
	}
	return "Succeeded"
}

// DropNewer removes the fields of a document that an api-version does not know.
func (kind *Kind) DropNewer(doc Object, version string) {
	for path, since := range kind.Newer {
		if version < since {
			removePath(doc, path)
		}
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
