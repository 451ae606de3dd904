package serve

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Kinds of repairs: the association of a node subnet or of a subnet in spec.guard.subnets, or a
// route in a target.
const (
	nodeSubnet    = "node-subnet"
	guardedSubnet = "guarded-subnet"
	targetRoute   = "target"
)

// waits measures how long changes wait: from the event or check that first found them necessary to
// the moment they were seen in Azure, over any number of checks.
type waits struct {
	repair *prometheus.HistogramVec // kind
	node   prometheus.Histogram
	since  map[wait]time.Time // changes that were not made yet
}

// wait is a change to be made. The name of a route may change in the meantime.
type wait struct{ cluster, resource, prefix string }

func newWaits(registry *prometheus.Registry) *waits {
	buckets := []float64{.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600}
	w := &waits{since: map[wait]time.Time{}}
	w.repair = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "routekeeper_repair_seconds", Buckets: buckets,
		Help: "From the event or check that saw a loss to its repair: of the association of a " +
			"node subnet or guarded subnet, or of a route in a target.",
	}, []string{"kind"})
	w.node = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "routekeeper_node_routed_seconds", Buckets: buckets,
		Help: "From the event or check that saw a node's new route in the cluster's table to the " +
			"route in a target.",
	})
	for _, kind := range []string{nodeSubnet, guardedSubnet, targetRoute} {
		// Without a 0 at the start, Prometheus would not see the first increase.
		w.repair.WithLabelValues(kind)
	}
	registry.MustRegister(w.repair, w.node)
	return w
}

// record stores which changes a check left and made. began is when the check, or the event that
// triggered it, began.
func (w *waits) record(r keeper.Result, began time.Time) {
	if hasFinding(r, "", finding.Paused) {
		clear(w.since) // a person paused them
		return
	}
	open := map[wait]bool{}
	for _, c := range r.Changes {
		if c.New == nil {
			continue // no traffic waits for a delete
		}
		key := wait{c.Cluster, c.Resource.Key(), c.New.AddressPrefix}
		since, waited := w.since[key]
		if !waited {
			since = began
		}
		delete(w.since, key)
		switch c.State {
		case plan.Done:
			end := c.Ended
			if end.IsZero() {
				end = r.Started.Add(r.Elapsed)
			}
			w.observe(c.Change, r.Configs, end.Sub(since))
		case plan.Obsolete:
		default:
			w.since[key], open[key] = since, true
		}
	}
	for key := range w.since {
		switch {
		case open[key]:
		case !slices.Contains(r.Managed, key.cluster):
			delete(w.since, key)
		case !slices.Contains(r.CheckedNames(), key.cluster):
		// not read: it still waits
		case hasFinding(r, key.cluster, finding.ReadFailed, finding.AzureUnreachable):
		default:
			delete(w.since, key) // made, or no longer needed
		}
	}
}

func (w *waits) observe(c plan.Change, configs []v1alpha1.ClusterRoutes, took time.Duration) {
	switch {
	case c.Verb == plan.Associate && guards(configs, c):
		w.repair.WithLabelValues(guardedSubnet).Observe(took.Seconds())
	case c.Verb == plan.Associate:
		w.repair.WithLabelValues(nodeSubnet).Observe(took.Seconds())
	case c.Repair, c.Egress:
		w.repair.WithLabelValues(targetRoute).Observe(took.Seconds())
	default:
		w.node.Observe(took.Seconds())
	}
}

// guards reports whether a change's subnet is in its config's spec.guard.subnets.
func guards(configs []v1alpha1.ClusterRoutes, c plan.Change) bool {
	return slices.ContainsFunc(configs, func(config v1alpha1.ClusterRoutes) bool {
		return config.Metadata.Name == c.Cluster && plan.Guards(&config, c.Resource)
	})
}
