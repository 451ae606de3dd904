package controller

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// prefixes begin the names of controller-runtime's own metrics. Its registry also has those of Go
// and of the process, which the keeper serves.
var prefixes = []string{"controller_runtime_", "workqueue_", "rest_client_"}

// runtimeMetrics gathers controller-runtime's own metrics: of queues, reconciliations and calls of
// the API server.
var runtimeMetrics = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
	all, err := metrics.Registry.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(prefixes, func(prefix string) bool {
			return strings.HasPrefix(f.GetName(), prefix)
		})
	}), err
})
