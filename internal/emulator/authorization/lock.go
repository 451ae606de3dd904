package authorization

import (
	"net/http"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// settleLock checks a management lock.
func (s *Authorization) settleLock(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	level := kernel.Text(r.Properties(), "level")
	for _, known := range []string{"CanNotDelete", "ReadOnly"} {
		if strings.EqualFold(level, known) {
			r.Properties()["level"] = known
			return nil
		}
	}
	return kernel.Bad("InvalidLockLevel", "The lock level '%s' is not valid. The supported "+
		"values are 'CanNotDelete' and 'ReadOnly'.", level)
}

// checkLocks refuses a write that is forbidden by a lock at its scope, above it or, for a delete,
// below it. Locks themselves can always be changed.
func (s *Authorization) checkLocks(w Need) *kernel.Failure {
	locks := s.kernel.Store.List(arm.TypeLock, "")
	if len(locks) == 0 || w.Scope.Is(arm.TypeLock) {
		return nil
	}
	var locked []string
	for _, l := range locks {
		scope, readOnly := l.ID.Parent(), kernel.Text(l.Properties(), "level") == "ReadOnly"
		if Covers(scope, w.Scope) && (readOnly || w.verb == "delete") ||
			w.verb == "delete" && Below(scope, w.Scope) {
			locked = append(locked, string(scope))
		}
	}
	if len(locked) == 0 {
		return s.checkNodeGroupLocks(w, locks)
	}
	verb := "write"
	if w.verb == "delete" {
		verb = "delete"
	}
	return kernel.Fail(http.StatusConflict, "ScopeLocked", "The scope '%s' cannot perform %s "+
		"operation because following scope(s) are locked: '%s'. Please remove the lock and "+
		"try again.", w.Scope, verb, strings.Join(slices.Compact(locked), "','"))
}

// checkNodeGroupLocks refuses to change a cluster while anything in its node resource group is
// locked: AKS checks the whole group (Azure/AKS#3291; [U] the code).
func (s *Authorization) checkNodeGroupLocks(w Need, locks []*kernel.Resource) *kernel.Failure {
	group := s.NodeGroups.NodeGroupOf(kernel.WholeOf(w.Scope))
	if group == "" {
		return nil
	}
	for _, l := range locks {
		if at := l.ID.Parent(); Covers(group, at) {
			return kernel.Fail(http.StatusConflict, "ScopeLocked", "Resource group '%s' under "+
				"subscription: '%s' is locked, please remove lock and retry. Please see "+
				"http://aka.ms/azure-lock-resources", group.Name(), group.Subscription())
		}
	}
	return nil
}
