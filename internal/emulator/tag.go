package emulator

import (
	"net/http"
	"time"
)

// tag is a resource's ETag now. It changes when a write begins and once more when the operation
// ends: in every recorded
// write the answer's ETag was not the one that the resource had afterwards.
func (r *resource) tag() string {
	if r.settled != "" && !r.settles.After(time.Now()) {
		return r.settled
	}
	return r.etag
}

// lastTag is the ETag that a resource has once the operation on it has ended, for who waits for
// that.
func (r *resource) lastTag() string {
	if r.settled != "" {
		return r.settled
	}
	return r.etag
}

// retag gives a resource the ETags of a write whose operation ends at a time.
func (r *resource) retag(ends time.Time) {
	r.etag, r.settled, r.settles = newETag(), "", time.Time{}
	if ends.After(time.Now()) {
		r.settled, r.settles = newETag(), ends
	}
}

// shareTag gives a resource the ETags of another one.
func (r *resource) shareTag(with *resource) {
	r.etag, r.settled, r.settles = with.etag, with.settled, with.settles
}

// tagHeader is the ETag header of a GET. Only Microsoft.Network sends one, and its PUTs have none.
func tagHeader(r *resource) map[string]string {
	if r.etag == "" || !ofNetwork(r.id) {
		return map[string]string{}
	}
	return map[string]string{"ETag": r.tag()}
}

// compared is what a PUT of a resource of the network has to change to count as a change; nil for
// other types.
func (k *kernel) compared(r *resource) []byte {
	if r == nil || !ofNetwork(r.id) {
		return nil
	}
	doc := k.document(r, networkVersion)
	delete(doc, "tags") // a PUT that changes nothing else is as quick
	dropStates(doc)
	return encode(doc)
}

// dropStates removes what tells of a write alone.
func dropStates(value any) {
	switch v := value.(type) {
	case object:
		delete(v, "etag")
		delete(v, "provisioningState")
		for _, inner := range v {
			dropStates(inner)
		}
	case []any:
		for _, inner := range v {
			dropStates(inner)
		}
	case []object:
		for _, inner := range v {
			dropStates(inner)
		}
	}
}

// calm ends the operation of a write that changed nothing: it is Succeeded at once, with a new ETag
// all the same.
func (k *kernel) calm(r *resource) {
	all := []*resource{r}
	if together := k.kindOf(r.id).together; together != nil {
		all = together(r)
	}
	for _, each := range all {
		each.busyUntil, each.doing = time.Time{}, ""
		if each.settled != "" {
			each.etag, each.settled, each.settles = each.settled, "", time.Time{}
		}
		k.store.changed(each)
	}
}

// putHeader are the headers of the answer to a write, in addition to its operation's.
func (k *kernel) putHeader(c *call, r *resource, status int) map[string]string {
	header := map[string]string{}
	if status == http.StatusCreated && k.kindOf(r.id).located {
		header["Location"] = c.base + string(r.id) + "?api-version=" + c.version
	}
	return header
}
