package emulator

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// resourcesCall lists the resources of any type in a subscription or a resource group: the generic
// part of each only.
func (s *resources) resourcesCall(c *call) (reply, *failure, bool) {
	n := len(c.path)
	if n != 3 && n != 5 || !strings.EqualFold(c.path[n-1], "resources") ||
		c.method != http.MethodGet {
		return reply{}, nil, false
	}
	scope := arm.ID("/" + strings.Join(c.path[:n-1], "/"))
	if n == 5 && s.kernel.store.get(scope) == nil {
		return reply{}, s.kernel.missing(scope), true
	}
	matches, f := resourceFilter(c.param("$filter"))
	if f != nil {
		return reply{}, f, true
	}
	top := 0
	if text := c.param("$top"); text != "" {
		var err error
		if top, err = strconv.Atoi(text); err != nil || top < 1 {
			return reply{}, fail(http.StatusBadRequest, "InvalidTopParameter",
				"The $top query parameter is invalid: '%s'.", text), true
		}
	}
	expand := strings.ToLower(c.param("$expand"))
	docs := []object{}
	for _, r := range s.kernel.store.below(scope) {
		if strings.Count(r.id.Type(), "/") == 1 && text(r.body, "location") != "" &&
			!r.id.Is(arm.TypeResourceGroup) && matches(r) {
			docs = append(docs, s.generic(r, expand))
		}
	}
	answer, f := s.kernel.pageOf(c, docs, top)
	return answer, f, true
}

// generic is what a list of anything says of a resource.
func (s *resources) generic(r *resource, expand string) object {
	doc := object{"id": string(r.id), "name": r.id.Name(), "type": s.kernel.kindName(r.id)}
	for _, field := range []string{"location", "tags", "sku", "kind", "identity", "managedBy",
		"plan", "zones"} {
		if r.body[field] != nil {
			doc[field] = cloneValue(r.body[field])
		}
	}
	for _, f := range s.kernel.kindOf(r.id).facts { // the newest version's
		if strings.HasPrefix(f.path, "sku.") {
			f.show(sight{r: r, doc: doc, at: doc, version: "9999"})
		}
	}
	for field, value := range map[string]string{
		"createdTime": r.created.UTC().Format(time.RFC3339Nano), "changedTime": r.changed.UTC().
				Format(time.RFC3339Nano), "provisioningState": state(r),
	} {
		if strings.Contains(expand, strings.ToLower(field)) {
			doc[field] = value
		}
	}
	return doc
}

var resourceTerm = regexp.MustCompile(`(?i)^\s*(?:(\w+)\s+(eq|ne)\s+'([^']*)'|(substringof|startswith)\(\s*('[^']*'|\w+)\s*,\s*('[^']*'|\w+)\s*\))\s*$`)

// resourceFilter reads a $filter: terms joined by and, and these by or.
func resourceFilter(filter string) (func(*resource) bool, *failure) {
	if strings.TrimSpace(filter) == "" {
		return func(*resource) bool { return true }, nil
	}
	var ways [][]func(*resource) bool
	for _, way := range regexp.MustCompile(`(?i)\s+or\s+`).Split(filter, -1) {
		var terms []func(*resource) bool
		tag := ""
		for _, term := range regexp.MustCompile(`(?i)\s+and\s+`).Split(way, -1) {
			m := resourceTerm.FindStringSubmatch(strings.Trim(term, "() "+"\t"))
			if m == nil {
				m = resourceTerm.FindStringSubmatch(term)
			}
			if m == nil {
				return nil, invalidFilter(filter)
			}
			test, f := resourceTest(m, &tag)
			if f != nil {
				return nil, f
			}
			terms = append(terms, test)
		}
		ways = append(ways, terms)
	}
	return func(r *resource) bool {
		for _, terms := range ways {
			all := true
			for _, test := range terms {
				all = all && test(r)
			}
			if all {
				return true
			}
		}
		return false
	}, nil
}

func invalidFilter(filter string) *failure {
	return fail(http.StatusBadRequest, "InvalidFilterInQueryString",
		"Invalid $filter '%s' specified in the query string.", filter)
}

// resourceTest is one term of a filter; tag is the tag's name that a term before it has named.
func resourceTest(m []string, tag *string) (func(*resource) bool, *failure) {
	field, op, value := strings.ToLower(m[1]), strings.ToLower(m[2]), m[3]
	if function := strings.ToLower(m[4]); function != "" {
		field, value = strings.ToLower(m[6]), strings.Trim(m[5], "'")
		op = "contains"
		if function == "startswith" {
			field, value, op = strings.ToLower(m[5]), strings.Trim(m[6], "'"), "prefix"
		}
	}
	compare := func(have string) bool {
		switch op {
		case "ne":
			return !strings.EqualFold(have, value)
		case "contains":
			return strings.Contains(strings.ToLower(have), strings.ToLower(value))
		case "prefix":
			return strings.HasPrefix(strings.ToLower(have), strings.ToLower(value))
		}
		return strings.EqualFold(have, value)
	}
	tagged := func(name, wanted func(string) bool) func(*resource) bool {
		return func(r *resource) bool {
			for k, v := range objectAt(r.body, "tags") {
				if name(k) && wanted(fmt.Sprint(v)) {
					return true
				}
			}
			return false
		}
	}
	anything := func(string) bool { return true }
	switch field {
	case "resourcetype":
		return func(r *resource) bool { return compare(r.id.Type()) }, nil
	case "resourcegroup":
		return func(r *resource) bool { return compare(r.id.ResourceGroup()) }, nil
	case "name":
		return func(r *resource) bool { return compare(r.id.Name()) }, nil
	case "location":
		return func(r *resource) bool { return compare(text(r.body, "location")) }, nil
	case "tagname":
		*tag = value
		return tagged(compare, anything), nil
	case "tagvalue":
		name := *tag
		return tagged(func(k string) bool { return name == "" || strings.EqualFold(k, name) },
			compare), nil
	}
	return nil, invalidFilter(field)
}
