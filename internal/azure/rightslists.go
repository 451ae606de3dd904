package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const authorizationVersion = "2022-04-01"

// areas are the scopes at which a list of Microsoft.Authorization can be read for a scope, the
// largest first. A list without a filter, or with assignedTo, has the assignments at the area,
// above and below it (deny-assignments-rest, role-assignments-list-rest).
var areas = []func(arm.ID) arm.ID{arm.ID.SubscriptionID, groupOf,
	func(scope arm.ID) arm.ID { return scope }}

// groupOf returns the resource group of a scope, or the subscription if it is in none.
func groupOf(scope arm.ID) arm.ID { return cmp.Or(scope.Group(), scope.SubscriptionID()) }

// listed is the result of a list in an area. Failed says why the list is incomplete.
type listed[T any] struct {
	area   arm.ID
	items  []T
	failed string
	retry  bool // the list may be complete in a smaller area
}

// listOver reads a list for many scopes, once per filter, in the largest areas in which the
// caller's rights allow it. If a list is refused, it tries smaller areas. The answers are by the
// scopes' keys; scopes whose smallest area failed are missing.
func listOver[T any](ctx context.Context, c *caller, scopes []arm.ID,
	own map[string]inventory.Rights, areas []func(arm.ID) arm.ID, list string, filters ...string) (
	[]map[string]*listed[T], error) {
	found := make([]map[string]*listed[T], len(filters))
	for i := range found {
		found[i] = map[string]*listed[T]{}
	}
	for _, areaOf := range areas {
		type call struct {
			*listed[T]
			filter string
		}
		var calls []call
		for i, filter := range filters {
			asked := map[string]*listed[T]{}
			for _, scope := range scopes {
				area, before := areaOf(scope), found[i][scope.Key()]
				if before != nil && (!before.retry || before.area.Equal(area)) ||
					!area.Equal(scope) && !own[area.Key()].May(mayList(list)) {
					continue
				}
				if asked[area.Key()] == nil {
					asked[area.Key()] = &listed[T]{area: area}
					calls = append(calls, call{asked[area.Key()], filter})
				}
				found[i][scope.Key()] = asked[area.Key()]
			}
		}
		if err := atOnce(c, calls, func(l call) error {
			return listRights(ctx, c, l.listed, list, l.filter)
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// mayList returns the action that allows reading a list.
func mayList(list string) string { return "Microsoft.Authorization/" + list + "/read" }

// assignedTo filters role assignments by principal, including groups that the principal is in,
// directly or not (role-assignments-list-rest).
func assignedTo(who string) string {
	return "assignedTo('" + strings.ReplaceAll(who, "'", "''") + "')"
}

// listRights reads a list in its area.
func listRights[T any](ctx context.Context, c *caller, l *listed[T], list, filter string) error {
	address := c.address(l.area, "/providers/Microsoft.Authorization/"+list, authorizationVersion)
	if filter != "" {
		address += "&$filter=" + url.QueryEscape(filter)
	}
	err := c.listAll(ctx, address, func(raw json.RawMessage) bool {
		var item T
		if json.Unmarshal(raw, &item) != nil {
			l.retry, l.failed = true, "GET "+string(idOf(address))+
				": an item of the list is not understood"
			return true
		}
		l.items = append(l.items, item)
		return true
	})
	fault, fatal := asFault(err)
	if fault != nil {
		l.failed, l.retry = fault.Error(), fault.Status == http.StatusForbidden
	}
	return fatal
}

// permissionsAt reads what the caller may do at each scope, by its key, before deny assignments.
func (c *rightsReader) permissionsAt(ctx context.Context,
	scopes []arm.ID) (map[string]inventory.Rights,
	error) {
	all := map[string]inventory.Rights{}
	var mu sync.Mutex
	err := atOnce(c.caller, scopes, func(scope arm.ID) error {
		l := &listed[inventory.Permission]{area: scope}
		err := listRights(ctx, c.caller, l, "permissions", "")
		mu.Lock()
		defer mu.Unlock()
		all[scope.Key()] = inventory.Rights{Permissions: l.items, Failed: l.failed}
		return err
	})
	return all, err
}

// atOnce reads all items, several at a time.
func atOnce[T any](c *caller, items []T, read func(T) error) error {
	var g errgroup.Group
	g.SetLimit(parallel)
	var done atomic.Int64
	for _, item := range items {
		g.Go(func() error {
			err := read(item)
			c.progress(int(done.Add(1)), len(items), "rights")
			return err
		})
	}
	return g.Wait()
}
