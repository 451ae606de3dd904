package emulator

import (
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// kind is what a resource type does beyond being kept. Every function runs under the emulator's
// lock.
type kind struct {
	name      string // in Azure's case
	tracked   bool   // has a location
	immediate bool   // its writes are done when they are answered
	// synchronous writes have an operation that has ended already.
	synchronous bool
	merges      bool // a PATCH changes more than its tags
	unknown     bool
	// alwaysCreated answers every PUT with 201.
	alwaysCreated bool
	// settle turns what was sent (in r.body) into what is stored, or refuses it. old is nil for a
	// new one.
	settle func(c *call, r, old *resource) *failure
	// stored does what follows from the write.
	stored func(c *call, r, old *resource) *failure
	// show adds to a copy of the body what is computed when it is read.
	show func(r *resource, doc object, version string)
	// facts are what Azure says in its documents by itself.
	facts []fact
	// removable refuses a delete, removed does what follows from one.
	removable func(r *resource) *failure
	removed   func(r *resource)
}

// register adds what a service says of its resource types.
func (k *kernel) register(kinds ...kind) {
	for _, kind := range kinds {
		k.kinds[kindKey(kind.name)] = &kind
	}
}

func (k *kernel) kindOf(id arm.ID) *kind {
	if kind := k.kinds[kindKey(id.Type())]; kind != nil {
		return kind
	}
	return &kind{unknown: true, immediate: true}
}

// render writes a resource as it is read at an api-version.
func (k *kernel) render(r *resource, version string) []byte {
	shows := [2]string{state(r), r.tag()}
	if raw := r.rendered[version]; raw != nil && r.renderedAs == shows {
		return raw
	}
	if r.renderedAs != shows || len(r.rendered) == maxRendered {
		r.rendered = nil
	}
	if r.rendered == nil {
		r.rendered = map[string][]byte{}
	}
	raw := encode(k.document(r, version))
	r.rendered[version], r.renderedAs = raw, shows
	return raw
}

// maxRendered is at how many api-versions a resource is kept as it was last rendered.
const maxRendered = 4

// document is render as an object.
func (k *kernel) document(r *resource, version string) object {
	doc := clone(r.body)
	doc["id"] = string(r.id)
	doc["name"] = r.id.Name()
	doc["type"] = k.kindName(r.id)
	properties, has := doc["properties"].(object)
	if has {
		properties["provisioningState"] = state(r)
	}
	if r.etag != "" && ofNetwork(r.id) {
		doc["etag"] = r.tag()
	}
	if has {
		k.network.showBack(r, doc)
	}
	if show := k.kindOf(r.id).show; show != nil {
		show(r, doc, version)
	}
	k.showFacts(r, doc, version)
	k.showNested(r, doc)
	for _, f := range k.newer(r.id, version) {
		removePath(doc, f.Path)
	}
	return doc
}

// kindName is the type in Azure's case, whatever the case of the ID.
func (k *kernel) kindName(id arm.ID) string {
	if kind := k.kinds[kindKey(id.Type())]; kind != nil {
		return kind.name
	}
	return id.Type()
}

// spelled is an ID with its words in Azure's case, whatever the case they came in; the names in it
// keep theirs.
func (k *kernel) spelled(id arm.ID) arm.ID {
	segments := strings.Split(string(id), "/")
	for i := 1; i+1 < len(segments); i += 2 { // pairs of a word and a name
		switch strings.ToLower(segments[i]) {
		case "subscriptions", "providers":
			segments[i] = strings.ToLower(segments[i])
		case "resourcegroups":
			segments[i] = "resourceGroups"
		default:
			words := strings.Split(k.kindName(arm.ID(strings.Join(segments[:i+2], "/"))), "/")
			segments[i] = words[len(words)-1]
			if segments[i-2] == "providers" {
				segments[i-1] = words[0]
			}
		}
	}
	return arm.ID(strings.Join(segments, "/"))
}

func kindKey(resourceType string) string { return strings.ToLower(resourceType) }

func state(r *resource) string {
	if r.deleting {
		return "Deleting"
	}
	switch {
	case r.busyUntil.After(time.Now()) && r.doing != "":
		return r.doing
	case r.busyUntil.After(time.Now()):
		return "Updating"
	case r.failed != nil:
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

// newerFields are some of the real ones (Microsoft.Network's API specifications); clients with
// older api-versions lose them on Azure too.
var newerFields = []NewerField{
	{arm.TypeSubnet, "properties.defaultOutboundAccess", "2023-09-01"},
	{arm.TypeSubnet, "properties.sharingScope", "2023-09-01"},
	{arm.TypeSubnet, "properties.ipamPoolPrefixAllocations", "2024-05-01"},
	{arm.TypeVNet, "properties.encryption", "2021-08-01"},
	{arm.TypeVNet, "properties.privateEndpointVNetPolicies", "2024-03-01"},
	{typePolicyDefinition, "systemData", "2021-06-01"},
	{typePolicyAssignment, "systemData", "2021-06-01"},
}

func (k *kernel) newer(id arm.ID, version string) []NewerField {
	var out []NewerField
	for _, list := range [][]NewerField{newerFields, k.opts.Newer} {
		for _, f := range list {
			if version < f.Since && id.Is(f.Type) {
				out = append(out, f)
			}
		}
	}
	return out
}

// dropNewer removes from a sent document what the api-version does not know.
func (k *kernel) dropNewer(id arm.ID, body object, version string) {
	for _, f := range k.newer(id, version) {
		removePath(body, f.Path)
	}
}

func removePath(doc object, path string) {
	names := strings.Split(path, ".")
	if at := objectAt(doc, names[:len(names)-1]...); at != nil {
		delete(at, names[len(names)-1])
	}
}
