package kernel

import (
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// patch updates a resource. It replaces its tags or, for some types and for all unknown ones,
// merges the whole document as JSON.
func (q request) patch(id arm.ID) (Reply, *Failure) {
	r := q.Store.Get(id)
	if r == nil {
		return Reply{}, q.Missing(id)
	}
	kind := q.KindOf(id)
	if !kind.Tracked && !kind.unknown {
		return Reply{}, Fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The method PATCH is not supported for %s.", id)
	}
	sent, f := DecodeObject(q.c.Body)
	if f == nil {
		f = CheckTags(sent)
	}
	if f == nil {
		f = q.precondition(id, r)
	}
	if f == nil {
		f = q.Busy(id)
	}
	if f != nil {
		return Reply{}, f
	}
	if kind.Merges || kind.unknown {
		kind.Accept(sent)
		body := Clone(r.Body)
		merge(body, sent)
		stored, f := q.PutResource(q.c, id, body)
		q.Record(q.c, id, "write", f)
		if f != nil {
			return Reply{}, f
		}
		return q.Started(q.c, stored, Reply{Status: http.StatusOK,
			Body: q.Render(stored, q.c.Version)}), nil
	}
	if sent["tags"] != nil {
		q.SetTags(r, ObjectAt(sent, "tags"))
	}
	q.Record(q.c, id, "write", nil)
	return Reply{Status: http.StatusOK, Body: q.Render(r, q.c.Version)}, nil
}

// merge merges as RFC 7396 says.
func merge(into, from Object) {
	for k, v := range from {
		inner, isObject := v.(Object)
		old, wasObject := into[k].(Object)
		switch {
		case v == nil:
			delete(into, k)
		case isObject && wasObject:
			merge(old, inner)
		default:
			into[k] = CloneValue(v)
		}
	}
}

// KeepLeftOut fills in what a request leaves out, or sets to null, from the old document.
func KeepLeftOut(sent, old Object) {
	for name, value := range old {
		inner, isObject := sent[name].(Object)
		had, wasObject := value.(Object)
		switch {
		case isObject && wasObject:
			KeepLeftOut(inner, had)
		case sent[name] == nil && value != nil:
			sent[name] = CloneValue(value)
		}
	}
}

// maxTags is how many one resource can have.
const maxTags = 50

func CheckTags(o Object) *Failure {
	tags, isObject := o["tags"].(Object)
	if o["tags"] != nil && !isObject {
		return Bad("InvalidRequestContent",
			"The request content was invalid: tags is not an object.")
	}
	for name, value := range tags {
		if _, isText := value.(string); !isText {
			return Bad("InvalidTagValue", "The value of tag '%s' is invalid: %v.", name, value)
		}
	}
	if len(tags) > maxTags {
		return Bad("InvalidTagCount",
			"The number of tags %d exceeds the maximum of %d.", len(tags), maxTags)
	}
	return nil
}

// SetTags replaces a resource's tags, which changes the resource.
func (k *Kernel) SetTags(r *Resource, tags Object) {
	r.Body["tags"] = Clone(tags)
	r.Changed = time.Now()
	k.Store.Changed(r)
	if r.ETag != "" {
		r.Retag(time.Time{})
	}
	if retagged := k.KindOf(r.ID).Retagged; retagged != nil {
		retagged(r)
	}
}
