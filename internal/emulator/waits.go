package emulator

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE, by type.
var waits = map[string][2]int{
	arm.TypeRouteTable:              {2, 10},
	arm.TypeRouteTable + "/routes":  {2, 10},
	typeNSG:                         {1, 10},
	typeNSG + "/securityRules":      {1, 10},
	typePublicIP:                    {1, 10},
	arm.TypeVNet:                    {3, 10},
	arm.TypeSubnet:                  {3, 10},
	typeNIC:                         {4, 4},
	typePeering:                     {10, 10},
	typeNAT:                         {10, 10},
	arm.TypeGateway:                 {5, 10},
	arm.TypeResourceGroup:           {15, 15},
	arm.TypeCluster:                 {0, 0},
	arm.TypeCluster + "/agentPools": {0, 0},
	arm.TypeScaleSet:                {10, 10},
}

// waitAfter is the Retry-After of an answer that begins an operation, "" for none: as Azure's, but
// not longer than operations take here. AKS gives none, upon which clients ask every 30 seconds: it
// gives one here where that is much
// longer than its operations take.
func (k *kernel) waitAfter(c *call, id arm.ID) int {
	takes := max(1, int(math.Ceil(k.operationTime(c).Seconds())))
	azure, known := waitOf(id, c.method)
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

func waitOf(id arm.ID, method string) (int, bool) {
	resourceType := id.Type()
	for name, both := range waits {
		if strings.EqualFold(name, resourceType) {
			if method == http.MethodDelete {
				return both[1], true
			}
			return both[0], true
		}
	}
	return 0, false
}

func ofNetwork(id arm.ID) bool {
	return strings.HasPrefix(strings.ToLower(id.Type()), "microsoft.network/")
}

// wait adds Retry-After to the headers of an answer that begins an operation.
func (k *kernel) wait(c *call, header map[string]string) {
	if seconds := k.waitAfter(c, arm.ID("/"+strings.Join(c.path, "/"))); seconds > 0 {
		header["Retry-After"] = strconv.Itoa(seconds)
	}
}

// locationOnly reports whether an operation is followed by its Location alone.
func locationOnly(c *call, id arm.ID) bool {
	action := strings.ToLower(id.Name())
	return id.Is(arm.TypeResourceGroup) ||
		c.method == http.MethodPost &&
			(strings.HasPrefix(action, "effective") || action == "backendhealth")
}

// saysEnded reports whether the answer of a write that is done names an operation, which has ended:
// where nothing changed,
// and, until 2024, where the type's writes are synchronous.
func (k *kernel) saysEnded(c *call, r *resource, status int) bool {
	switch {
	case k.opts.OperationTime == 0 || !ofNetwork(r.id):
		return false
	case k.kindOf(r.id).synchronous:
		return !c.since("2024-01-01")
	}
	return status == http.StatusOK
}

// beingUpdated refuses a write to a resource on which an operation runs. The reason is in the
// details.
func beingUpdated(r *resource) *failure {
	f := fail(http.StatusTooManyRequests, "RetryableError", "A retryable error occurred.")
	f.retryAfter = min(14, max(1, int(math.Ceil(time.Until(r.busyUntil).Seconds()))))
	f.details = []any{object{
		"code": "RetryableErrorDueToAnotherOperation",
		"message": fmt.Sprintf(
			"Operation Put%sOperation (%s) is updating resource %s. The call can be retried in "+
				"%d seconds.",
			strings.TrimSuffix(
				strings.ToUpper(lastWord(r.id)[:1])+lastWord(r.id)[1:],
				"s",
			),
			uuid.NewString(),
			r.id,
			f.retryAfter,
		),
	}}
	return f
}

// lastWord is the last word of a type.
func lastWord(id arm.ID) string {
	words := strings.Split(id.Type(), "/")
	return words[len(words)-1]
}
