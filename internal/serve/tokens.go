package serve

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"routekeeper.dev/routekeeper/internal/azure"
)

// tokensTold is for how long it is told what Azure said is left: a bucket fills up within half a minute (250 reads at 25 a second, 200 writes at
// 10), and the next write may be weeks away.
const tokensTold = 2 * time.Minute

// tokens are what Azure said is left, by subscription and kind, as a metric.
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
		desc: prometheus.NewDesc("routekeeper_arm_tokens_remaining", "Tokens that Azure said were left within the last two minutes, by subscription and kind: reads, writes or deletes.",
			[]string{"subscription", "kind"}, nil),
		said: map[[2]string]said{},
	}
}

// note takes what an answer said.
func (t *tokens) note(c azure.Call, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said[[2]string{c.Subscription, c.Kind}] = said{c.Remaining, now}
}

// Describe says what is told.
func (t *tokens) Describe(to chan<- *prometheus.Desc) { to <- t.desc }

// Collect tells it.
func (t *tokens) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, s := range t.said {
		if time.Since(s.at) > tokensTold {
			delete(t.said, of)
			continue
		}
		to <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, float64(s.left), of[:]...)
	}
}
