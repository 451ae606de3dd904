package kernel

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// waitAfter returns the Retry-After of an answer that starts an operation, or "". It is Azure's
// value, but not longer than operations take here. AKS sends none, so clients poll every 30
// seconds. If that is much longer than its operations take here, the emulator sends one.
func (q request) waitAfter(id arm.ID) int {
	takes := max(1, int(math.Ceil(q.OperationTime(q.c).Seconds())))
	azure, known := q.waitOf(id, q.c.Method)
	switch {
	case !known:
		azure = 10
	case azure == 0 && takes >= 30:
		return 0
	case azure == 0:
		return 1
	}
	return min(azure, max(1, takes/4))
}

func (k *kinds) waitOf(id arm.ID, method string) (int, bool) {
	both, known := k.waits[KeyIn(k.waits, id.Type())]
	if method == http.MethodDelete {
		return both[1], known
	}
	return both[0], known
}

// ofNetwork reports whether a type belongs to Microsoft.Network. Only this provider sends ETags,
// and checks whether a PUT changes anything.
func ofNetwork(id arm.ID) bool {
	return strings.HasPrefix(strings.ToLower(id.Type()), "microsoft.network/")
}

// wait adds Retry-After to an answer that starts an operation.
func (q request) wait(answer *Reply) {
	if seconds := q.waitAfter(q.c.ID(len(q.c.Path))); seconds > 0 {
		answer.Set("Retry-After", strconv.Itoa(seconds))
	}
}

// saysEnded reports whether the answer of a finished write names an ended operation. It does if the
// write changed a resource. Until 2024 it also did if the write created a resource of a type with
// synchronous writes.
func (q request) saysEnded(r *Resource, status int) bool {
	return q.Opts.OperationTime > 0 && ofNetwork(r.ID) &&
		(status == http.StatusOK || q.KindOf(r.ID).Synchronous != nil && !q.c.Since("2024-01-01"))
}
