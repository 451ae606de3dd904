package keeper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestTransient: the keeper waits for transient errors as Azure asks, and then continues. It writes
// nothing twice.
func TestTransient(t *testing.T) {
	const tablePut = `routeTables/appgw-rt$`
	tests := []struct {
		name   string
		fault  emulator.Fault
		waits  time.Duration // at least, in addition to the 4 s of the operation
		below  time.Duration
		writes int // PUTs that took effect
	}{
		{"429 with Retry-After", emulator.Fault{Method: "PUT", Path: tablePut, Status: 429,
			Code: "SubscriptionRequestsThrottled", RetryAfter: 17}, 17 * time.Second,
			18 * time.Second, 1},
		{"another operation, with Retry-After", emulator.Fault{Method: "PUT", Path: tablePut,
			Status: 429, Code: "RetryableErrorDueToAnotherOperation", RetryAfter: 10, Count: 2},
			20 * time.Second, 21 * time.Second, 1},
		{"another operation, without", emulator.Fault{Method: "PUT", Path: tablePut, Status: 409,
			Code: "AnotherOperationInProgress", Count: 3}, 3 * time.Second, 4 * time.Second, 1},
		{"referenced resource not provisioned", emulator.Fault{Method: "PUT", Path: tablePut,
			Status: 429, Code: "ReferencedResourceNotProvisioned"}, time.Second, 2 * time.Second,
			1},
		{"conflict", emulator.Fault{Method: "PUT", Path: tablePut, Status: 409, Code: "Conflict"},
			time.Second, 2 * time.Second, 1},
		{"500", emulator.Fault{Method: "PUT", Path: tablePut, Status: 500}, time.Second,
			2 * time.Second, 1},
		{"503 with Retry-After", emulator.Fault{Method: "PUT", Path: tablePut, Status: 503,
			RetryAfter: 30}, 30 * time.Second, 31 * time.Second, 1},
		{"cut before it took effect", emulator.Fault{Method: "PUT", Path: tablePut, Cut: "before"},
			time.Second, 2 * time.Second, 1},
		{"cut after it took effect", emulator.Fault{Method: "PUT", Path: tablePut, Cut: "after"}, 0,
			4 * time.Second, 1},
		{"throttled read", emulator.Fault{Method: "GET", Path: tablePut, Status: 429,
			Code: "SubscriptionRequestsThrottled", RetryAfter: 9}, 9 * time.Second,
			10 * time.Second, 1},
		{"cut read", emulator.Fault{Method: "GET", Path: "shop-vnet", Cut: "before", Count: 2},
			700 * time.Millisecond, 10 * time.Second, 1},
		{"throttled poll", emulator.Fault{Method: "GET", Path: "/operations/", Status: 429,
			RetryAfter: 6}, 3 * time.Second, 5 * time.Second, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				w.inject(tt.fault)
				since := w.mark()
				start := time.Now()
				w.expect(w.reconcile(w.keep(w.demoConfig())), "3 done create appgw-rt")
				took := time.Since(start) - slow.OperationTime
				if took < tt.waits || took > tt.below {
					t.Errorf("waited %s, want %s to %s", took, tt.waits, tt.below)
				}
				effective := 0
				for _, r := range since() {
					if r.Method == http.MethodPut && (r.Status == 200 || r.Status == 201) {
						effective++
					}
				}
				if effective != tt.writes {
					t.Errorf("%d PUTs took effect, want %d: %v", effective, tt.writes,
						calls(since()))
				}
				w.expectRoutes(w.demo.GatewayTable, append(threePods, ownRoute)...)
			})
		})
	}
}

// TestFewTokens: when few tokens remain, calls go out no faster than they are refilled.
func TestFewTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := slow
		opts.Buckets = emulator.Buckets{Reads: emulator.Bucket{Size: 30, PerSecond: 25}}
		w := newWorld(t, opts)
		w.without(w.demo.ClusterTable, "egress")
		k := w.keep(w.demoConfig())
		w.reconcile(k)
		since := w.mark()
		for range 100 {
			w.reconcile(k)
		}
		for _, r := range since() {
			if r.Status == 429 {
				t.Fatalf("ran into the limit at request %d", r.N)
			}
		}
		if n := len(since()); n != 200 {
			t.Errorf("%d requests, want 200", n)
		}
	})
}

// TestPermanent: the same check does not retry a permanent error. A finding names the scope, and
// all other work continues.
func TestPermanent(t *testing.T) {
	const scope = "over scope '/subscriptions/5ab0/resourceGroups/net-rg/providers/Microsoft.Network/networkSecurityGroups/nodes-nsg'"
	tests := []struct {
		status int
		code   string
		want   finding.Code
	}{
		{403, "AuthorizationFailed", finding.WriteRefused},
		{403, "LinkedAuthorizationFailed", finding.WriteRefused},
		{403, "RequestDisallowedByPolicy", finding.WriteRefused},
		{409, "ScopeLocked", finding.WriteRefused},
		{409, "AmbiguousPolicyEvaluationPaths", finding.WriteRefused},
		{400, "InvalidRequestFormat", finding.WriteFailed},
		{409, "SomethingElse", finding.WriteFailed},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				w.strip(w.demo.NodeSubnet)
				time.Sleep(10 * time.Second)
				w.inject(emulator.Fault{Method: "PUT", Path: "subnets/nodes", Count: -1,
					Status: tt.status, Code: tt.code, Message: "no " + scope})
				k := w.keep(w.demoConfig())
				since := w.mark()
				r := w.reconcile(k)
				w.expect(r, "1 failed associate shop-vnet/nodes\n3 done create appgw-rt", tt.want)
				f := r.Findings[0]
				said := f.Message + "\n" + strings.Join(f.Evidence, "\n")
				if !strings.Contains(said, scope) || !strings.Contains(said, tt.code) {
					t.Errorf("the finding does not name code and scope: %s", said)
				}
				puts := 0
				for _, r := range since() {
					if r.Method == http.MethodPut && strings.HasSuffix(r.Path, "nodes") {
						puts++
					}
				}
				if puts != 1 {
					t.Errorf("%d PUTs, want 1", puts)
				}
			})
		})
	}
}

// TestNeverEnding: a transient error that does not pass ends the attempt with a finding, and the
// next check tries again.
func TestNeverEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		remove := w.inject(emulator.Fault{Method: "PUT", Count: -1, Status: 503})
		k := w.keep(w.demoConfig())
		w.expect(w.reconcile(k), "3 failed create appgw-rt", finding.WriteFailed)
		remove()
		w.expect(w.reconcile(k), "3 done create appgw-rt")
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUndone: a write that is accepted and then undone is never reported as done.
func TestUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPut {
					return next.RoundTrip(r)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{},
					Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
			})
		}, w.demoConfig())
		w.expect(w.reconcile(k), "3 failed create appgw-rt", finding.WriteUndone)
	})
}

// TestDroppedField: Azure, or another writer at the same moment, drops a field of the document that
// was sent.
func TestDroppedField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/nodes") {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					body = bytes.Replace(body, []byte(`"defaultOutboundAccess":false,`), nil, 1)
					r = r.Clone(r.Context())
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				}
				return next.RoundTrip(r)
			})
		}, w.demoConfig())
		r := w.reconcile(k)
		w.expect(r, "1 done associate shop-vnet/nodes\n3 done create appgw-rt",
			finding.WriteDropped)
		if e := r.Findings[0].Evidence; !slices.Equal(e,
			[]string{"properties.defaultOutboundAccess"}) {
			t.Errorf("evidence %v", e)
		}
	})
}

// TestBusy: while another writer's operation is running, the keeper waits instead of running into a
// refusal.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		// the cluster's write of its table has ended, too, and is in the activity log
		time.Sleep(10 * time.Second)
		w.strip(w.demo.NodeSubnet) // its operation takes four seconds
		since := w.mark()
		w.expect(w.reconcile(w.keep(w.demoConfig())), "1 done associate shop-vnet/nodes\n3 done "+
			"create appgw-rt")
		for _, r := range since() {
			if r.Status >= 300 {
				t.Errorf("%s %s: %d", r.Method, r.Path, r.Status)
			}
		}
	})
}

// TestFailedOperation: a PUT is accepted and its operation fails, for a transient or for a
// permanent reason.
func TestFailedOperation(t *testing.T) {
	for code, want := range map[string]string{"RetryableError": "3 done create appgw-rt",
		"NetcfgInvalid": "3 failed create appgw-rt"} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				var failed atomic.Bool
				k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						response, err := next.RoundTrip(r)
						if err == nil && strings.Contains(r.URL.Path, "/operations/") &&
							failed.CompareAndSwap(false, true) {
							// As if it had not taken effect.
							w.edit(w.demo.GatewayTable, func(p object) {
								p["routes"] = p["routes"].([]any)[:1]
							})
							body := `{"status":"Failed","error":{"code":"` + code +
								`","message":"it\nfailed"}}`
							response.Body, response.ContentLength =
								io.NopCloser(strings.NewReader(body)), int64(len(body))
						}
						return response, err
					})
				}, w.demoConfig())
				r := w.reconcile(k)
				if did(r) != want {
					t.Errorf("did %s, want %s", did(r), want)
				}
				if len(r.Findings) > 0 &&
					!strings.Contains(r.Findings[0].Message, "NetcfgInvalid: it failed") {
					t.Errorf("finding %+v", r.Findings[0])
				}
			})
		})
	}
}

// TestFailedInEffect: an operation fails although the resource reads correctly. A transient failure
// is retried until it succeeds. Otherwise nothing is reported as done, and the next check reports
// the state of the resource.
func TestFailedInEffect(t *testing.T) {
	for _, tt := range []struct {
		code        string
		count       int
		first, next string
		writes      int
		finding     finding.Code
	}{
		{"InternalServerError", 2, "1 done associate shop-vnet/nodes\n3 done create appgw-rt", "",
			3, ""},
		{"InternalServerError", -1, "1 failed associate shop-vnet/nodes\n3 done create appgw-rt",
			"", 0, finding.Unsettled},
		{"NetcfgInvalid", -1, "1 failed associate shop-vnet/nodes\n3 done create appgw-rt", "", 1,
			finding.Unsettled},
	} {
		t.Run(fmt.Sprint(tt.code, tt.count), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, slow)
				w.strip(w.demo.NodeSubnet)
				time.Sleep(10 * time.Second)
				remove, err := w.e.Inject(emulator.Fault{Method: "PUT", Path: "subnets/nodes$",
					Fail: true, Code: tt.code, Message: "boom", Count: tt.count,
					Principal: emulatortest.Keeper.Name})
				if err != nil {
					t.Fatal(err)
				}
				since := w.mark()
				k := w.keep(w.demoConfig())
				var codes []finding.Code
				if tt.finding != "" {
					codes = append(codes, finding.WriteFailed)
				}
				w.expect(w.reconcile(k), tt.first, codes...)
				writes := 0
				for _, r := range since() {
					if r.Method == "PUT" && strings.HasSuffix(r.Path, "/nodes") {
						writes++
					}
				}
				if tt.writes > 0 && writes != tt.writes || writes == 0 ||
					tt.writes == 0 && writes < 3 {
					t.Errorf("%d writes", writes)
				}
				remove()
				codes = nil
				if tt.finding != "" {
					codes = append(codes, tt.finding)
				}
				w.expect(w.reconcile(k), tt.next, codes...)
			})
		})
	}
}

// TestInterruptedBeforeTheWrite: the context ends after the read and before the write; nothing is
// sent.
func TestInterruptedBeforeTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && strings.HasSuffix(r.URL.Path, "/appgw-rt") {
					body, _ := io.ReadAll(response.Body)
					response.Body = cancelling{bytes.NewReader(body), cancel}
				}
				return response, err
			})
		}, w.demoConfig())
		since := w.mark()
		r, err := k.Reconcile(ctx)
		if err == nil {
			t.Error("not interrupted")
		}
		w.expect(r, "3 skipped create appgw-rt")
		if got := calls(since()); slices.Contains(got, "PUT appgw-rt") {
			t.Errorf("%v", got)
		}
	})
}

// TestInterruptedWhileDeciding: the context ends while the write decides; nothing is sent.
func TestInterruptedWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		k, since := w.keep(w.demoConfig()), w.mark()
		k.opts.Withhold = func(Intent) string {
			if slices.Contains(calls(since()), "GET appgw-rt") {
				cancel()
			}
			return ""
		}
		r, err := k.Reconcile(ctx)
		if err == nil {
			t.Error("not interrupted")
		}
		w.expect(r, "3 skipped create appgw-rt")
		if got := calls(since()); slices.Contains(got, "PUT appgw-rt") {
			t.Errorf("%v", got)
		}
	})
}

// cancelling cancels the context after a read.
type cancelling struct {
	io.Reader
	cancel func()
}

func (c cancelling) Close() error {
	c.cancel()
	return nil
}

// TestInterruptedAfterALostAnswer: the write took effect, its answer was lost, and the program has
// to stop. The change is reported as done, not skipped.
func TestInterruptedAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.inject(emulator.Fault{Method: "PUT", Path: "appgw-rt$", Cut: "after"})
		ctx, cancel := context.WithCancel(t.Context())
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if r.Method == http.MethodPut {
					cancel()
				}
				return response, err
			})
		}, w.demoConfig())
		r, err := k.Reconcile(ctx)
		if err == nil {
			t.Error("the check does not say that it was interrupted")
		}
		w.expect(r, "3 done create appgw-rt")
	})
}

// TestPatience: an operation that does not end, or a wait that is too long, delays everything else
// by at most two minutes. The resource shows the outcome of the write.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && strings.Contains(r.URL.Path, "/operations/") {
					body := `{"status":"InProgress"}`
					response.Body, response.ContentLength = io.NopCloser(strings.NewReader(body)),
						int64(len(body))
				}
				return response, err
			})
		}, w.demoConfig())
		start := time.Now()
		w.expect(w.reconcile(k), "3 done create appgw-rt")
		if took := time.Since(start); took > 2*time.Minute+time.Second {
			t.Errorf("it took %s", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		w.strip(w.demo.NodeSubnet)
		time.Sleep(10 * time.Second)
		remove := w.inject(emulator.Fault{Method: "PUT", Path: "/nodes$", Count: -1, Status: 429,
			Code: "SubscriptionRequestsThrottled", RetryAfter: 900})
		k := w.keep(w.demoConfig())
		start, since := time.Now(), w.mark()
		r := w.reconcile(k)
		if took := time.Since(start); took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		if got := codes(r); len(got) == 0 || got[0] != finding.WriteFailed {
			t.Errorf("findings %v", got)
		}
		puts := 0
		for _, c := range calls(since()) {
			if c == "PUT nodes" {
				puts++
			}
		}
		if puts < 4 || puts > 5 { // one, and a probe each half minute
			t.Errorf("%d PUTs of a subscription that Azure throttles for 15 minutes", puts)
		}
		remove()
		time.Sleep(10 * time.Second)
		start = time.Now()
		w.reconcile(k)
		if took := time.Since(start); took > 40*time.Second {
			t.Errorf("the next write took %s", took)
		}
		if w.tableOf(w.demo.NodeSubnet) == "" {
			t.Error("not repaired after the wait")
		}
	})
}
