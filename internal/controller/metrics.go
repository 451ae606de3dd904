package controller

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the controller's own metrics, which the keeper serves along with its own.
type metrics struct {
	*prometheus.Registry
	calls      *prometheus.CounterVec // method, status
	reconciled *prometheus.CounterVec // result
}

// newMetrics returns the metrics of a controller; waiting counts what is in its queue.
func newMetrics(waiting func() int) *metrics {
	m := &metrics{prometheus.NewRegistry(),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "routekeeper_kube_calls_total",
			Help: "Calls of the Kubernetes API server, by method and status; 0: no answer."},
			[]string{"method", "status"}),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "routekeeper_reconciliations_total",
			Help: "Reconciliations of ClusterRoutes objects, by result: success or error."},
			[]string{"result"})}
	m.MustRegister(m.calls, m.reconciled, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "routekeeper_reconciliations_waiting",
		Help: "ClusterRoutes objects that wait for their reconciliation.",
	}, func() float64 { return float64(waiting()) }))
	// otherwise their first increase would be missed
	for _, result := range []string{"success", "error"} {
		m.reconciled.WithLabelValues(result)
	}
	return m
}

// count counts a reconciliation.
func (m *metrics) count(err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.reconciled.WithLabelValues(result).Inc()
}

// counted counts the calls of a transport.
type counted struct {
	http.RoundTripper
	calls *prometheus.CounterVec
}

// WrappedRoundTripper returns the transport whose connections client-go can close.
func (c counted) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

// RoundTrip makes a call.
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	status := 0
	if err == nil {
		status = answer.StatusCode
	}
	c.calls.WithLabelValues(r.Method, strconv.Itoa(status)).Inc()
	return answer, err
}
