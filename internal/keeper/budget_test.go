package keeper

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestRepairsBeforePolls: checking many clusters takes more tokens than there are. A strip that an
// event reports is repaired as fast as without polls: they leave tokens for it, and its calls do
// not queue behind theirs. Nothing is throttled. With -short, a third of the
// clusters are there, which also need more than there is.
func TestRepairsBeforePolls(t *testing.T) {
	t.Parallel()
	sizes, clusters := []float64{100}, 60
	switch {
	case testing.Short():
		clusters = 20
	case full():
		sizes = append(sizes, 250)
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := slow
				opts.Buckets = emulator.Buckets{Reads: emulator.Bucket{Size: size, PerSecond: 25},
					Writes: emulator.Bucket{Size: 1e6, PerSecond: 1e6}}
				w := newWorld(t, opts)
				// Lists are refused, so that each cluster costs several calls.
				w.inject(emulator.Fault{Method: "GET",
					Path: "(routeTables|virtualNetworks|managedClusters)$", Count: -1, Status: 403,
					Code: "AuthorizationFailed"})
				configs := []v1alpha1.ClusterRoutes{w.demoConfig()}
				for i := range clusters {
					c := w.addCluster(fmt.Sprintf("c%d", i), fmt.Sprint(12+i))
					configs = append(configs, configure(fmt.Sprintf("c%d", i), c.cluster, c.target))
				}
				k := w.run(time.Second, configs...)
				throttled := func(requests []emulator.Request) bool {
					return slices.ContainsFunc(requests, func(r emulator.Request) bool {
						return r.Status == http.StatusTooManyRequests
					})
				}
				// In its first minutes the keeper learns what lists cost, and can meet the limit.
				k.since(time.Minute)
				since := w.mark()
				k.since(time.Minute)
				for i := 0; throttled(since()); i++ {
					if i == 10 {
						t.Fatal("it runs into the limit again and again")
					}
					since = w.mark()
					k.since(time.Minute)
				}
				if n := len(since()); n < 400 {
					t.Fatalf("polls take %d calls a minute: that drains nothing", n)
				}
				for i := range 4 {
					subnet := w.demo.NodeSubnet
					if i%2 == 1 {
						subnet = w.demo.GatewaySubnet
					}
					w.strip(subnet)
					time.Sleep(5 * time.Second)
					k.Wake(Event{}, subnet)
					k.since(7 * time.Second) // the operation takes four
					if w.tableOf(subnet) == "" {
						t.Errorf("strip %d waits for the polls", i)
					}
					k.since(time.Duration(17+i*13) * time.Second)
				}
				if throttled(since()) {
					t.Error("it ran into the limit")
				}
			})
		})
	}
}

// TestAllObeyRetryAfter: after a 429 of ARM nothing calls the subscription for half a minute,
// neither a repair nor a poll. Another subscription does not wait.
func TestAllObeyRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, play := apartWorld(t)
		third := w.addCluster("third", "51")
		k := w.run(10*time.Second, w.demoConfig(), configure("play", play.cluster, play.target),
			configure("third", third.cluster))
		k.since(time.Minute)
		w.inject(emulator.Fault{Method: "GET", Path: emulator.DefaultSubscription +
			".*Microsoft.Network", Status: 429, Code: "SubscriptionRequestsThrottled",
			RetryAfter: 45})
		w.strip(w.demo.NodeSubnet, third.subnet)
		k.since(11 * time.Second)
		since := w.mark()
		w.strip(play.subnet)
		k.Wake(Event{}, w.demo.NodeSubnet)
		k.since(18 * time.Second)
		for _, r := range since() {
			if network := r.Path; len(network) > 52 &&
				network[15:51] == emulator.DefaultSubscription && r.Method == "GET" {
				t.Errorf("%s %s within half a minute of the 429", r.Method, r.Path)
			}
		}
		if w.tableOf(play.subnet) == "" {
			t.Error("the other subscription waits")
		}
		k.since(40 * time.Second)
		if w.tableOf(w.demo.NodeSubnet) == "" || w.tableOf(third.subnet) == "" {
			t.Error("not repaired when it was over")
		}
	})
}
