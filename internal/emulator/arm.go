package emulator

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// arm answers one authenticated request.
func (k *kernel) arm(c *call) (answer reply, f *failure) {
	if c.version == "" {
		return reply{}, fail(http.StatusBadRequest, "MissingApiVersionParameter",
			"The api-version query parameter (?api-version=) is required for all requests.")
	}
	k.network.probe(c)
	k.deployments.download(c)
	defer k.lock()()
	k.happen()
	k.watch(c)
	defer k.recovered(c, &answer, &f)
	return k.armLocked(c)
}

// armLocked is arm for callers that hold the lock already: the clusters' cloud providers.
func (k *kernel) armLocked(c *call) (reply, *failure) {
	if answer, f, handled := k.resources.topCall(c); handled {
		return answer, f
	}
	if f := k.authorization.admit(c); f != nil {
		return reply{}, f
	}
	if f := k.resources.deprovisioning(c); f != nil {
		return reply{}, f
	}
	for _, special := range k.specials {
		if answer, f, handled := special(c); handled {
			return answer, f
		}
	}
	if id, err := arm.ParseID("/" + strings.Join(c.path, "/")); err == nil {
		return k.resourceCall(c, id)
	}
	return k.listCall(c)
}

// special answers for endpoints that are neither a stored resource nor a list of them. It says
// whether the call is for it; no two are for the same call.
type special func(c *call) (answer reply, f *failure, handled bool)

func ok(doc any) reply { return reply{status: http.StatusOK, body: encode(doc)} }

func notFound(c *call) *failure {
	return fail(http.StatusNotFound, "NotFound", "No resource or endpoint at '%s'.", c.key())
}

// resourceCall handles one resource by its ID.
func (k *kernel) resourceCall(c *call, id arm.ID) (reply, *failure) {
	if group := id.Group(); !id.Is(arm.TypeResourceGroup) && group != "" &&
		k.store.get(group) == nil {
		return reply{}, fail(http.StatusNotFound, "ResourceGroupNotFound",
			"Resource group '%s' could not be found.", group.Name())
	}
	switch c.method {
	case http.MethodGet, http.MethodHead:
		r := k.store.get(id)
		if raw, stale := k.was(c, id); stale && raw != nil {
			return reply{status: http.StatusOK, body: raw}, nil
		} else if r == nil || stale {
			return reply{}, k.missing(id)
		}
		if c.method == http.MethodHead { // whether it exists
			return reply{status: http.StatusNoContent}, nil
		}
		return reply{status: http.StatusOK, header: tagHeader(r), body: k.render(r, c.version)}, nil
	case http.MethodPut:
		return k.putCall(c, id)
	case http.MethodPatch:
		return k.patchCall(c, id)
	case http.MethodDelete:
		return k.deleteCall(c, id)
	}
	return reply{}, fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
		"The method %s is not supported for %s.", c.method, id)
}

// missing is Azure's 404: one code for a resource, another for a child of one.
func (k *kernel) missing(id arm.ID) *failure {
	switch {
	case id.Is(arm.TypeResourceGroup):
		return fail(http.StatusNotFound, "ResourceGroupNotFound",
			"Resource group '%s' could not be found.", id.Name())
	case id.Is(typeRoleAssignment):
		return fail(http.StatusNotFound, "RoleAssignmentNotFound",
			"The role assignment '%s' is not found.", id.Name())
	case id.Is(typeLock):
		return fail(http.StatusNotFound, "LockNotFound", "The lock '%s' could not be found.",
			id.Name())
	case id.Is(typePolicyAssignment):
		return fail(http.StatusNotFound, "PolicyAssignmentNotFound",
			"The policy assignment '%s' is not found.", id.Name())
	case id.Is(typePolicyDefinition):
		return fail(http.StatusNotFound, "PolicyDefinitionNotFound",
			"The policy definition '%s' could not be found.", id.Name())
	case strings.Count(id.Type(), "/") > 1:
		return fail(http.StatusNotFound, "NotFound", "Resource %s not found.", id)
	}
	return fail(http.StatusNotFound, "ResourceNotFound",
		"The Resource '%s/%s' under resource group '%s' was not found. For more details please "+
			"go to https://aka.ms/ARMResourceNotFoundFix",
		id.Type(), id.Name(), id.ResourceGroup())
}

// putCall creates or replaces a resource.
func (k *kernel) putCall(c *call, id arm.ID) (reply, *failure) {
	sent, f := decodeObject(c.body)
	if f != nil {
		return reply{}, f
	}
	old := k.store.get(id)
	if parent := id.Parent(); strings.Count(id.Type(), "/") > 1 && k.store.get(parent) == nil {
		return reply{}, fail(http.StatusNotFound, "ParentResourceNotFound", "Can not perform "+
			"requested operation on nested resource. Parent resource '%s' not found.",
			parent.Name())
	}
	if f := k.precondition(c, id, old); f != nil {
		return reply{}, f
	}
	if f := k.busy(id); f != nil {
		return reply{}, f
	}
	stored, f := k.putResource(c, id, sent)
	if f != nil {
		k.record(c, id, "write", f)
		return reply{}, f
	}
	k.record(c, id, "write", nil)
	status := http.StatusCreated
	if old != nil && !k.kindOf(id).alwaysCreated {
		status = http.StatusOK
	}
	return k.started(c, stored, reply{status: status, header: c.putHeader(stored, status),
		body: k.render(stored, c.version)}), nil
}

// putResource makes a document of what was sent and stores it, with all that its type asks for.
func (k *kernel) putResource(c *call, id arm.ID, sent object) (*resource, *failure) {
	old := k.store.get(id)
	kind := k.kindOf(id)
	if _, isObject := sent["properties"].(object); sent["properties"] != nil && !isObject {
		return nil, fail(http.StatusBadRequest, "InvalidRequestContent",
			"The request content was invalid: properties is not an object.")
	}
	if f := checkTags(sent); f != nil {
		return nil, f
	}
	k.remember(id)
	before := k.compared(old)
	r := k.newResource(id, sent, old)
	k.dropNewer(id, r.body, c.version)
	dropBack(r)
	if kind.tracked {
		if f := checkLocation(r.body, old); f != nil {
			return nil, f
		}
		if f := k.network.settleLinks(r, text(r.body, "location")); f != nil {
			return nil, f
		}
	}
	if kind.settle != nil {
		if f := kind.settle(c, r, old); f != nil {
			return nil, f
		}
	}
	if f := k.network.settleSeats(r); f != nil {
		return nil, f
	}
	if kind.unknown {
		k.log.Info("a type this local Azure does not know, kept as a plain document", "type",
			id.Type(), "id", string(id))
	}
	if !kind.immediate && (!kind.synchronous || c.fault != nil) {
		k.occupy(c, r, r.doing)
	}
	r.created, r.changed, r.asOf = time.Now(), time.Now(), c.asOf
	r.fresh = old == nil
	if old != nil {
		r.created, r.asOf = old.created, old.asOf
		k.network.leaveSeats(old)
	}
	k.network.takeSeats(r)
	k.store.put(r)
	k.network.givePublic(r)
	if kind.stored != nil {
		if f := kind.stored(c, r, old); f != nil {
			return nil, f
		}
	}
	if before != nil && r.failed == nil && bytes.Equal(before, k.compared(r)) {
		k.calm(r)
	}
	return r, nil
}

func checkLocation(body object, old *resource) *failure {
	location := normalLocation(text(body, "location"))
	if location == "" {
		return fail(http.StatusBadRequest, "LocationRequired",
			"The location property is required for this definition.")
	}
	if old != nil && normalLocation(text(old.body, "location")) != location {
		return fail(http.StatusConflict, "InvalidResourceLocation", "The resource '%s' already "+
			"exists in location '%s'. A resource with the same name cannot be created in "+
			"location '%s'. Please select a new resource name.",
			old.id.Name(), text(old.body, "location"), location)
	}
	body["location"] = location
	return nil
}

// normalLocation spells a location as Azure answers it: West Europe is westeurope.
func normalLocation(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// precondition checks If-Match and If-None-Match.
func (k *kernel) precondition(c *call, id arm.ID, old *resource) *failure {
	if id.Is(arm.TypeSubnet) && k.opts.IgnoreSubnetETag {
		return nil
	}
	match, none := c.header.Get("If-Match"), c.header.Get("If-None-Match")
	if none == "*" && old != nil {
		return fail(http.StatusPreconditionFailed, "PreconditionFailed",
			"The resource %s exists already.", id)
	}
	if match == "" || match == "*" && old != nil || old != nil && (match == old.tag() ||
		match == old.settled) {
		return nil
	}
	return fail(http.StatusPreconditionFailed, "PreconditionFailedEtagMismatch",
		"Etag provided in if-match header %s does not match etag of resource %s in NRP data store.",
		match, id)
}

// busy refuses a write to a resource on which an operation is running. A virtual network and its
// subnets are one.
func (k *kernel) busy(id arm.ID) *failure {
	whole := id
	for strings.Count(whole.Type(), "/") > 1 {
		whole = whole.Parent()
	}
	r := k.store.get(whole)
	if r == nil || !r.busyUntil.After(time.Now()) {
		return nil
	}
	if whole.Is(arm.TypeCluster) {
		return k.aks.clusterBusy(r)
	}
	if whole.Is(arm.TypeRouteTable) {
		return beingUpdated(r)
	}
	return fail(http.StatusConflict, "AnotherOperationInProgress", "Another operation on this or "+
		"dependent resource is in progress. To retrieve status of the operation use uri: %s.",
		whole)
}

// deleteCall removes a resource.
func (k *kernel) deleteCall(c *call, id arm.ID) (reply, *failure) {
	r := k.store.get(id)
	if r == nil {
		if id.Is(arm.TypeResourceGroup) {
			return reply{}, k.missing(id)
		}
		if parent := id.Parent(); ofNetwork(id) && strings.Count(id.Type(), "/") > 1 &&
			k.store.get(parent) == nil {
			return reply{}, k.missing(parent)
		}
		return reply{status: http.StatusNoContent}, nil
	}
	if f := k.precondition(c, id, r); f != nil {
		return reply{}, f
	}
	if id.Is(arm.TypeResourceGroup) {
		return k.resources.deleteGroup(c, r)
	}
	if id.Is(arm.TypeCluster) && k.operationTime(c) > 0 {
		return k.aks.deleteCluster(c, r)
	}
	if f := k.busy(id); f != nil {
		return reply{}, f
	}
	if c.failing() != nil {
		k.occupy(c, r, "Deleting")
		return k.accepted(c, nil), nil
	}
	if f := k.removeResource(r); f != nil {
		k.record(c, id, "delete", f)
		return reply{}, f
	}
	k.record(c, id, "delete", nil)
	if kind := k.kindOf(id); kind.immediate && !kind.unknown && !id.Is(arm.TypeResourceGroup) {
		return reply{status: http.StatusOK, body: k.render(r, c.version)}, nil
	}
	return k.accepted(c, nil), nil
}

// removeResource removes a resource and what is part of it, or refuses.
func (k *kernel) removeResource(r *resource) *failure {
	kind := k.kindOf(r.id)
	k.remember(r.id)
	if f := k.network.unlinked(r); f != nil {
		return f
	}
	if kind.removable != nil {
		if f := kind.removable(r); f != nil {
			return f
		}
	}
	if kind.removed != nil {
		kind.removed(r)
	}
	for _, child := range k.store.below(r.id) {
		if kind := k.kindOf(child.id); kind.removed != nil && k.store.get(child.id) != nil {
			kind.removed(child)
		}
		k.network.leaveSeats(child)
		k.store.remove(child.id)
	}
	k.network.leaveSeats(r)
	k.store.remove(r.id)
	if parent := k.store.get(r.id.Parent()); parent != nil && parent.id.Is(arm.TypeVNet) {
		k.network.changedVNet(parent)
	}
	return nil
}

// listCall lists resources of a type in a subscription, a group or a parent.
func (k *kernel) listCall(c *call) (reply, *failure) {
	if c.method != http.MethodGet {
		return reply{}, fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"The method %s is not supported for %s.", c.method, c.key())
	}
	scope, resourceType, ok := listScope(c.path)
	if !ok {
		return reply{}, notFound(c)
	}
	if group := scope.Group(); group != "" && k.store.get(group) == nil {
		return reply{}, fail(http.StatusNotFound, "ResourceGroupNotFound",
			"Resource group '%s' could not be found.", group.Name())
	}
	if scope.ResourceGroup() != "" && !scope.Is(arm.TypeResourceGroup) &&
		k.store.get(scope) == nil {
		return reply{}, k.missing(scope)
	}
	all := k.store.list(resourceType, scope)
	if resourceType == arm.TypeResourceGroup { // by their tags
		matches, f := resourceFilter(c.param("$filter"))
		if f != nil {
			return reply{}, f
		}
		all = slices.DeleteFunc(all, func(r *resource) bool { return !matches(r) })
	}
	return k.page(c, nil, all)
}

// listScope reads the path of a list: what it is a list of, and where.
func listScope(path []string) (scope arm.ID, resourceType string, ok bool) {
	n := len(path)
	parent, err := arm.ParseID("/" + strings.Join(path[:n-1], "/"))
	last := path[n-1]
	switch {
	case err == nil && parent.Is(arm.TypeSubscription) && strings.EqualFold(last, "resourceGroups"):
		return parent, arm.TypeResourceGroup, true
	case err == nil && !parent.Is(arm.TypeSubscription) && !parent.Is(arm.TypeResourceGroup):
		return parent, parent.Type() + "/" + last, true
	case n >= 5 && strings.EqualFold(path[n-3], "providers"):
		scope, err := arm.ParseID("/" + strings.Join(path[:n-3], "/"))
		return scope, path[n-2] + "/" + last, err == nil
	}
	return "", "", false
}

// page answers with one page of a list, of plain objects or of resources, and the absolute link to
// the next.
func (k *kernel) page(c *call, plain []object, resources []*resource) (reply, *failure) {
	if plain != nil {
		return k.pageObjects(c, plain)
	}
	if c.filtered {
		resources = slices.DeleteFunc(resources, func(r *resource) bool {
			return !k.authorization.mayRead(c.who, r.id)
		})
	}
	start := 0
	if token := c.param("$skiptoken"); token != "" {
		for start < len(resources) && resources[start].id.Key() <= token {
			start++
		}
	}
	end := min(start+k.opts.PageSize, len(resources))
	body := []byte(`{"value":[`)
	for _, r := range resources[start:end] {
		raw, stale := k.was(c, r.id)
		if stale && raw == nil {
			continue
		} else if !stale {
			raw = k.render(r, c.version)
		}
		if body[len(body)-1] == '}' {
			body = append(body, ',')
		}
		body = append(body, raw...)
	}
	body = append(body, ']')
	if end < len(resources) {
		body = append(body, `,"nextLink":`...)
		next := map[string]string{"$skiptoken": resources[end-1].id.Key()}
		if filter := c.param("$filter"); filter != "" {
			next["$filter"] = filter
		}
		body = append(body, encode(c.link(next))...)
	}
	return reply{status: http.StatusOK, body: append(body, '}')}, nil
}

// pageObjects answers with one page of objects that are not stored; the token is how many were
// given.
func (k *kernel) pageObjects(c *call, all []object) (reply, *failure) {
	return k.pageOf(c, all, 0)
}

// pageOf is pageObjects with pages no longer than top, where that is not 0.
func (k *kernel) pageOf(c *call, all []object, top int) (reply, *failure) {
	if c.filtered {
		all = slices.DeleteFunc(slices.Clone(all), func(o object) bool {
			return !k.authorization.mayRead(c.who, arm.ID(text(o, "id")))
		})
	}
	size := k.opts.PageSize
	if top > 0 {
		size = min(size, top)
	}
	start, _ := strconv.Atoi(c.param("$skiptoken")) // no token is the first page
	start = min(max(start, 0), len(all))
	end := min(start+size, len(all))
	doc := object{"value": append([]object{}, all[start:end]...)}
	if end < len(all) {
		next := map[string]string{"$skiptoken": strconv.Itoa(end)}
		for _, kept := range []string{"$filter", "$expand", "$top"} {
			if value := c.param(kept); value != "" {
				next[kept] = value
			}
		}
		doc["nextLink"] = c.link(next)
	}
	return ok(doc), nil
}
