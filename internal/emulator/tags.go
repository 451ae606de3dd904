package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
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

// tagsCall handles the tags of anything as a resource of their own:
// {scope}/providers/Microsoft.Resources/tags/default.
func (s *resources) tagsCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if n < 6 || !strings.HasSuffix(c.key(), "/providers/microsoft.resources/tags/default") {
		return reply{}, nil, false
	}
	scope := arm.ID("/" + strings.Join(c.path[:n-4], "/"))
	r := s.kernel.store.get(scope)
	if r == nil && scope.Is(arm.TypeSubscription) {
		r = &resource{id: scope, body: object{}}
		s.kernel.store.put(r)
	}
	if r == nil {
		return reply{}, s.kernel.missing(scope), true
	}
	tags := maps.Clone(objectAt(r.body, "tags"))
	if tags == nil {
		tags = object{}
	}
	switch c.method {
	case http.MethodGet:
	case http.MethodPut, http.MethodPatch:
		sent, f := decodeObject(c.body)
		if f != nil {
			return reply{}, f, true
		}
		properties := object{"tags": objectAt(sent, "properties")["tags"]}
		if f := checkTags(properties); f != nil {
			return reply{}, f, true
		}
		operation := "Replace"
		if c.method == http.MethodPatch {
			operation = text(sent, "operation")
		}
		if tags, f = changeTags(tags, objectAt(properties, "tags"), operation); f != nil {
			return reply{}, f, true
		}
		if f := checkTags(object{"tags": tags}); f != nil {
			return reply{}, f, true
		}
		s.kernel.setTags(r, tags)
		s.kernel.record(c, scope+"/providers/Microsoft.Resources/tags/default", "write", nil)
	case http.MethodDelete:
		s.kernel.setTags(r, object{})
		s.kernel.record(c, scope+"/providers/Microsoft.Resources/tags/default", "delete", nil)
		return reply{status: http.StatusOK}, nil, true
	default:
		return reply{}, notFound(c), true
	}
	return ok(object{
		"id": fmt.Sprintf("%s/providers/Microsoft.Resources/tags/default", r.id), "name": "default",
		"type": "Microsoft.Resources/tags", "properties": object{"tags": tags},
	}), nil, true
}

// changeTags applies a PATCH of tags: names compare without case, and Delete takes those whose
// value is the same.
func changeTags(have, sent object, operation string) (object, *failure) {
	named := func(name string) string {
		for k := range have {
			if strings.EqualFold(k, name) {
				return k
			}
		}
		return name
	}
	switch strings.ToLower(operation) {
	case "replace":
		have = maps.Clone(sent)
	case "merge":
		for k, v := range sent {
			have[named(k)] = v
		}
	case "delete":
		for k, v := range sent {
			if name := named(k); have[name] == v {
				delete(have, name)
			}
		}
	default:
		return nil, fail(http.StatusBadRequest, "InvalidRequestContent", "The tags operation "+
			"'%s' is invalid. The supported operations are Merge, Replace and Delete.", operation)
	}
	if have == nil {
		have = object{}
	}
	return have, nil
}
