// Package notify sends messages about errors, repairs, conflicts and decisions to people: to Slack,
// Teams and webhooks.
//
// How it works: Check compares the states of the clusters (package verdict) and the findings of a
// check with the earlier news, and puts the news into the queue of each destination. A cluster that
// does not get its packets is one event, not one for each finding that explains it. Each
// destination has a goroutine. It waits a moment, so that one outage or one check of many clusters
// becomes one message, sends the message, and then waits at least a minute. If a destination does
// not accept a message, the news stays in its queue, which has a limit. Dropped news is counted,
// and the next message says how much it was.
//
// It must not delay a check: Check never waits. It must not show the URL of a destination, which is
// a secret, in errors, findings or logs. It must not decide anything about routes.
package notify

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
)

const (
	// gather is how long the first news waits for more.
	gather = 10 * time.Second
	// pace is the shortest time between two messages to a destination.
	pace = time.Minute
	// mostWaiting limits the news that waits for a destination.
	mostWaiting = 1000
	// tries is how often one message is sent before its news goes back into the queue.
	tries = 3
	// longestPause is the longest time between two attempts at a destination that does not answer.
	longestPause = 15 * time.Minute
	// lastWords is how long a notifier still tries to send waiting news when it ends.
	lastWords = 2 * time.Second
)

// Options are what a notifier needs from its program.
type Options struct {
	// Secret reads the URL of a destination. It is called before each message, so that a new URL
	// takes effect.
	Secret func(v1alpha1.Place) (string, error)
	// Client sends the messages. Nil: a new one, which follows no redirects.
	Client *http.Client
	Log    *slog.Logger
}

// Notifier sends news to destinations. Its methods may be called by several goroutines at once.
type Notifier struct {
	opts Options

	mu     sync.Mutex
	ctx    context.Context // of Run; nil before
	spec   v1alpha1.NotifySpec
	places []*place
	told   map[string]finding.Finding // open findings that are no longer news, by key
	states map[string]told            // what people heard about clusters, by name
	counts map[string]Counts
	// networks says for each name whether it is a network without clusters.
	networks map[string]bool
	ended    sync.WaitGroup
}

// Counts has the number of messages to a destination, and of dropped news.
type Counts struct{ Sent, Failed, Dropped int64 }

// New returns a notifier without destinations.
func New(o Options) *Notifier {
	if o.Client == nil {
		o.Client = NewClient()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Notifier{opts: o, told: map[string]finding.Finding{},
		states: map[string]told{}, counts: map[string]Counts{}, networks: map[string]bool{}}
}

// Configure replaces the places. News that waits for a destination of the same name stays.
func (n *Notifier) Configure(spec v1alpha1.NotifySpec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.places
	n.spec, n.places = spec, nil
	for _, config := range spec.Places {
		i := slices.IndexFunc(before, func(p *place) bool { return p.config.Name == config.Name })
		if i >= 0 {
			before[i].config = config
			n.places = append(n.places, before[i])
			before = slices.Delete(slices.Clone(before), i, i+1)
			continue
		}
		p := &place{config: config, wake: make(chan struct{}, 1), gone: make(chan struct{})}
		n.places = append(n.places, p)
		n.startLocked(p)
	}
	for _, p := range before {
		close(p.gone)
	}
}

// Run sends messages until the context ends. Then it tries for a moment to send what waits.
func (n *Notifier) Run(ctx context.Context) {
	n.mu.Lock()
	n.ctx = ctx
	for _, p := range n.places {
		n.startLocked(p)
	}
	n.mu.Unlock()
	<-ctx.Done()
	n.ended.Wait()
}

// startLocked starts the goroutine of a destination.
func (n *Notifier) startLocked(p *place) {
	if n.ctx == nil || n.ctx.Err() != nil {
		return
	}
	ctx := n.ctx
	n.ended.Go(func() { n.serve(ctx, p) })
}

// Counts returns the counts of all destinations since the start, by name.
func (n *Notifier) Counts() map[string]Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[string]Counts, len(n.counts))
	for _, p := range n.places {
		out[p.config.Name] = Counts{}
	}
	for name, c := range n.counts {
		out[name] = c
	}
	return out
}

// Findings returns a finding for each destination that does not accept messages.
func (n *Notifier) Findings() (found []finding.Finding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.places {
		if p.trouble == "" {
			continue
		}
		f := finding.New(finding.NotifyFailed, "", "", "%s does not take messages since %s: %s",
			p.config.Name, p.since.UTC().Format("15:04:05 UTC"), p.trouble).About(p.config.Name)
		found = append(found, f.WithAdvice("check the URL in %s, and send a message to try it",
			Where(p.config)).WithFix("routekeeper notify test%s", finding.Config()))
	}
	return found
}

// Where names the file or the environment variable that holds the URL of a destination.
func Where(p v1alpha1.Place) string {
	if p.URLFile != "" {
		return p.URLFile
	}
	return "$" + p.URLEnv
}
