package resources

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// tagsCall handles the tags of any scope as a resource:
// {scope}/providers/Microsoft.Resources/tags/default.
func (s *Resources) tagsCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	n := len(c.Path)
	if n < 6 || !strings.HasSuffix(c.Key(), "/providers/microsoft.resources/tags/default") {
		return kernel.Reply{}, nil, false
	}
	scope := c.ID(n - 4)
	r := s.kernel.Store.Get(scope)
	if scope.Is(arm.TypeSubscription) {
		r = s.subscriptionDocument(c, scope)
	}
	if r == nil {
		return kernel.Reply{}, s.kernel.Missing(scope), true
	}
	tags := maps.Clone(kernel.ObjectAt(r.Body, "tags"))
	if tags == nil {
		tags = kernel.Object{}
	}
	switch c.Method {
	case http.MethodGet:
	case http.MethodPut, http.MethodPatch:
		sent, f := kernel.DecodeObject(c.Body)
		if f != nil {
			return kernel.Reply{}, f, true
		}
		properties := kernel.Object{"tags": kernel.ObjectAt(sent, "properties")["tags"]}
		if f := kernel.CheckTags(properties); f != nil {
			return kernel.Reply{}, f, true
		}
		operation := "Replace"
		if c.Method == http.MethodPatch {
			operation = kernel.Text(sent, "operation")
		}
		if tags, f = changeTags(tags, kernel.ObjectAt(properties, "tags"), operation); f != nil {
			return kernel.Reply{}, f, true
		}
		if f := kernel.CheckTags(kernel.Object{"tags": tags}); f != nil {
			return kernel.Reply{}, f, true
		}
		s.kernel.SetTags(r, tags)
		s.kernel.Record(c, scope+"/providers/Microsoft.Resources/tags/default", "write", nil)
	case http.MethodDelete:
		s.kernel.SetTags(r, kernel.Object{})
		s.kernel.Record(c, scope+"/providers/Microsoft.Resources/tags/default", "delete", nil)
		return kernel.Reply{Status: http.StatusOK}, nil, true
	default:
		return kernel.Reply{}, kernel.NotFound(c), true
	}
	return kernel.OK(kernel.Object{
		"id": fmt.Sprintf("%s/providers/Microsoft.Resources/tags/default", r.ID), "name": "default",
		"type": "Microsoft.Resources/tags", "properties": kernel.Object{"tags": tags},
	}), nil, true
}

// subscriptionDocument returns what is stored of a subscription, its tags, for a call.
func (s *Resources) subscriptionDocument(c *kernel.Call, id arm.ID) *kernel.Resource {
	r := s.kernel.Store.Get(id)
	if r == nil {
		r = &kernel.Resource{ID: id, Body: kernel.Object{}}
		if c.Method != http.MethodGet {
			s.kernel.Store.Put(r)
		}
	}
	return r
}

// changeTags applies a PATCH of tags: names compare without case, and Delete removes those with the
// same value.
func changeTags(have, sent kernel.Object, operation string) (kernel.Object, *kernel.Failure) {
	switch strings.ToLower(operation) {
	case "replace":
		have = maps.Clone(sent)
	case "merge":
		for k, v := range sent {
			have[kernel.KeyIn(have, k)] = v
		}
	case "delete":
		for k, v := range sent {
			if name := kernel.KeyIn(have, k); have[name] == v {
				delete(have, name)
			}
		}
	default:
		return nil, kernel.Bad("InvalidRequestContent", "The tags operation '%s' is invalid. The "+
			"supported operations are Merge, Replace and Delete.", operation)
	}
	if have == nil {
		have = kernel.Object{}
	}
	return have, nil
}
