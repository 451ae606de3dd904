package emulator

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

const typeLock = "Microsoft.Authorization/locks"

// settleLock checks a management lock.
func (s *authorization) settleLock(c *call, r, old *resource) *failure {
	r.etag = ""
	level := text(objectAt(r.body, "properties"), "level")
	for _, known := range []string{"CanNotDelete", "ReadOnly"} {
		if strings.EqualFold(level, known) {
			objectAt(r.body, "properties")["level"] = known
			return nil
		}
	}
	return fail(http.StatusBadRequest, "InvalidLockLevel", "The lock level '%s' is not valid. "+
		"The supported values are 'CanNotDelete' and 'ReadOnly'.", level)
}

// checkLocks refuses what a lock at the scope, above it or, for a delete, below it forbids. Locks
// themselves are free.
func (s *authorization) checkLocks(w wish) *failure {
	locks := s.kernel.store.byType[strings.ToLower(typeLock)]
	if len(locks) == 0 || w.scope.Is(typeLock) {
		return nil
	}
	var locked []string
	for _, key := range slices.Sorted(maps.Keys(locks)) {
		scope := locks[key].id.Parent()
		readOnly := text(objectAt(locks[key].body, "properties"), "level") == "ReadOnly"
		if covers(scope, w.scope) && (readOnly || w.verb == "delete") ||
			w.verb == "delete" && below(scope, w.scope) {
			locked = append(locked, string(scope))
		}
	}
	if len(locked) == 0 {
		return s.nodeGroupLocked(w, locks)
	}
	verb := "write"
	if w.verb == "delete" {
		verb = "delete"
	}
	return fail(http.StatusConflict, "ScopeLocked", "The scope '%s' cannot perform %s operation "+
		"because following scope(s) are locked: '%s'. Please remove the lock and try again.",
		w.scope, verb, strings.Join(slices.Compact(locked), "','"))
}

// nodeGroupLocked refuses to change a cluster while anything in its node resource group is locked:
// AKS looks at the group as a whole (Azure/AKS#3291; [U] the code).
func (s *authorization) nodeGroupLocked(w wish, locks map[string]*resource) *failure {
	group := s.nodeGroups.nodeGroupOf(wholeOf(w.scope))
	if group == "" {
		return nil
	}
	for _, l := range locks {
		if at := l.id.Parent(); covers(group, at) {
			return fail(http.StatusConflict, "ScopeLocked", "Resource group '%s' under "+
				"subscription: '%s' is locked, please remove lock and retry. Please see "+
				"http://aka.ms/azure-lock-resources", group.Name(), group.Subscription())
		}
	}
	return nil
}

// lockCall lists the locks that count at a scope: there, above and below. At a resource's scope
// there is no atScope().
func (s *authorization) lockCall(c *call) (reply, *failure, bool) {
	scope, rest, found := extension(c, "locks")
	if !found || len(rest) > 0 || c.method != http.MethodGet {
		return reply{}, nil, false
	}
	atScope := strings.Contains(strings.ToLower(c.param("$filter")), "atscope()")
	matches := []*resource{}
	for _, l := range s.kernel.store.list(typeLock, "") {
		at := l.id.Parent()
		if covers(at, scope) || below(at, scope) && !atScope {
			matches = append(matches, l)
		}
	}
	answer, f := s.kernel.page(c, nil, matches)
	return answer, f, true
}
