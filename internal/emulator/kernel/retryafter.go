package kernel

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// waitAfter returns the Retry-After of an answer that starts an operation, "" for none: as Azure's,
// but not longer than operations take here. AKS sends none, and clients then poll every 30 seconds:
// here it sends one if that is much longer than its operations take.
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

// ofNetwork reports whether a type is of Microsoft.Network: the only provider that sends ETags, and
// that compares the changes of a PUT.
func ofNetwork(id arm.ID) bool {
	return strings.HasPrefix(strings.ToLower(id.Type()), "microsoft.network/")
}

// wait adds Retry-After to the headers of an answer that starts an operation.
func (q request) wait(header map[string]string) {
	if seconds := q.waitAfter(arm.ID("/" + strings.Join(q.c.Path, "/"))); seconds > 0 {
		header["Retry-After"] = strconv.Itoa(seconds)
	}
}

// saysEnded reports whether the answer of a finished write names an ended operation: if it changed
// a resource, and, until 2024, also if it created one of a type with synchronous writes.
func (q request) saysEnded(r *Resource, status int) bool {
	return q.Opts.OperationTime > 0 && ofNetwork(r.ID) && (status == http.StatusOK ||
		q.KindOf(r.ID).Synchronous != nil && !q.c.Since("2024-01-01"))
}
