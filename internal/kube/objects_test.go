package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestObjects: ClusterRoutes come page by page, and only a Lease that was renewed in time shows a
// controller that is alive. A controller's account may read one Lease by its name. A status of
// other types takes away no other object.
func TestObjects(t *testing.T) {
	lease := func(namespace, holder string, renewed time.Time) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q},"spec":{"holderIdentity":%q,
			"leaseDurationSeconds":15,"renewTime":%q}}`, namespace, holder,
			renewed.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
	}
	alive, dead := lease("a", "one", time.Now()), lease("b", "two", time.Now().Add(-time.Hour))
	released := `{"metadata":{"namespace":"c"},"spec":{"holderIdentity":"","renewTime":null}}`
	object := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"team","name":%q,"generation":2},
			"status":{"routes":"3/3","observedGeneration":1}}`, name)
	}
	const leases = "/apis/coordination.k8s.io/v1/"
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch at := r.URL.Path; {
		case at == "/apis/routekeeper.dev/v1alpha1/clusterroutes":
			if r.URL.Query().Get("continue") == "" {
				fmt.Fprint(w, listOf("ClusterRoutes", "more", object("shop")))
				return
			}
			newer := `{"metadata":{"namespace":"team","name":"newer"},"status":{"routes":3}}`
			fmt.Fprint(w, listOf("ClusterRoutes", "", newer, object("play")))
		case at == leases+"leases" && r.URL.Query().Get("fieldSelector") ==
			"metadata.name=routekeeper":
			fmt.Fprint(w, listOf("Lease", "", alive, dead, released))
		case at == leases+"namespaces/b/leases/routekeeper":
			fmt.Fprint(w, dead)
		default:
			status(w, http.StatusNotFound, "NotFound", "not found")
		}
	}))
	c := load(t, Options{Kubeconfig: kubeconfig(t, server, "token: x")})
	objects, err := c.ClusterRoutes(t.Context())
	if err != nil || len(objects) != 3 || objects[1].Metadata.Name != "newer" ||
		objects[2].Metadata.Name != "play" ||
		objects[2].Metadata.Namespace != "team" || objects[2].Metadata.Generation != 2 ||
		objects[2].Status.ObservedGeneration != 1 || objects[2].Status.Routes != "3/3" {
		t.Errorf("%+v, %v", objects, err)
	}
	for namespace, want := range map[string]string{"": "[a/one true b/two false]",
		"b": "[b/two false]", "none": "[]"} {
		leaders, err := c.Leaders(t.Context(), namespace)
		got := []string{}
		for _, l := range leaders {
			got = append(got, fmt.Sprintf("%s/%s %t", l.Namespace, l.Identity, l.Alive))
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("namespace %q: %v, %v; want %s", namespace, got, err, want)
		}
	}
}

// TestNoObjects: an API server without the kind says what to type, and a refusal is one line.
func TestNoObjects(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusNotFound:  "does not serve ClusterRoutes: run routekeeper init schema",
		http.StatusForbidden: "the ClusterRoutes objects cannot be read: 403 no right",
	} {
		server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status(w, code, "x", "no\nright")
		}))
		c := load(t, Options{Kubeconfig: kubeconfig(t, server, "token: x")})
		_, err := c.ClusterRoutes(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: %v", code, err)
		}
	}
}
