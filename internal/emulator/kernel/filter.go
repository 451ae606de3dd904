package kernel

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/lazy"
)

var resourceTerm = lazy.Regexp(`(?i)^\s*(?:(\w+)\s+(eq|ne)\s+'([^']*)'|(substringof|startswith)\(\s*('[^']*'|\w+)\s*,\s*('[^']*'|\w+)\s*\))\s*$`)

// AndWord and orWord are the words between the terms of a $filter.
var AndWord, orWord = lazy.Regexp(`(?i)\s+and\s+`), lazy.Regexp(`(?i)\s+or\s+`)

// ResourceFilter reads a $filter. Its terms are joined by and, and groups of these by or.
func ResourceFilter(filter string) (func(*Resource) bool, *Failure) {
	if strings.TrimSpace(filter) == "" {
		return func(*Resource) bool { return true }, nil
	}
	var ways [][]func(*Resource) bool
	for _, way := range orWord().Split(filter, -1) {
		var terms []func(*Resource) bool
		tag := ""
		for _, term := range AndWord().Split(way, -1) {
			m := resourceTerm().FindStringSubmatch(strings.Trim(term, "() "+"\t"))
			if m == nil {
				m = resourceTerm().FindStringSubmatch(term)
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
	return func(r *Resource) bool {
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

func invalidFilter(filter string) *Failure {
	return Bad("InvalidFilterInQueryString",
		"Invalid $filter '%s' specified in the query string.", filter)
}

// resourceTest returns one term of a filter; tag is the tag's name that an earlier term named.
func resourceTest(m []string, tag *string) (func(*Resource) bool, *Failure) {
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
	tagged := func(name, wanted func(string) bool) func(*Resource) bool {
		return func(r *Resource) bool {
			for k, v := range ObjectAt(r.Body, "tags") {
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
		return func(r *Resource) bool { return compare(r.ID.Type()) }, nil
	case "resourcegroup":
		return func(r *Resource) bool { return compare(r.ID.ResourceGroup()) }, nil
	case "name":
		return func(r *Resource) bool { return compare(r.ID.Name()) }, nil
	case "location":
		return func(r *Resource) bool { return compare(Text(r.Body, "location")) }, nil
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
