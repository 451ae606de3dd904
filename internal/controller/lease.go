package controller

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// lease is this replica's part in the leader election. How it works: it is the protocol of
// client-go's leaderelection, so replicas of any version understand each other. The leader writes
// the Lease every eighth of its duration. Another replica takes it once it is released, or has not
// changed for its duration. It measures this with its own clock, because other clocks may be wrong.
// If two write at once, the API server refuses the second, because its resourceVersion is old.
//
// A replica that loses the API server cannot renew the lease. It continues without a valid lease:
// it repairs associations, which two replicas may do at once, but writes no routes. It stops when
// it sees that another replica has the lease.
//
// A replica may write routes for two thirds of the lease's duration after its last renewal began,
// by its own monotonic clock. Others wait for the whole duration. The remaining third is for the
// PUT under way, and If-Match protects writes that take longer. Putting back a table that is
// already there is not a change. And a replica that reaches Azure but not the API server may be the
// only one that does.
type lease struct {
	api      dynamic.ResourceInterface // the Leases of the controller's namespace
	log      *slog.Logger
	identity string
	duration time.Duration
	valid    time.Duration // how long a renewal is good for: shorter than others wait
	// reconnect is called after a call has failed: its connection may be dead.
	reconnect func()

	// seen is the spec as last read, and since when it has been the same. Only elect uses it.
	seen  map[string]any
	since time.Time

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal began; zero: not the leader
	news    chan struct{}
	other   bool // another replica has it
}

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1",
	Resource: "leases"}

func newLease(api dynamic.Interface, o Options) *lease {
	return &lease{api: api.Resource(leases).Namespace(o.Namespace), log: o.Daemon.Log,
		identity: o.Identity, duration: o.Lease, valid: validOf(o.Lease),
		news: make(chan struct{}, 1), reconnect: func() {}}
}

// elect takes part in the election until the context ends, and then releases the lease.
func (l *lease) elect(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		if failing {
			l.reconnect()
		}
		err := l.try(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			l.log.Warn("the lease can be neither taken nor renewed", "error", err.Error())
		case err == nil && failing:
			l.log.Info("the API server answers for the lease again")
		}
		failing = err != nil
		wait := l.duration / 8
		if valid, _ := l.holds(); !valid { // so that the waiting replicas do not all write at once
			wait += rand.N(wait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	l.release(context.WithoutCancel(ctx))
}

// try takes or renews the lease, unless another replica has it.
func (l *lease) try(ctx context.Context) error {
	// A call that hangs leaves time for one more.
	ctx, cancel := context.WithTimeout(ctx, l.duration/4)
	defer cancel()
	is, spec, err := l.get(ctx)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(spec, l.seen) {
		l.seen, l.since = maps.Clone(spec), time.Now()
	}
	holder, _ := spec["holderIdentity"].(string)
	if holder != "" && holder != l.identity {
		l.set(time.Time{}, true)
		wait := l.duration
		if seconds, has := spec["leaseDurationSeconds"].(int64); has {
			wait = time.Duration(seconds) * time.Second
		}
		if time.Since(l.since) < wait {
			return nil
		}
	}
	began := time.Now()
	spec["renewTime"] = began.UTC().Format(metav1.RFC3339Micro)
	// The API server stores whole seconds. Rounding up is safe: others wait longer.
	spec["leaseDurationSeconds"] = int64(math.Ceil(l.duration.Seconds()))
	if holder != l.identity {
		spec["holderIdentity"], spec["acquireTime"] = l.identity, spec["renewTime"]
		transitions, before := spec["leaseTransitions"].(int64)
		if before {
			transitions++
		}
		spec["leaseTransitions"] = transitions
	}
	err = l.put(ctx, is, spec)
	switch {
	case err == nil:
		l.set(began, false)
	case errors.IsConflict(err), errors.IsAlreadyExists(err): // another replica was faster
		return nil
	}
	return err
}

// release ends the lease, so that another replica takes it at once.
func (l *lease) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.valid)
	defer cancel()
	l.set(time.Time{}, l.elsewhere()) // from here on no route is written
	is, spec, err := l.get(ctx)
	if err == nil && spec["holderIdentity"] == l.identity {
		spec["holderIdentity"], spec["leaseDurationSeconds"] = "", int64(1)
		spec["renewTime"] = time.Now().UTC().Format(metav1.RFC3339Micro)
		spec["acquireTime"] = spec["renewTime"]
		err = l.put(ctx, is, spec)
	}
	if err != nil {
		l.log.Warn("the lease is not released: others wait until it ends", "error", err.Error())
	}
}

// get reads the Lease and its spec. It returns an empty one if there is none.
func (l *lease) get(ctx context.Context) (*unstructured.Unstructured, map[string]any, error) {
	is, err := l.api.Get(ctx, leaseName, metav1.GetOptions{})
	if errors.IsNotFound(err) {
		is, err = new(unstructured.Unstructured), nil
		is.SetGroupVersionKind(leases.GroupVersion().WithKind("Lease"))
		is.SetName(leaseName)
	}
	if err != nil {
		return nil, nil, err
	}
	spec, has, err := unstructured.NestedMap(is.Object, "spec")
	if !has {
		spec = map[string]any{}
	}
	return is, spec, err
}

// put writes the Lease if it has not changed since it was read.
func (l *lease) put(ctx context.Context, is *unstructured.Unstructured,
	spec map[string]any) (err error) {
	is.Object["spec"] = spec
	if is.GetResourceVersion() == "" {
		_, err = l.api.Create(ctx, is, metav1.CreateOptions{})
	} else {
		_, err = l.api.Update(ctx, is, metav1.UpdateOptions{})
	}
	return err
}

// set notes when this replica last renewed the lease, and whether another one has it.
func (l *lease) set(renewed time.Time, other bool) {
	l.mu.Lock()
	l.renewed, l.other = renewed, other
	l.mu.Unlock()
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// holds reports whether this replica may write, and since when it has not renewed the lease.
func (l *lease) holds() (bool, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) < l.valid, l.renewed
}

// elsewhere reports whether another replica has the lease.
func (l *lease) elsewhere() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.other
}
