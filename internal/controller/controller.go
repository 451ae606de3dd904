// Package controller is what routekeeper-controller runs: it manages the clusters of ClusterRoutes
// objects, and writes into the objects what it sees.
//
// How it works. A controller-runtime manager watches the objects. The replica that holds the lease
// runs the daemon of `routekeeper run`, whose config is the set of objects instead of files
// (set.go). So the keeper is the same, with its history, listener and log. What a check shows
// becomes the status and Events of the objects (status.go, reconcile.go). The lease says which
// replica may write (lease.go), the scopes what an object may name (scope.go).
//
// The keeper has two hooks that `run` does not use. Withhold says why a change must not be made:
// the lease is not valid, or it is outside the scopes of the object's namespace. Replace gives it
// other configs and orders removals one by one: with files, removing a config is an order by
// itself, but an object can also become invalid or lose its scopes, and that must delete nothing.
//
// The package decides nothing about routes.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
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
	Selector   labels.Selector
	// Health is the address of /healthz and /readyz, which every replica serves; "" for none.
	Health string
	Scopes Scopes
	// Daemon is what the leader runs. Run sets its configs and hooks.
	Daemon daemon.Options
}

// name returns the controller's name in the status of objects.
func (o Options) name() string { return o.Namespace + "/" + leaseName }

// cache returns the cache of the objects that the controller sees; it has no others.
func (o Options) cache() cache.Options {
	c := cache.Options{DefaultLabelSelector: o.Selector}
	for _, namespace := range o.Namespaces {
		if c.DefaultNamespaces == nil {
			c.DefaultNamespaces = map[string]cache.Config{}
		}
		c.DefaultNamespaces[namespace] = cache.Config{}
	}
	return c
}

// leaseName is the name of the Lease, and of the controller in Events.
const leaseName = v1alpha1.LeaseName

// validOf returns how long a renewal of the lease allows writes: what a write takes is left over.
func validOf(lease time.Duration) time.Duration { return lease * 2 / 3 }

// controller is one replica.
type controller struct {
	o      Options
	log    *slog.Logger
	client client.Client
	reader client.Reader // without a cache
	events events.EventRecorder
	lease  *lease
	set    *set
	board  board
	news   chan event.GenericEvent      // objects whose status may have changed
	dirty  chan struct{}                // has an element while an object has changed
	led    atomic.Bool                  // the keeper runs
	live   atomic.Pointer[func() error] // says why the keeper is stuck; nil: none runs
	known  map[string]finding.Finding
	// refused are the refusals that the log has said, by config name.
	refused map[string]refusal

	mu      sync.Mutex
	objects map[string]*ClusterRoutes // with the specs that the keeper has, by config name
}

// Run takes part in the election and, as the leader, manages the clusters of the objects until the
// context ends, which is not an error. It ends the lease once the last write has ended.
func Run(ctx context.Context, o Options) error {
	log := o.Daemon.Log
	o.Daemon.Metrics = runtimeMetrics
	ctrllog.SetLogger(logr.FromSlogHandler(demoted{log.Handler()}))
	klog.SetSlogLogger(slog.New(demoted{log.Handler()}))
	scheme := runtime.NewScheme()
	addTo(scheme)
	m, err := manager.New(o.API, manager.Options{
		Scheme: scheme, HealthProbeBindAddress: o.Health, Cache: o.cache(),
		Metrics: server.Options{BindAddress: "0"}, // the daemon has its own
	})
	if err != nil {
		return fmt.Errorf("the Kubernetes API server: %w", err)
	}
	c := &controller{o: o, log: log, client: m.GetClient(), reader: m.GetAPIReader(),
		events: m.GetEventRecorder(leaseName), news: make(chan event.GenericEvent, 1000),
		dirty: make(chan struct{}, 1)}
	c.board.clear()
	c.set = newSet(o, c.changed)
	coordinating, err := coordination.NewForConfig(o.API)
	if err != nil {
		return err
	}
	c.lease = newLease(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: leaseName}, Client: coordinating,
		LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}, validOf(o.Lease))
	if err := c.watch(ctx, m); err != nil {
		return err
	}
	// The manager outlives the keeper, whose last check still writes what it did into the objects.
	managed, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- m.Start(managed) }()
	led := make(chan error, 1)
	go func() { led <- c.lead(ctx, m) }()
	select {
	case err = <-ended: // it could not start
		return errors.Join(err, fmt.Errorf("the Kubernetes API server at %s cannot be used",
			o.API.Host))
	case err = <-led:
		stop()
		return errors.Join(err, <-ended)
	}
}

// watch queues objects for reconciliation: when they change, and when a check has news about them.
func (c *controller) watch(ctx context.Context, m manager.Manager) error {
	err := errors.Join(m.AddHealthzCheck("keeper", c.healthy),
		m.AddReadyzCheck("ping", healthz.Ping))
	if err != nil {
		return err
	}
	informer, err := m.GetCache().GetInformer(ctx, &ClusterRoutes{})
	if err != nil {
		return fmt.Errorf("the API server does not serve ClusterRoutes: %w; "+
			"routekeeper init schema --kind CustomResourceDefinition | kubectl apply -f - "+
			"adds them",
			err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.changed() }, DeleteFunc: func(any) { c.changed() },
		UpdateFunc: func(before, after any) {
			was, is := before.(*ClusterRoutes), after.(*ClusterRoutes)
			if was.Generation != is.Generation ||
				was.Status.Controller != is.Status.Controller ||
				len(was.Finalizers) != len(is.Finalizers) ||
				was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero() {
				c.changed()
			}
		},
	})
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(m).Named("clusterroutes").For(&ClusterRoutes{}).
		WatchesRawSource(source.Channel(c.news, &handler.EnqueueRequestForObject{})).Complete(c)
}

// healthy says why this replica must be replaced: its keeper is stuck. The lease does not show
// that: another goroutine renews it.
func (c *controller) healthy(*http.Request) error {
	if live := c.live.Load(); live != nil {
		return (*live)()
	}
	return nil
}

// changed causes the set to be built again.
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

// lead runs the keeper while this replica has the lease, until the context ends.
func (c *controller) lead(ctx context.Context, m manager.Manager) error {
	if !m.GetCache().WaitForCacheSync(ctx) {
		return nil
	}
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	elected := make(chan error, 1)
	go func() { elected <- c.lease.elect(electing, c.o.Lease) }()
	defer func() { // after the last write
		release()
		<-elected
	}()
	waited := daemon.Wait(c.o.Daemon)
	defer func() { waited() }()
	c.log.Info("waiting for the lease", "namespace", c.o.Namespace, "lease", leaseName, "identity",
		c.o.Identity)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-elected:
			elected <- err
			return err
		case <-c.lease.news:
		case <-c.dirty:
			if all, err := c.list(ctx); err == nil {
				c.set.observe(all)
			}
		}
		if valid, _ := c.lease.holds(); valid {
			waited()
			err := c.keep(ctx)
			waited = func() {}
			if err != nil || ctx.Err() != nil {
				return err
			}
			waited = daemon.Wait(c.o.Daemon)
		}
	}
}

// keep runs the keeper until another replica has the lease.
func (c *controller) keep(ctx context.Context) error {
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
	own, err := c.locate(ctx)
	if err != nil {
		return err
	}
	c.set.reset(own)
	c.refused = nil
	configs, _, err := c.configs(ctx) // nothing is removed before a check
	if err != nil {
		return err
	}
	c.board.clear()
	c.known = nil
	c.led.Store(true)
	defer c.led.Store(false)
	o := c.o.Daemon
	o.Configs, o.Follow, o.Withhold = configs, c.follow, c.withhold
	o.Planned, o.Checked = c.planned, c.checked
	return daemon.Run(ctx, o)
}

// locate finds out in which cluster the controller runs: from the machines of its nodes.
func (c *controller) locate(ctx context.Context) (own arm.ID, err error) {
	if !c.o.Inside {
		return "", nil
	}
	nodes := &unstructured.UnstructuredList{}
	nodes.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	if err := c.reader.List(ctx, nodes, client.Limit(20)); err != nil {
		return "", fmt.Errorf("the nodes of the cluster that the controller runs in: %w", err)
	}
	for _, n := range nodes.Items {
		machine, _, _ := unstructured.NestedString(n.Object, "spec", "providerID")
		if id := (inventory.Node{ProviderID: machine}).Machine(); id != "" {
			return id.Group(), nil
		}
	}
	c.log.Warn("no node says which machine it is: whether a cluster can be guarded from inside " +
		"is not checked")
	return "", nil
}

// list returns the objects that are not another controller's, from the cache.
func (c *controller) list(ctx context.Context) ([]ClusterRoutes, error) {
	var all ClusterRoutesList
	err := c.client.List(ctx, &all)
	return slices.DeleteFunc(all.Items, func(o ClusterRoutes) bool { return c.o.foreign(&o) }), err
}

// configs makes the set from all objects.
func (c *controller) configs(ctx context.Context) ([]v1alpha1.ClusterRoutes, []keeper.Removal,
	error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	configs, removals := c.set.make(all)
	objects := map[string]*ClusterRoutes{}
	for _, config := range configs {
		objects[config.Metadata.Name] = nil
	}
	for i := range all {
		if _, has := objects[all[i].name()]; has {
			objects[all[i].name()] = c.set.current(&all[i])
		}
	}
	refused := c.set.refusals()
	logRefusals(c.log, c.refused, refused)
	c.refused = refused
	c.mu.Lock()
	c.objects = objects
	c.mu.Unlock()
	for i := range all {
		c.wake(&all[i])
	}
	return configs, removals, nil
}

// object returns an object with the spec that the keeper has, or nil.
func (c *controller) object(name string) *ClusterRoutes {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[name]
}

func (c *controller) has(name string) bool { return c.object(name) != nil }

// settle is how long changes of objects are collected.
const settle = 200 * time.Millisecond

// follow gives the keeper the configs of the objects, until the context ends.
func (c *controller) follow(ctx context.Context, r daemon.Running) {
	c.live.Store(&r.Live)
	defer c.live.Store(nil)
	for {
		c.mu.Lock()
		none := len(c.objects) == 0
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
		time.Sleep(settle)
		configs, removals, err := c.configs(ctx)
		if err != nil {
			c.log.Error("the ClusterRoutes objects cannot be read", "error", err.Error())
			continue
		}
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

// checked takes the result of a check.
func (c *controller) checked(r keeper.Result) {
	c.set.note(r)
	c.board.take(r, false, c.generation)
	c.tell(r)
	c.wakeAll(r)
}

// planned takes a check that is about to change something.
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
			c.wake(o)
		}
	}
}

// wake queues an object for reconciliation. If too many are waiting, the next check queues it.
func (c *controller) wake(o *ClusterRoutes) {
	select {
	case c.news <- event.GenericEvent{Object: o}:
	default:
	}
}
