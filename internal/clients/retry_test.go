package clients

import (
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestPolling follows operations with all defaults, as most clients do. If the answer does not say
// where to poll and when, that takes half a minute each.
func TestPolling(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	tables := client(a, armnetwork.NewRouteTablesClient)
	began := time.Now()
	put, err := tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := call(put.PollUntilDone(a.ctx, nil)).ok(t)
	is(t, "provisioningState", rt.Properties.ProvisioningState,
		armnetwork.ProvisioningStateSucceeded)
	remove, err := tables.BeginDelete(a.ctx, "net", "rt", nil)
	if err != nil {
		t.Fatal(err)
	}
	call(remove.PollUntilDone(a.ctx, nil)).ok(t)
	// Without Retry-After, a client waits 30 seconds before each poll.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("a PUT and a DELETE took %s", took)
	}
	a.wire(
		"PUT Microsoft.Network/routeTables/rt 2025-05-01 201",
		"GET operations 2025-05-01 200",
		"GET Microsoft.Network/routeTables/rt 2025-05-01 200",
		"DELETE Microsoft.Network/routeTables/rt 2025-05-01 202",
		"GET operations 2025-05-01 200",
	)
}

// TestRetries makes calls fail as Azure's do. The client retries by itself, with the same result as
// without failures.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault emulator.Fault
		wire  []string // the calls until the PUT is answered
	}{
		"throttled": {emulator.Fault{Status: 429, Code: "SubscriptionRequestsThrottled",
			RetryAfter: 1}, []string{"429", "201"}},
		"down": {emulator.Fault{Status: 503, Code: "ServiceUnavailable"},
			[]string{"503", "201"}},
		"cut before": {emulator.Fault{Cut: "before"}, []string{"0", "201"}},
		// The first call took effect, so the second one changes the resource, while the first write
		// is still running.
		"cut after": {emulator.Fault{Cut: "after"}, []string{"201", "429", "200"}},
	} {
		for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				a := start(t, emulator.Options{OperationTime: 500 * time.Millisecond})
				a.http.Transport.(*http.Transport).ForceAttemptHTTP2 = http2
				hello, err := a.http.Get(a.info.HTTPS +
					"/metadata/endpoints?api-version=2022-09-01")
				if err != nil {
					t.Fatal(err)
				}
				if hello.Body.Close(); hello.ProtoAtLeast(2, 0) != http2 {
					t.Fatalf("the connection speaks %s", hello.Proto)
				}
				a.opts.Retry.RetryDelay = time.Millisecond
				a.group("net")
				tt.fault.Method, tt.fault.Path, tt.fault.Count = http.MethodPut, "routeTables/rt$",
					1
				if _, err := a.e.Inject(tt.fault); err != nil {
					t.Fatal(err)
				}
				rt := poll(client(a, armnetwork.NewRouteTablesClient).BeginCreateOrUpdate(a.ctx,
					"net", "rt", table(route("a", "10.1.0.0/16", "")), nil)).ok(t)
				is(t, "prefix", rt.Properties.Routes[0].Properties.AddressPrefix, "10.1.0.0/16")
				var want []string
				for _, status := range tt.wire {
					want = append(want, "PUT Microsoft.Network/routeTables/rt 2025-05-01 "+status)
				}
				// the second time nothing changes, so there is nothing to wait for
				if tt.wire[len(tt.wire)-1] != "200" {
					want = append(want, "GET operations 2025-05-01 200")
				}
				a.wire(append(want, "GET Microsoft.Network/routeTables/rt 2025-05-01 200")...)
			})
		}
	}
}
