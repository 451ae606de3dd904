package controller

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// watching returns a controller that watches objects, and what it logs.
func watching(t *testing.T, w *way, o Options) (*controller, *lines) {
	log := new(lines)
	o.API, o.Daemon.Log = w.config(), slog.New(slog.NewTextHandler(log, nil))
	return &controller{o: o, log: o.Daemon.Log, objects: newObjects(w.client(t), o),
		dirty: make(chan struct{}, 1), queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.DefaultTypedControllerRateLimiter[string]())}, log
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// queued returns the objects in the queue.
func (c *controller) queued() (keys []string) {
	for c.queue.Len() > 0 {
		key, _ := c.queue.Get()
		c.queue.Done(key)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// TestWatch: the controller sees the objects of its namespaces and its selector, also what
// changed while the API server was away, soon after it is back. Only what concerns the keeper makes
// the set again.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &way{fakeAPI: newFakeAPI()}
		object := func(namespace, name, shard string, generation int64) ClusterRoutes {
			o := refusable(name, "1", generation)
			o.Namespace, o.Labels = namespace, map[string]string{"shard": shard}
			w.store(t, o)
			return o
		}
		object("team", "mine", "one", 1)
		object("team", "other", "two", 1)
		object("else", "mine", "one", 1)
		o := testOptions()
		o.Namespaces, o.Selector = []string{"team", "more", "team"}, "shard=one"
		c, log := watching(t, w, o)
		defer c.queue.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := c.watch(ctx, ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect := func(dirty bool, keys ...string) {
			t.Helper()
			time.Sleep(time.Second)
			got, is := c.queued(), len(c.dirty) == 1
			if fmt.Sprint(got) != fmt.Sprint(keys) || is != dirty {
				t.Errorf("queued are %q, dirty %v, want %q, %v", got, is, keys, dirty)
			}
			select {
			case <-c.dirty:
			default:
			}
		}
		expect(true, "team/mine")
		again := object("team", "mine", "one", 1)
		expect(false, "team/mine") // only its version is new
		object("more", "new", "one", 1)
		expect(true, "more/new")
		object("more", "other", "two", 1)
		expect(false)
		w.cutOff(true)
		time.Sleep(time.Hour)
		again.Generation = 2
		w.store(t, again)
		w.cutOff(false)
		time.Sleep(time.Minute)
		expect(true, "more/new", "team/mine") // all are read again
		if all := c.objects.list(); len(all) != 2 {
			t.Errorf("%+v", all)
		}
		if is := c.objects.get("team/mine"); is.Generation != 2 {
			t.Errorf("%+v", is)
		}
		if is := c.objects.get("else/mine"); is != nil {
			t.Errorf("an object of another namespace: %+v", is)
		}
		if !log.has("cannot be watched") {
			t.Error("the outage is not logged")
		}
	})
}

// TestNotServed: without the kind the error says which command adds it. An API server that does not
// answer at the start is waited for.
func TestNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &way{fakeAPI: newFakeAPI()}
		w.missing = "clusterroutes"
		w.cutOff(true)
		c, log := watching(t, w, testOptions())
		time.AfterFunc(time.Hour, func() { w.cutOff(false) })
		err := c.watch(t.Context(), t.Context())
		if err == nil || !strings.Contains(err.Error(), "does not serve ClusterRoutes") ||
			!strings.Contains(err.Error(), "routekeeper init schema --kind "+
				"CustomResourceDefinition | kubectl apply -f -") {
			t.Errorf("%v", err)
		}
		if !log.has("connection refused") {
			t.Error("why it waits is not logged")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.cutOff(true)
		if err := c.watch(ctx, ctx); err == nil {
			t.Error("it does not end with its context")
		}
		c.queue.ShutDown()
	})
}

// TestManyObjects: the status of 500 objects is written within seconds, and what fails comes again.
func TestManyObjects(t *testing.T) {
	w := &way{fakeAPI: newFakeAPI()}
	var all []ClusterRoutes
	for i := range 500 {
		o := refusable(fmt.Sprint("c", i), fmt.Sprint(i), 1)
		w.store(t, o)
		o.ResourceVersion = fmt.Sprint(w.version)
		all = append(all, o)
	}
	c := leading(t, w, all...)
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[string]())
	defer c.queue.ShutDown()
	var failures sync.Map
	w.received = func(r *http.Request) error { // some fail once
		if _, again := failures.LoadOrStore(r.URL.Path, true); !again &&
			strings.HasSuffix(r.URL.Path, "7/status") {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	go c.work(t.Context())
	for _, o := range all {
		c.queue.Add(o.key())
	}
	written := func() (n int) {
		for _, o := range w.stored("clusterroutes") {
			if o["status"] != nil {
				n++
			}
		}
		return n
	}
	for began := time.Now(); written() < len(all); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d of %d have a status", written(), len(all))
		}
	}
}

// TestDecode: an object is the same when it is written and read.
func TestDecode(t *testing.T) {
	full := refusable("shop", "1", 7, tableA)
	full.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000, 0))
	full.Spec.Pause = &v1alpha1.Pause{Until: "2030-01-01T00:00:00Z", Reason: "x", By: "ada"}
	full.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{SubnetID: "a", NATGatewayID: "b"}}
	full.Spec.PodCIDRs, full.Spec.Targets[0].MaxRoutes = []string{"10.244.0.0/16"}, 300
	full.Status = v1alpha1.Status{ObservedGeneration: 6, Routes: "1/2",
		Conditions: []v1alpha1.Condition{{Type: "Ready", ObservedGeneration: 6}},
		Targets:    []v1alpha1.TargetStatus{{RouteTableID: tableA, Expected: 2, Correct: 1}},
		LastChange: &v1alpha1.Change{Time: "2030-01-01T00:00:00Z", Message: "m"}}
	is := decode(&unstructured.Unstructured{Object: raw(t, full)})
	if !is.CreationTimestamp.Equal(&full.CreationTimestamp) {
		t.Errorf("%s, want %s", is.CreationTimestamp, full.CreationTimestamp)
	}
	is.CreationTimestamp = full.CreationTimestamp
	if !reflect.DeepEqual(*is, full) {
		t.Errorf("%+v, want %+v", is, full)
	}
}

// TestHealth: a replica is ready once it has read the objects and knows where it runs, and healthy
// until its keeper is stuck.
func TestHealth(t *testing.T) {
	c := &controller{set: newSet(Options{Inside: true}, func() {})}
	get := func(path string) int {
		answer := httptest.NewRecorder()
		c.health().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code
	}
	if got := get("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d before the objects were read", got)
	}
	c.synced.Store(true)
	if got := get("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d before it is known where the controller runs", got)
	}
	c.set.notePlace("", "")
	stuck := func() error { return fmt.Errorf("no check has ended") }
	for _, want := range []int{http.StatusOK, http.StatusInternalServerError} {
		if got := get("/healthz"); got != want || get("/readyz") != http.StatusOK {
			t.Errorf("/healthz is %d, want %d", got, want)
		}
		c.live.Store(&stuck)
	}
}
