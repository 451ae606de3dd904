package kernel

import (
	"cmp"
	"time"
)

// Tag returns a resource's ETag now. The ETag changes when a write starts and again when its
// operation ends. In every recorded write the answer's ETag differs from the one that the resource
// had afterwards.
func (r *Resource) Tag() string {
	if r.Settles.After(time.Now()) {
		return r.ETag
	}
	return r.LastTag()
}

// LastTag returns the ETag that a resource has once the operation on it has ended.
func (r *Resource) LastTag() string { return cmp.Or(r.Settled, r.ETag) }

// Retag gives a resource the ETags of a write whose operation ends at a time.
func (r *Resource) Retag(ends time.Time) {
	r.ETag, r.Settled, r.Settles = newETag(), "", time.Time{}
	if ends.After(time.Now()) {
		r.Settled, r.Settles = newETag(), ends
	}
}

// ShareTag gives a resource the ETags of another one.
func (r *Resource) ShareTag(with *Resource) {
	r.ETag, r.Settled, r.Settles = with.ETag, with.Settled, with.Settles
}

// tagHeader returns the ETag header of a GET. Only Microsoft.Network sends one; its PUTs have none.
func tagHeader(r *Resource) map[string]string {
	if r.ETag == "" || !ofNetwork(r.ID) {
		return nil
	}
	return map[string]string{"ETag": r.Tag()}
}

// compared returns the part of a network resource that must differ for a PUT to count as a change,
// or nil for other types.
func (k *Kernel) compared(r *Resource) []byte {
	if r == nil || !ofNetwork(r.ID) {
		return nil
	}
	doc := k.Document(r, NetworkVersion)
	delete(doc, "tags") // a PUT that changes only these counts as no change
	dropStates(doc)
	return Encode(doc)
}

// dropStates removes the fields that only report a write's state.
func dropStates(value any) {
	switch v := value.(type) {
	case Object:
		delete(v, "etag")
		delete(v, "provisioningState")
		for _, inner := range v {
			dropStates(inner)
		}
	case []any:
		for _, inner := range v {
			dropStates(inner)
		}
	case []Object:
		for _, inner := range v {
			dropStates(inner)
		}
	}
}

// endUnchanged ends the operation of a write that changed nothing: the resource is Succeeded at
// once, but with a new ETag.
func (k *Kernel) endUnchanged(r *Resource) {
	all := []*Resource{r}
	if together := k.KindOf(r.ID).Together; together != nil {
		all = together(r)
	}
	for _, each := range all {
		each.BusyUntil, each.Doing = time.Time{}, ""
		if each.Settled != "" {
			each.ETag, each.Settled, each.Settles = each.Settled, "", time.Time{}
		}
		k.Store.Changed(each)
	}
}
