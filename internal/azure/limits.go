package azure

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"routekeeper.dev/routekeeper/internal/arm"
)

// callKind returns the kind of call as ARM's headers name it.
func callKind(method string) string {
	switch method {
	case http.MethodGet:
		return "reads"
	case http.MethodDelete:
		return "deletes"
	}
	return "writes"
}

// throttledBy reads a 429: its error, and whether ARM itself throttles. If ARM does not, and the
// 429 is not about one busy resource, the resource provider throttles ("Troubleshooting API
// throttling errors": the remaining tokens distinguish ARM's limit from the provider's).
func throttledBy(response *http.Response) (said *Error, byARM bool) {
	said = &Error{}
	if payload, err := runtime.Payload(response); err == nil {
		said.setBody(payload)
	}
	left, told := remaining(response, callKind(response.Request.Method))
	return said, said.Code == "SubscriptionRequestsThrottled" || told && left == 0
}

// remaining returns how many tokens remain according to an answer: the fewest for this identity
// and, since 2024, for the whole subscription ("Understand how Azure Resource Manager throttles
// requests").
func remaining(response *http.Response, kind string) (left int, told bool) {
	for _, of := range []string{"subscription-", "subscription-global-"} {
		n, err := strconv.Atoi(response.Header.Get("x-ms-ratelimit-remaining-" + of + kind))
		if err == nil && (!told || n < left) {
			left, told = n, true
		}
	}
	return left, told
}

// retryAfter reads the header in both of its forms, seconds and date; 0 if there is none.
func retryAfter(response *http.Response) time.Duration {
	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// subscriptionOf returns the subscription in a path, in lower case, or "".
func subscriptionOf(path string) string { return strings.ToLower(arm.ID(path).Subscription()) }

// providerOf returns the resource provider that serves a path: the last one in it.
func providerOf(path string) string {
	path = strings.ToLower(path)
	if i := strings.LastIndex(path, "/providers/"); i >= 0 {
		provider, _, _ := strings.Cut(path[i+len("/providers/"):], "/")
		return provider
	}
	return "microsoft.resources"
}
