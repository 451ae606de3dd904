package emulator

import (
	"net/http"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// patchCall updates a resource: its tags, which it replaces, or, of some types and of all that are
// not known here, whatever is sent, as a JSON merge.
func (k *kernel) patchCall(c *call, id arm.ID) (reply, *failure) {
	r := k.store.get(id)
	if r == nil {
		return reply{}, k.missing(id)
	}
	kind := k.kindOf(id)
	if !kind.tracked && !kind.unknown {
		return reply{}, fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The method PATCH is not supported for %s.", id)
	}
	sent, f := decodeObject(c.body)
	if f == nil {
		f = checkTags(sent)
	}
	if f == nil {
		f = k.precondition(c, id, r)
	}
	if f == nil {
		f = k.busy(id)
	}
	if f != nil {
		return reply{}, f
	}
	if kind.merges || kind.unknown {
		body := clone(r.body)
		merge(body, sent)
		stored, f := k.putResource(c, id, body)
		k.record(c, id, "write", f)
		if f != nil {
			return reply{}, f
		}
		return k.started(c, stored, reply{status: http.StatusOK, header: map[string]string{},
			body: k.render(stored, c.version)}), nil
	}
	if sent["tags"] != nil {
		k.setTags(r, objectAt(sent, "tags"))
	}
	k.record(c, id, "write", nil)
	return reply{status: http.StatusOK, header: map[string]string{}, body: k.render(r, c.version)},
		nil
}

// merge is RFC 7396.
func merge(into, from object) {
	for k, v := range from {
		inner, isObject := v.(object)
		old, wasObject := into[k].(object)
		switch {
		case v == nil:
			delete(into, k)
		case isObject && wasObject:
			merge(old, inner)
		default:
			into[k] = cloneValue(v)
		}
	}
}

// maxTags is how many one resource can have.
const maxTags = 50

func checkTags(o object) *failure {
	tags, isObject := o["tags"].(object)
	if o["tags"] != nil && !isObject {
		return fail(http.StatusBadRequest, "InvalidRequestContent",
			"The request content was invalid: tags is not an object.")
	}
	for name, value := range tags {
		if _, isText := value.(string); !isText {
			return fail(http.StatusBadRequest, "InvalidTagValue",
				"The value of tag '%s' is invalid: %v.", name, value)
		}
	}
	if len(tags) > maxTags {
		return fail(http.StatusBadRequest, "InvalidTagCount",
			"The number of tags %d exceeds the maximum of %d.", len(tags), maxTags)
	}
	return nil
}

// setTags replaces a resource's tags, which changes the resource.
func (k *kernel) setTags(r *resource, tags object) {
	r.body["tags"] = clone(tags)
	r.changed = time.Now()
	k.store.changed(r)
	if r.etag != "" {
		r.retag(time.Time{})
	}
	if retagged := k.kindOf(r.id).retagged; retagged != nil {
		retagged(r)
	}
}
