// Package controller is what routekeeper-controller runs: it manages the clusters of ClusterRoutes
// objects, and writes what it reads into their status.
//
// How it works. Each replica watches the objects (objects.go). The one that holds the lease runs
// the daemon of `routekeeper run`, whose config is the set of objects instead of files (set.go). So
// the keeper is the same, with its history, listener and log. What a check shows becomes the status
// and Events of the objects (status.go, reconcile.go, events.go). The lease says which replica may
// write (lease.go), the scopes what an object may name (scope.go).
//
// The keeper has two hooks that `run` does not use. Withhold says why a change must not be made:
// the lease is not valid, or the change is outside the scopes of the object's namespace. Replace
// gives it new configs and orders removals one by one. With files, removing a config is an order by
// itself. But an object can also become invalid or lose its scopes, and then nothing may be
// deleted.
//
// It must not decide anything about routes.
package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Options say how the controller runs.
type Options struct {
	// API says how to reach the Kubernetes API server. Inside is set if the controller runs in that
	// server's cluster.
	API    *rest.Config
	Inside bool
	// Namespace has the lease, Identity names this replica in it.
	Namespace, Identity string
	// Lease is how long others wait before they replace a replica that has died.
	Lease time.Duration
	// Namespaces and Selector limit which objects the controller sees; none: all.
	Namespaces []string
	Selector   string
	// Health is the address of /healthz and /readyz, which every replica serves; "" for none.
	Health string
	Scopes Scopes
	// Daemon is what the leader runs. Run sets its configs and hooks.
	Daemon daemon.Options
}

// name returns the controller's name in the status of objects.
func (o Options) name() string { return o.Namespace + "/" + leaseName }

// leaseName is the name of the Lease, and of the controller in Events.
const leaseName = v1alpha1.LeaseName

// validOf returns how long a renewal of the lease allows writes. The rest of the lease's duration
// is for the write under way.
func validOf(lease time.Duration) time.Duration { return lease * 2 / 3 }

// controller is one replica.
type controller struct {
	o       Options
	log     *slog.Logger
	nodes   dynamic.ResourceInterface
	objects *objects
	queue   workqueue.TypedRateLimitingInterface[string] // keys of objects to reconcile
	metrics *metrics
	events  *events
	lease   *lease
	set     *set
	board   board
	dirty   chan struct{}                // has an element while a change of an object waits
	worked  chan struct{}                // closed once the queue is shut down and empty
	led     atomic.Bool                  // the keeper runs, or its last results are being written
	synced  atomic.Bool                  // all objects were read
	live    atomic.Pointer[func() error] // says why the keeper is stuck; nil: none runs
	known   map[string]finding.Finding
	// refused has the refusals that were logged, by config name.
	refused map[string]refusal

	mu    sync.Mutex
	specs map[string]*ClusterRoutes // objects with the specs that the keeper has, by config name
}

// Run takes part in the election. As the leader, it manages the clusters of the objects until the
// context ends. That end is not an error. It ends the lease once the last write has ended.
func Run(ctx context.Context, o Options) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	metrics := newMetrics(queue.Len)
	o.Daemon.Metrics, o.API = metrics, rest.CopyConfig(o.API)
	o.API.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counted{rt, metrics.calls} })
	forLease := rest.CopyConfig(o.API)
	forLease.QPS = -1 // no limit: a lease has its own pace
	var apis [3]connection
	for i, to := range []*rest.Config{o.API, o.API, forLease} {
		var err error
		if apis[i], err = connect(to); err != nil {
			return fmt.Errorf("the Kubernetes API server: %w", err)
		}
	}
	c := &controller{o: o, log: o.Daemon.Log, nodes: apis[0].Resource(nodes),
		objects: newObjects(apis[0], o), events: newEvents(apis[1], o), queue: queue,
		metrics: metrics, dirty: make(chan struct{}, 1), worked: make(chan struct{})}
	c.lease = newLease(apis[2], o)
	c.lease.reconnect = apis[2].drop
	c.board.clear()
	c.set = newSet(o, c.changed)
	health, err := c.serveHealth()
	if err != nil {
		return fmt.Errorf("--health: %w", err)
	}
	defer health.Close()
	// These outlive the keeper, because the last check still writes its results into the objects.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() {
		defer close(c.worked)
		c.work(serving)
	})
	all.Go(func() { c.events.run(serving) })
	all.Go(func() { c.locate(serving) })
	err = c.lead(ctx, serving)
	queue.ShutDown()
	stop()
	all.Wait()
	return err
}

// watch follows the objects until serving ends, and queues changed ones for reconciliation. It
// returns once all objects were read.
func (c *controller) watch(ctx, serving context.Context) error {
	if err := c.served(ctx); err != nil {
		return err
	}
	queue := func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			c.queue.Add(key)
		}
	}
	c.objects.follow(ctx, serving, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.changed(); queue(o) },
		DeleteFunc: func(any) { c.changed() },
		UpdateFunc: func(before, after any) {
			was, is := decode(before), decode(after)
			if was.Generation != is.Generation || was.undecodable != is.undecodable ||
				was.Status.Controller != is.Status.Controller ||
				len(was.Finalizers) != len(is.Finalizers) ||
				was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() {
				c.changed()
			}
			queue(after)
		},
	}, func(err error) { // another watch follows
		c.log.Warn("the ClusterRoutes objects cannot be watched", "error", err.Error())
	})
	c.synced.Store(ctx.Err() == nil)
	return ctx.Err()
}

// served waits until the API server answers. If it does not serve the objects, that is an error.
func (c *controller) served(ctx context.Context) error {
	for {
		err := c.objects.probe(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsNotFound(err):
			return fmt.Errorf("the API server does not serve ClusterRoutes: %w; "+
				"routekeeper init schema --kind CustomResourceDefinition | kubectl apply -f - "+
				"adds them",
				err)
		}
		c.log.Error("the ClusterRoutes objects cannot be read", "server", c.o.API.Host, "error",
			err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// changed makes the controller build the set again.
func (c *controller) changed() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// leads reports whether this replica writes status: it runs the keeper, and its lease is valid.
func (c *controller) leads() bool {
	valid, _ := c.lease.holds()
	return c.led.Load() && valid
}

// lead runs the keeper while this replica has the lease, until the context ends. serving ends
// later.
func (c *controller) lead(ctx, serving context.Context) error {
	waited := daemon.Wait(c.o.Daemon)
	defer func() { waited() }()
	if err := c.watch(ctx, serving); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	electing, release := context.WithCancel(serving)
	var elected sync.WaitGroup
	elected.Go(func() { c.lease.elect(electing) })
	defer func() { // after the last write
		release()
		elected.Wait()
	}()
	c.log.Info("waiting for the lease", "namespace", c.o.Namespace, "lease", leaseName, "identity",
		c.o.Identity)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.lease.news:
		case <-c.dirty:
			c.set.observe(c.list())
		}
		if valid, _ := c.lease.holds(); valid {
			waited()
			waited = func() {}
			err := c.runKeeper(ctx)
			if err != nil || ctx.Err() != nil {
				c.drain()
				return err
			}
			c.led.Store(false)
			waited = daemon.Wait(c.o.Daemon)
		}
	}
}

// drain writes the results of the last check into the objects, unless the API server is away.
func (c *controller) drain() {
	c.queue.ShutDown() // the workers still take what is queued
	select {
	case <-c.worked:
	case <-time.After(5 * time.Second):
	}
}

// runKeeper runs the keeper until another replica has the lease.
func (c *controller) runKeeper(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-c.lease.news:
				if c.lease.elsewhere() {
					c.log.Warn("another replica has the lease")
					stop()
				}
			}
		}
	}()
	c.log.Info("this replica has the lease")
	c.set.reset()
	c.board.clear()
	c.refused, c.known = nil, nil
	c.led.Store(true)         // before objects are queued: no check wakes a refused one
	configs, _ := c.configs() // nothing is removed before a check
	o := c.o.Daemon
	o.Configs, o.Follow, o.Withhold = configs, c.follow, c.withhold
	o.Planned, o.Checked = c.planned, c.checked
	return daemon.Run(ctx, o)
}

// list returns the objects that are not another controller's.
func (c *controller) list() []ClusterRoutes {
	return slices.DeleteFunc(c.objects.list(),
		func(o ClusterRoutes) bool { return c.o.foreign(&o) })
}

// configs makes the set from all objects.
func (c *controller) configs() ([]v1alpha1.ClusterRoutes, []keeper.Removal) {
	all := c.list()
	configs, removals := c.set.build(all)
	specs := map[string]*ClusterRoutes{}
	for _, config := range configs {
		specs[config.Metadata.Name] = nil
	}
	for i := range all {
		if _, has := specs[all[i].name()]; has {
			specs[all[i].name()] = c.set.current(&all[i])
		}
	}
	refused := c.set.refusals()
	logRefusals(c.log, c.refused, refused)
	c.refused = refused
	c.mu.Lock()
	c.specs = specs
	c.mu.Unlock()
	for i := range all {
		c.queue.Add(all[i].key())
	}
	return configs, removals
}

// object returns an object with the spec that the keeper has, or nil.
func (c *controller) object(name string) *ClusterRoutes {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.specs[name]
}

// collectFor is how long changes of objects are collected.
const collectFor = 200 * time.Millisecond

// follow gives the keeper the configs of the objects, until the context ends.
func (c *controller) follow(ctx context.Context, r daemon.Running) {
	c.live.Store(&r.Live)
	defer c.live.Store(nil)
	for {
		c.mu.Lock()
		none := len(c.specs) == 0
		c.mu.Unlock()
		if none {
			r.Idle()
		}
		r.Refused(refusedLines(c.refused))
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Second):
			continue
		case <-c.dirty:
		}
		time.Sleep(collectFor)
		configs, removals := c.configs()
		r.Keeper.Replace(configs, removals...)
	}
}

// withhold says why a change must not be made.
func (c *controller) withhold(i keeper.Intent) string {
	if valid, since := c.lease.holds(); !valid && i.Verb != plan.Associate {
		if since.IsZero() {
			return "another replica of the controller has the lease"
		}
		return "the Kubernetes API server has not renewed this replica's lease since " +
			since.UTC().Format("15:04:05 UTC") + ", so another one may write"
	}
	namespace, _, _ := strings.Cut(i.Cluster, ".")
	ids := []arm.ID{i.Resource, i.Source}
	if _, value := i.New.Associated(); value != "" {
		ids = append(ids, value)
	}
	return c.o.Scopes.mayWrite(namespace, i.Of, ids...)
}

// checked handles the result of a check.
func (c *controller) checked(r keeper.Result) {
	c.set.note(r)
	c.board.take(r, false, c.generation)
	c.addEvents(r)
	c.wakeAll(r)
}

// planned handles a check that is about to change something.
func (c *controller) planned(r keeper.Result) {
	c.board.take(r, true, c.generation)
	c.wakeAll(r)
}

// generation returns the generation of an object that the keeper has.
func (c *controller) generation(name string) int64 {
	if o := c.object(name); o != nil {
		return o.Generation
	}
	return 0
}

// wakeAll queues the objects of a check for reconciliation.
func (c *controller) wakeAll(r keeper.Result) {
	for _, config := range r.Checked() {
		if o := c.object(config.Metadata.Name); o != nil {
			c.queue.Add(o.key())
		}
	}
}
