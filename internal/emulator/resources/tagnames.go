package resources

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// tagNames is the field of a subscription's document with its predefined tags: their names, and the
// values of each. Clients do not see it.
const tagNames = "routekeeper.tagNames"

// tagNamesCall handles the predefined tags of a subscription, and lists those in use with them.
func (s *Resources) tagNamesCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	n := len(c.Path)
	if n < 3 || n > 6 || n == 5 || !strings.EqualFold(c.Path[0], "subscriptions") ||
		!strings.EqualFold(c.Path[2], "tagNames") ||
		n == 6 && !strings.EqualFold(c.Path[4], "tagValues") {
		return kernel.Reply{}, nil, false
	}
	subscription := s.subscriptionDocument(c, arm.ID("/subscriptions/"+c.Path[1]))
	if n == 3 && c.Method == http.MethodGet {
		return kernel.Handled(s.kernel.PageObjects(c, s.tagsInUse(subscription)))
	}
	if n == 3 || c.Method != http.MethodPut && c.Method != http.MethodDelete {
		return kernel.Reply{}, kernel.NotFound(c), true
	}
	s.kernel.Remember(subscription.ID)
	in := kernel.ObjectAt(subscription.Body, tagNames)
	if in == nil {
		in = kernel.Object{}
		subscription.Body[tagNames] = in
	}
	if n == 6 {
		if in = kernel.ObjectAt(in, c.Path[3]); in == nil {
			return kernel.Reply{}, kernel.NotFound(c), true
		}
	}
	_, had := in[c.Path[n-1]]
	answer := kernel.Reply{Status: http.StatusOK}
	switch {
	case c.Method == http.MethodDelete && had:
		delete(in, c.Path[n-1])
	case c.Method == http.MethodDelete:
		answer.Status = http.StatusNoContent
	default:
		if !had {
			in[c.Path[n-1]], answer.Status = kernel.Object{}, http.StatusCreated
		}
		answer.Body = kernel.Encode(tagDocument(string(c.ID(n)), c.Path[n-1], 0))
	}
	s.kernel.Store.Changed(subscription)
	return answer, nil, true
}

// tagsInUse returns a subscription's tags, predefined or of a resource, and how many resources
// have each name and value.
func (s *Resources) tagsInUse(subscription *kernel.Resource) []kernel.Object {
	counts := map[string]map[string]int{}
	count := func(name, value string, n int) {
		if counts[name] == nil {
			counts[name] = map[string]int{}
		}
		counts[name][value] += n
	}
	for name, values := range kernel.ObjectAt(subscription.Body, tagNames) {
		counts[name] = map[string]int{}
		for value := range values.(kernel.Object) {
			count(name, value, 0)
		}
	}
	for _, r := range s.kernel.Store.Resources {
		if strings.EqualFold(r.ID.Subscription(), subscription.ID.Subscription()) {
			for name, value := range kernel.ObjectAt(r.Body, "tags") {
				count(name, value.(string), 1) // CheckTags has seen it
			}
		}
	}
	out := []kernel.Object{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		id, total, values := string(subscription.ID)+"/tagNames/"+name, 0, []any{}
		for _, value := range slices.Sorted(maps.Keys(counts[name])) {
			total += counts[name][value]
			values = append(values, tagDocument(id+"/tagValues/"+value, value, counts[name][value]))
		}
		doc := tagDocument(id, name, total)
		doc["values"] = values
		out = append(out, doc)
	}
	return out
}

// tagDocument returns the document of a tag's name, or of one of its values.
func tagDocument(id, text string, n int) kernel.Object {
	doc := kernel.Object{"id": id, "count": kernel.Object{"type": "Total", "value": n}}
	if strings.Contains(id, "/tagValues/") {
		doc["tagValue"] = text
	} else {
		doc["tagName"], doc["values"] = text, []any{}
	}
	return doc
}
