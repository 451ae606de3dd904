package serve

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"routekeeper.dev/routekeeper/internal/azure"
)

// tokensTold is how long the metrics show the remaining tokens that Azure reported. A bucket
// refills within half a minute (250 reads at 25 a second, 200 writes at 10), and the next write may
// be weeks away.
const tokensTold = 2 * time.Minute

// tokens exports the remaining tokens that Azure reported, by subscription and kind.
type tokens struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	said map[[2]string]said
}

type said struct {
	left int
	at   time.Time
}

func newTokens() *tokens {
	return &tokens{
		desc: prometheus.NewDesc("routekeeper_arm_tokens_remaining", "Remaining tokens that "+
			"Azure reported within the last two minutes, by subscription and kind: reads, writes "+
			"or deletes.",
			[]string{"subscription", "kind"}, nil),
		said: map[[2]string]said{},
	}
}

// note records the tokens in an answer.
func (t *tokens) note(c azure.Call, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said[[2]string{c.Subscription, c.Kind}] = said{c.Remaining, now}
}

// Describe implements prometheus.Collector.
func (t *tokens) Describe(to chan<- *prometheus.Desc) { to <- t.desc }

// Collect implements prometheus.Collector.
func (t *tokens) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, s := range t.said {
		if time.Since(s.at) > tokensTold {
			delete(t.said, of)
			continue
		}
		to <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, float64(s.left),
			of[:]...)
	}
}
