package controller

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"routekeeper.dev/routekeeper/internal/serve"
)

// TestMetrics: the metrics of queues, reconciliations and calls of the API server are with the
// keeper's, and what both have, such as those of Go, is there once.
func TestMetrics(t *testing.T) {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "clusterroutes"})
	defer queue.ShutDown()
	queue.Add("shop")
	m := serve.NewMetrics()
	m.Also(runtimeMetrics)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := answer.Body.String()
	for _, want := range []string{"\nworkqueue_depth{", "\nroutekeeper_config_refused ",
		"\ncontroller_runtime_", "\ngo_goroutines "} {
		if strings.Count(text, want) == 0 || strings.HasPrefix(want, "\ngo") &&
			strings.Count(text, want) != 1 {
			t.Errorf("%d: no %q in %.2000s", answer.Code, want, text)
		}
	}
}
