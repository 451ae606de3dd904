package deployments

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// whatIfCall answers with the changes that a deployment would make. Clients poll for the result, as
// on Azure.
func (s *Deployments) whatIfCall(c *kernel.Call, id arm.ID) (kernel.Reply, *kernel.Failure) {
	run, f := s.deploymentOf(c, id)
	if f != nil {
		return kernel.Reply{}, f
	}
	result := kernel.Object{"status": "Succeeded"}
	if f := s.preflight(run); f != nil {
		result = kernel.Object{"status": "Failed", "error": f.Document()}
	} else {
		result["properties"] = s.whatIf(run, strings.EqualFold(
			run.asked.Object("whatIfSettings").Text("resultFormat"), "ResourceIdOnly"))
	}
	answer := s.kernel.Accepted(c, kernel.Encode(result))
	delete(answer.Header, "Azure-AsyncOperation")
	return answer, nil
}

// whatIf lists the changes, by ID. The results of reference() are not known: as on Azure, the
// expression is shown instead (deploy-what-if).
func (s *Deployments) whatIf(run *deploymentRun, short bool) kernel.Object {
	changes, diagnostics := []kernel.Object{}, []any{}
	named := map[string]bool{}
	for _, p := range run.planned() {
		named[p.ID.Key()] = true
		if p.ID.Is(TypeDeployment) {
			if p.Hidden != "" {
				diagnostics = append(diagnostics, kernel.Object{"level": "Warning",
					"code": "NestedDeploymentShortCircuited", "target": string(p.ID),
					"message": "A nested deployment got short-circuited and all its resources " +
						"got skipped from validation: " + p.Hidden})
			}
			continue
		}
		changes = append(changes, s.whatIfOf(run, p, short))
	}
	if run.id.ResourceGroup() != "" {
		for _, r := range s.kernel.Store.Below(run.id.Group()) {
			if strings.Count(r.ID.Type(), "/") != 1 || r.ID.Is(TypeDeployment) ||
				named[r.ID.Key()] || kernel.Text(r.Body, "location") == "" {
				continue
			}
			change := kernel.Object{"resourceId": string(r.ID), "changeType": "Ignore"}
			if !short {
				doc := plainDocument(s.kernel.Document(r, kernel.NetworkVersion), string(r.ID), "")
				change["before"], change["after"] = doc, doc
			}
			changes = append(changes, change)
		}
	}
	slices.SortFunc(changes, func(a, b kernel.Object) int {
		return strings.Compare(strings.ToLower(kernel.Text(a, "resourceId")),
			strings.ToLower(kernel.Text(b, "resourceId")))
	})
	out := kernel.Object{"correlationId": run.State.Correlation, "changes": changes}
	if len(diagnostics) > 0 {
		out["diagnostics"] = diagnostics
	}
	return out
}

// whatIfOf returns the change of one resource.
func (s *Deployments) whatIfOf(run *deploymentRun, p plannedResource, short bool) kernel.Object {
	change := kernel.Object{"resourceId": string(p.ID), "changeType": "Create"}
	unsupported := func(why string) kernel.Object {
		change["changeType"], change["unsupportedReason"] = "Unsupported", why
		return change
	}
	after, f := kernel.DecodeObject(resourceBody(p.Body))
	if f != nil {
		return unsupported(f.Message)
	}
	after["id"], after["name"], after["type"], after["apiVersion"] = string(p.ID), p.ID.Name(),
		s.kernel.KindName(p.ID), p.APIVersion
	for name, v := range after {
		if v == nil { // such as the zones that az leaves empty
			delete(after, name)
		}
	}
	answer, f := run.call(http.MethodGet, p.ID, p.APIVersion, nil)
	switch {
	case f != nil && f.Status == http.StatusNotFound:
		if !short {
			change["after"] = after
		}
		return change
	case f != nil:
		return unsupported(f.Code + ": " + f.Message)
	case onlyIfNotExists(p.Body):
		change["changeType"] = "Ignore"
		return change
	case short:
		change["changeType"] = "Deploy"
		return change
	}
	doc, f := kernel.DecodeObject(answer.Body)
	if f != nil {
		return unsupported(f.Message)
	}
	before := plainDocument(doc, string(p.ID), p.APIVersion)
	if l := kernel.Text(before, "location"); l != "" &&
		kernel.NormalLocation(kernel.Text(after, "location")) == l {
		after["location"] = l
	}
	change["before"], change["after"] = before, after
	change["changeType"] = "NoChange"
	if delta := differences("", before, after); len(delta) > 0 {
		change["changeType"], change["delta"] = "Modify", delta
	}
	return change
}

// plainDocument returns a resource without the fields that only Azure writes.
func plainDocument(doc kernel.Object, id, version string) kernel.Object {
	for _, l := range network.Links {
		if arm.ID(id).Is(l.To) {
			delete(kernel.ObjectAt(doc, "properties"), strings.TrimSuffix(l.Back, "[]"))
		}
	}
	if arm.ID(id).Is(arm.TypeVNet) {
		for _, s := range kernel.ListAt(doc, "properties", "subnets") {
			plainDocument(s, kernel.Text(s, "id"), "")
		}
	}
	for _, v := range doc {
		plainValue(v, arm.ID(id))
	}
	delete(doc, "etag")
	delete(doc, "systemData")
	if version != "" {
		doc["id"], doc["apiVersion"] = id, version
	}
	return doc
}

// plainValue replaces the IDs of parts of the resource with their names.
func plainValue(v any, whole arm.ID) {
	switch v := v.(type) {
	case kernel.Object:
		for _, name := range []string{"etag", "provisioningState", "resourceGuid", "systemData"} {
			delete(v, name)
		}
		if authorization.Below(arm.ID(kernel.Text(v, "id")), whole) && v["name"] != nil {
			delete(v, "id")
			delete(v, "type")
		}
		for _, item := range v {
			plainValue(item, whole)
		}
	case []any:
		for _, item := range v {
			plainValue(item, whole)
		}
	}
}

// differences lists what differs between two objects: the members of objects by their path, lists
// by their elements.
func differences(at string, before, after kernel.Object) []kernel.Object {
	out := []kernel.Object{}
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, there := before[kernel.KeyIn(before, name)]; !there {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		path := strings.TrimPrefix(at+"."+name, ".")
		was, is := before[kernel.KeyIn(before, name)], after[kernel.KeyIn(after, name)]
		if at == "" && name == "apiVersion" || emptyValue(was) && emptyValue(is) {
			continue
		}
		out = append(out, difference(path, was, is)...)
	}
	return out
}

// emptyValue reports whether a value is empty: Azure fills in empty values.
func emptyValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case kernel.Object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == ""
}

func difference(path string, was, is any) []kernel.Object {
	if a, isObject := was.(kernel.Object); isObject {
		if b, both := is.(kernel.Object); both {
			return differences(path, a, b)
		}
	}
	if a, isList := was.([]any); isList {
		if b, both := is.([]any); both {
			children := elements(a, b)
			if len(children) == 0 {
				return nil
			}
			return []kernel.Object{{"path": path, "propertyChangeType": "Array",
				"children": children}}
		}
	}
	switch {
	case is == nil:
		return []kernel.Object{{"path": path, "propertyChangeType": "Delete", "before": was}}
	case was == nil:
		return []kernel.Object{{"path": path, "propertyChangeType": "Create", "after": is}}
	case sameValue(was, is):
		return nil
	}
	return []kernel.Object{{"path": path, "propertyChangeType": "Modify", "before": was,
		"after": is}}
}

func sameValue(a, b any) bool {
	s, isS := a.(string)
	t, isT := b.(string)
	if isS && isT && strings.HasPrefix(s, "/subscriptions/") {
		return strings.EqualFold(s, t)
	}
	return reflect.DeepEqual(a, b)
}

// elements compares lists: elements with names by name, others by position.
func elements(before, after []any) []kernel.Object {
	out := []kernel.Object{}
	used := make([]bool, len(after))
	find := func(i int, v any) int {
		o, _ := v.(kernel.Object)
		for j, w := range after {
			p, _ := w.(kernel.Object)
			if name := kernel.Text(o, "name"); !used[j] && name != "" &&
				strings.EqualFold(name, kernel.Text(p, "name")) || !used[j] && sameValue(v, w) {
				return j
			}
		}
		if o != nil && kernel.Text(o, "name") == "" && i < len(after) && !used[i] {
			return i
		}
		return -1
	}
	for i, v := range before {
		path := strconv.Itoa(i)
		j := find(i, v)
		if j < 0 {
			out = append(out,
				kernel.Object{"path": path, "propertyChangeType": "Delete", "before": v})
			continue
		}
		used[j] = true
		a, isObject := v.(kernel.Object)
		b, both := after[j].(kernel.Object)
		if !isObject || !both {
			continue
		}
		if children := differences("", a, b); len(children) > 0 {
			out = append(out,
				kernel.Object{"path": path, "propertyChangeType": "Modify", "children": children})
		}
	}
	for j, v := range after {
		if !used[j] {
			out = append(out,
				kernel.Object{"path": strconv.Itoa(j), "propertyChangeType": "Create", "after": v})
		}
	}
	return out
}
