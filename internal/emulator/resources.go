package emulator

import (
	"net/http"
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
