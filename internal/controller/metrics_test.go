package controller

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/serve"
)

// TestMetrics: the metrics of the queue, of reconciliations and of calls of the API server are with
// the keeper's.
func TestMetrics(t *testing.T) {
	own := newMetrics(func() int { return 3 })
	own.count(nil)
	w := &way{fakeAPI: newFakeAPI()}
	for _, cut := range []bool{false, true} {
		w.cutOff(cut)
		answer, err := counted{w, own.calls}.RoundTrip(httptest.NewRequest(http.MethodGet,
			"/apis/routekeeper.dev/v1alpha1/clusterroutes", nil).WithContext(t.Context()))
		if (err != nil) != cut {
			t.Fatal(err)
		}
		if err == nil {
			answer.Body.Close()
		}
	}
	m := serve.NewMetrics()
	m.Also(own)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := answer.Body.String()
	for _, want := range []string{
		"\nroutekeeper_reconciliations_waiting 3\n",
		"\nroutekeeper_reconciliations_total{result=\"success\"} 1\n",
		"\nroutekeeper_reconciliations_total{result=\"error\"} 0\n",
		"\nroutekeeper_kube_calls_total{method=\"GET\",status=\"200\"} 1\n",
		"\nroutekeeper_kube_calls_total{method=\"GET\",status=\"0\"} 1\n",
		"\nroutekeeper_config_refused "} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%d: no %q in %.2000s", answer.Code, want, text)
		}
	}
}
