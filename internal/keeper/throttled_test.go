package keeper

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestThrottled: after a 429 of ARM itself, nothing is written to the subscription before its
// Retry-After ends. A 429 about a busy resource affects only that resource.
func TestThrottled(t *testing.T) {
	for code, waits := range map[string]bool{"SubscriptionRequestsThrottled": true,
		"RetryableErrorDueToAnotherOperation": false} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				// The table's write comes three seconds after the subnet's.
				slowTable := false
				k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if slowTable && r.Method == http.MethodGet &&
							strings.HasSuffix(r.URL.Path, "/appgw-rt") {
							time.Sleep(3 * time.Second)
						}
						return next.RoundTrip(r)
					})
				}, w.demoConfig())
				w.reconcile(k) // it knows the cluster's table
				w.emptied(w.demo.GatewayTable)
				w.strip(w.demo.NodeSubnet)
				time.Sleep(10 * time.Second)
				w.inject(emulator.Fault{Method: "PUT", Path: "/nodes$", Status: 429, Code: code,
					RetryAfter: 25})
				slowTable = true
				since := w.mark()
				w.expect(w.reconcile(k), "1 done associate shop-vnet/nodes\n3 done create appgw-rt")
				at := map[string]time.Time{}
				for _, r := range since() {
					if name := calls([]emulator.Request{r})[0]; r.Method == http.MethodPut &&
						at[name].IsZero() {
						at[name] = r.Time
					}
				}
				wait := at["PUT appgw-rt"].Sub(at["PUT nodes"])
				if waits != (wait >= 25*time.Second) {
					t.Errorf("the table was written %s after the subnet's 429", wait)
				}
			})
		})
	}
}
