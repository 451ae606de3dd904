package emulator

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

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
