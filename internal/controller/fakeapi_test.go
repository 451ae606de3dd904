package controller

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json" // integers stay integers
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"routekeeper.dev/routekeeper/internal/daemon"
)

// fakeAPI is an API server in memory, as far as the controller uses one. Each replica in a test has
// a way of its own to it.
type fakeAPI struct {
	mu       sync.Mutex
	objects  map[string]map[string]any // by path
	version  int
	watches  map[*io.PipeWriter]url.URL
	missing  string // a resource that it does not serve
	calls    []string
	received func(*http.Request) error // sees each call before it is answered
}

func newFakeAPI() *fakeAPI {
	return &fakeAPI{objects: map[string]map[string]any{}, watches: map[*io.PipeWriter]url.URL{}}
}

// way is a way to the API server, which can be cut.
type way struct {
	*fakeAPI
	mu  sync.Mutex
	cut bool
}

// cutOff cuts or restores the way, and ends all watches.
func (w *way) cutOff(cut bool) {
	w.mu.Lock()
	w.cut = cut
	w.mu.Unlock()
	w.fakeAPI.mu.Lock()
	defer w.fakeAPI.mu.Unlock()
	for watch := range w.watches {
		watch.Close()
	}
	clear(w.watches)
}

func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut {
		return nil, errors.New("connection refused")
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.answer(r)
}

func (w *way) config() *rest.Config {
	return &rest.Config{Host: "http://api", Transport: w, QPS: 1000, Burst: 1000}
}

func (w *way) client(t testing.TB) dynamic.Interface {
	client, err := dynamic.NewForConfig(w.config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// testOptions are the options of a controller in namespace team.
func testOptions() Options {
	return Options{Namespace: "team", Scopes: Scopes{"team": {Everything}},
		Daemon: daemon.Options{Log: slog.New(slog.DiscardHandler)}}
}

func respond(status int, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {
		"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw))}, err
}

func refuse(err *apierrors.StatusError) (*http.Response, error) {
	return respond(int(err.ErrStatus.Code), err.ErrStatus)
}

func (f *fakeAPI) answer(r *http.Request) (*http.Response, error) {
	if f.received != nil {
		if err := f.received(r); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	path, status := strings.CutSuffix(r.URL.Path, "/status")
	kind := schema.GroupResource{Resource: path}
	if f.missing != "" && strings.Contains(path, f.missing) {
		return refuse(apierrors.NewNotFound(kind, ""))
	}
	was, has := f.objects[path]
	var sent map[string]any
	if r.Body != nil && r.Body != http.NoBody {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Has("watch"):
		if r.URL.Query().Has("sendInitialEvents") { // as older API servers
			return refuse(apierrors.NewBadRequest("unknown"))
		}
		out, in := io.Pipe()
		f.watches[in] = *r.URL
		return &http.Response{StatusCode: 200, Body: out, Header: http.Header{"Content-Type": {
			"application/json"}}}, nil
	case r.Method == http.MethodPost:
		o := unstructured.Unstructured{Object: sent}
		if base := o.GetGenerateName(); base != "" {
			o.SetName(base + strconv.Itoa(f.version))
		}
		if path += "/" + o.GetName(); f.objects[path] != nil {
			return refuse(apierrors.NewAlreadyExists(kind, o.GetName()))
		}
		f.put(path, sent, "ADDED")
		return respond(http.StatusCreated, sent)
	case r.Method == http.MethodGet && !has:
		list := f.list(path, r)
		if list == nil {
			return refuse(apierrors.NewNotFound(kind, ""))
		}
		return respond(http.StatusOK, list)
	case !has:
		return refuse(apierrors.NewNotFound(kind, ""))
	case r.Method == http.MethodGet:
		return respond(http.StatusOK, was)
	}
	sentVersion, _, _ := unstructured.NestedString(sent, "metadata", "resourceVersion")
	if version := (&unstructured.Unstructured{Object: was}).GetResourceVersion(); sentVersion !=
		version && (sentVersion != "" || r.Method == http.MethodPut) {
		return refuse(apierrors.NewConflict(kind, "", errors.New("it has changed")))
	}
	switch {
	case r.Method == http.MethodPatch:
		sent = merge(was, sent)
	case status:
		sent = merge(was, map[string]any{"status": sent["status"]})
	}
	f.put(path, sent, "MODIFIED")
	return respond(http.StatusOK, sent)
}

// merge returns an object with a merge patch.
func merge(into, patch map[string]any) map[string]any {
	out := maps.Clone(into)
	for key, value := range patch {
		if inner, is := value.(map[string]any); is {
			before, _ := out[key].(map[string]any)
			value = merge(before, inner)
		}
		if out == nil {
			out = map[string]any{}
		}
		out[key] = value
	}
	return out
}

// put stores an object and tells the watches. The caller holds the lock, or runs alone.
func (f *fakeAPI) put(path string, o map[string]any, change string) {
	f.version++
	(&unstructured.Unstructured{Object: o}).SetResourceVersion(strconv.Itoa(f.version))
	f.objects[path] = o
	raw, err := json.Marshal(map[string]any{"type": change, "object": o})
	if err != nil {
		panic(err)
	}
	for watch, of := range f.watches {
		if within, _ := inCollection(path, of.Path); within && selected(of, o) {
			go watch.Write(raw)
		}
	}
}

// inCollection reports whether an object is in a collection: of a namespace, or of all.
func inCollection(path, of string) (bool, string) {
	group, resource, _ := cutLast(of)
	in, name, _ := cutLast(path)
	return in == of || strings.HasPrefix(in, group+"/namespaces/") &&
		strings.HasSuffix(in, "/"+resource), name
}

// selected reports whether the selector of a call selects an object.
func selected(call url.URL, o map[string]any) bool {
	selector, err := labels.Parse(call.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	return selector.Matches(labels.Set((&unstructured.Unstructured{Object: o}).GetLabels()))
}

func cutLast(path string) (before, after string, found bool) {
	i := strings.LastIndex(path, "/")
	return path[:i], path[i+1:], true
}

// list returns a collection, nil if the path is none.
func (f *fakeAPI) list(path string, r *http.Request) map[string]any {
	if _, last, _ := cutLast(path); !slices.Contains([]string{"clusterroutes", "nodes", "events"},
		last) {
		return nil
	}
	field, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	items := []any{}
	for _, at := range slices.Sorted(maps.Keys(f.objects)) {
		o := unstructured.Unstructured{Object: f.objects[at]}
		if within, name := inCollection(at, path); within && (!named || name == field) &&
			selected(*r.URL, o.Object) {
			items = append(items, o.Object)
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version)}}
}

const objectsAt = "/apis/routekeeper.dev/v1alpha1/namespaces/%s/clusterroutes/%s"

// store stores a ClusterRoutes object.
func (f *fakeAPI) store(t testing.TB, o ClusterRoutes) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	at := fmt.Sprintf(objectsAt, o.Namespace, o.Name)
	change := "ADDED"
	if f.objects[at] != nil {
		change = "MODIFIED"
	}
	f.put(at, raw(t, o), change)
}

// raw returns an object as the API has it.
func raw(t testing.TB, o ClusterRoutes) map[string]any {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{"apiVersion": "routekeeper.dev/v1alpha1", "kind": "ClusterRoutes"}
	if err := utiljson.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// read returns a stored ClusterRoutes object.
func (f *fakeAPI) read(t testing.TB, namespace, name string) *ClusterRoutes {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := json.Marshal(f.objects[fmt.Sprintf(objectsAt, namespace, name)])
	o := new(ClusterRoutes)
	if err == nil {
		err = json.Unmarshal(text, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// forget deletes all objects.
func (f *fakeAPI) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.objects)
}

// stored returns the objects of a resource.
func (f *fakeAPI) stored(resource string) []map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []map[string]any
	for _, at := range slices.Sorted(maps.Keys(f.objects)) {
		if strings.Contains(at, "/"+resource+"/") {
			all = append(all, f.objects[at])
		}
	}
	return all
}
