package keeper

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestRepairs: a change of a route in a target is a repair if the route was seen correct and only
// the target was changed. It is not if the cluster's table caused the change, or if this keeper has
// not seen the route correct.
func TestRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		k := w.keep(w.demoConfig())
		// next checks until nothing changes, and returns the changes, as "verb prefix", with * for
		// a repair.
		next := func() string {
			t.Helper()
			var all []string
			for range 6 {
				time.Sleep(time.Minute)
				for _, c := range w.reconcile(k).Changes {
					mark := ""
					if c.Repair {
						mark = "*"
					}
					v := c.New
					if v == nil {
						v = c.Old
					}
					all = append(all,
						fmt.Sprintf("%s%s %s %s", c.Verb, mark, v.AddressPrefix, c.State))
				}
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		expect := func(want string) {
			t.Helper()
			if got := next(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		without := func(table arm.ID, prefix string) {
			w.edit(table, func(p object) {
				p["routes"] = slices.DeleteFunc(p["routes"].([]any), func(r any) bool {
					return r.(object)["properties"].(object)["addressPrefix"] == prefix
				})
			})
		}
		scale := func(n int) {
			t.Helper()
			w.edit(w.demo.Cluster.Child("agentPools", w.demo.Pool), func(p object) {
				p["count"] = n
			})
		}
		// it was never there
		expect("create 10.244.0.0/24 done, create 10.244.1.0/24 done, create 10.244.2.0/24 done")
		without(w.demo.GatewayTable, "10.244.1.0/24")
		expect("create* 10.244.1.0/24 done")
		w.edit(w.demo.GatewayTable, func(p object) { // to another node
			for _, r := range p["routes"].([]any) {
				if p := r.(object)["properties"].(object); p["addressPrefix"] == "10.244.1.0/24" {
					p["nextHopIpAddress"] = "10.42.1.4"
				}
			}
		})
		expect("update* 10.244.1.0/24 done")
		scale(4)
		expect("create 10.244.3.0/24 done")
		scale(3)
		expect("delete 10.244.3.0/24 done")

		// A refused repair stays one until it is made.
		clear := w.inject(emulator.Fault{Method: http.MethodPut, Path: "appgw-rt", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"})
		without(w.demo.GatewayTable, "10.244.2.0/24")
		expect(strings.TrimSuffix(strings.Repeat("create* 10.244.2.0/24 failed, ", 6), ", "))
		clear()
		if got := next(); !strings.Contains(got, "create* 10.244.2.0/24 done") {
			t.Errorf("got %s", got)
		}

		// A change that the cluster's table causes is not a repair, even if it cannot be made at
		// once.
		clear = w.inject(emulator.Fault{Method: http.MethodPut, Path: "appgw-rt", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"})
		scale(4)
		expect(strings.TrimSuffix(strings.Repeat("create 10.244.4.0/24 failed, ", 6), ", "))
		scale(3)
		clear()
		expect("")

		// Another keeper does not remember the past.
		without(w.demo.GatewayTable, "10.244.2.0/24")
		k = w.keep(w.demoConfig())
		expect("create 10.244.2.0/24 done")

		// A stale route that stays is not correct, so removing it was right.
		upsert := w.demoConfig()
		upsert.Spec.Targets[0].Policy = v1alpha1.PolicyUpsertOnly
		k = w.keep(upsert)
		before := w.get(w.demo.ClusterTable)
		expect("")
		without(w.demo.ClusterTable, "10.244.2.0/24")
		expect("")
		without(w.demo.GatewayTable, "10.244.2.0/24")
		expect("")
		w.put(w.demo.ClusterTable, before)
		expect("create 10.244.2.0/24 done")
	})
}

// TestUndoneAtOnce: a policy changes what is written before it is stored. That is not tried at each
// check for ever, and a finding says so.
func TestUndoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slow)
		k := w.keepOver(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/appgw") {
					return next.RoundTrip(r)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				body, err = sjson.DeleteBytes(body, "properties.routeTable")
				if err != nil {
					return nil, err
				}
				r = r.Clone(r.Context())
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				return next.RoundTrip(r)
			})
		}, w.demoConfig())
		w.reconcile(k)
		w.strip(w.demo.GatewaySubnet)
		since, r := w.mark(), Result{}
		for range 360 { // an hour
			time.Sleep(10 * time.Second)
			r = w.reconcile(k)
		}
		writes := 0
		for _, r := range since() {
			if r.Method == http.MethodPut {
				writes++
			}
		}
		if writes > 60 || writes < 8 {
			t.Errorf("%d writes in an hour", writes)
		}
		if !slices.Contains(codes(r), finding.Conflict) {
			t.Errorf("findings %+v", r.Findings)
		}
	})
}
