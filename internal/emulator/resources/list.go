package resources

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// resourcesCall lists the resources of any type in a subscription or a resource group, with their
// generic fields only.
func (s *Resources) resourcesCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	n := len(c.Path)
	if n != 3 && n != 5 || !strings.EqualFold(c.Path[n-1], "resources") ||
		c.Method != http.MethodGet {
		return kernel.Reply{}, nil, false
	}
	scope := c.ID(n - 1)
	if n == 5 && s.kernel.Store.Get(scope) == nil {
		return kernel.Reply{}, s.kernel.Missing(scope), true
	}
	matches, f := kernel.ResourceFilter(c.Param("$filter"))
	if f != nil {
		return kernel.Reply{}, f, true
	}
	top := 0
	if text := c.Param("$top"); text != "" {
		var err error
		if top, err = strconv.Atoi(text); err != nil || top < 1 {
			return kernel.Reply{}, kernel.Bad("InvalidTopParameter",
				"The $top query parameter is invalid: '%s'.", text), true
		}
	}
	expand := strings.ToLower(c.Param("$expand"))
	docs := []kernel.Object{}
	for _, r := range s.kernel.Store.Below(scope) {
		if strings.Count(r.ID.Type(), "/") == 1 && kernel.Text(r.Body, "location") != "" &&
			!r.ID.Is(arm.TypeResourceGroup) && matches(r) {
			docs = append(docs, s.generic(r, expand))
		}
	}
	return kernel.Handled(s.kernel.PageOf(c, docs, top))
}

// generic returns the generic fields of a resource.
func (s *Resources) generic(r *kernel.Resource, expand string) kernel.Object {
	doc := kernel.Object{"id": string(r.ID), "name": r.ID.Name(), "type": s.kernel.KindName(r.ID)}
	for _, field := range []string{"location", "tags", "sku", "kind", "identity", "managedBy",
		"plan", "zones"} {
		if r.Body[field] != nil {
			doc[field] = kernel.CloneValue(r.Body[field])
		}
	}
	for _, f := range s.kernel.KindOf(r.ID).Facts { // the newest version's
		if strings.HasPrefix(f.Path, "sku.") {
			f.Show(kernel.Sight{R: r, Doc: doc, At: doc, Version: "9999"})
		}
	}
	for field, value := range map[string]string{
		"createdTime": r.Created.UTC().Format(time.RFC3339Nano), "changedTime": r.Changed.UTC().
				Format(time.RFC3339Nano), "provisioningState": kernel.State(r),
	} {
		if strings.Contains(expand, strings.ToLower(field)) {
			doc[field] = value
		}
	}
	return doc
}
