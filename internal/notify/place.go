package notify

import (
	"context"
	"errors"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// place is a destination of messages, with the news that waits for it. The notifier's lock guards
// it.
type place struct {
	config  v1alpha1.Place
	waiting []Event
	dropped int           // since the last message
	wake    chan struct{} // news has arrived
	gone    chan struct{} // closed once the destination is no longer configured

	trouble string    // why the last message failed, "" if it did not
	since   time.Time // when the first of the failed messages failed
	failed  int       // how many in a row
}

// add puts news into the queue. For each subject at most one event waits: the newest, with what
// people heard before the first. If the state is then the same as before, nothing is sent.
func (p *place) add(e Event) (dropped bool) {
	i := slices.IndexFunc(p.waiting, func(w Event) bool { return e.key != "" && w.key == e.key })
	switch {
	case i >= 0:
		w := p.waiting[i]
		e.was = w.was
		switch {
		case e.addsNothing():
			p.waiting = slices.Delete(p.waiting, i, i+1)
			return false
		case e.Kind == Changed:
			e.Kind = w.Kind
		case w.Kind == Resolved && !e.ends() && e.State == "":
			e.Kind = Changed
		}
		p.waiting[i] = e
		return false
	case len(p.waiting) >= mostWaiting:
		p.dropped++
		return true
	}
	p.waiting = append(p.waiting, e)
	return false
}

// serve sends the messages of a destination, one after the other, until the context ends or the
// destination is gone.
func (n *Notifier) serve(ctx context.Context, p *place) {
	defer n.flush(ctx, p)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.gone:
			return
		case <-p.wake:
		}
		for wait := gather; p.sleep(ctx, wait) && n.hasNews(p); {
			wait = n.send(ctx, p, tries)
		}
	}
}

// sleep waits, and reports whether the destination is still served.
func (p *place) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.gone:
		return false
	case <-time.After(d):
		return true
	}
}

func (n *Notifier) hasNews(p *place) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(p.waiting)+p.dropped > 0
}

// flush sends waiting news when the program ends, once and only for a moment.
func (n *Notifier) flush(ctx context.Context, p *place) {
	select {
	case <-p.gone:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	n.send(ctx, p, 1)
}

// send sends the news of a destination as one message, and returns how long to wait before the
// next one. If sending fails, the news stays in the queue.
func (n *Notifier) send(ctx context.Context, p *place, attempts int) (next time.Duration) {
	n.mu.Lock()
	config, page, events, dropped := p.config, n.spec.Page, p.waiting, p.dropped
	p.waiting, p.dropped = nil, 0
	n.mu.Unlock()
	if len(events)+dropped == 0 {
		return 0
	}
	m := compose(events, dropped, page)
	var err error
	for attempt := range attempts {
		if err = n.post(ctx, config, m); err == nil {
			break
		}
		var refused *refusal
		if errors.As(err, &refused) && !refused.temporary || errors.Is(err, errHangs) ||
			attempt == attempts-1 ||
			!p.sleep(ctx, max(time.Second<<attempt, retryAfter(err))) {
			break
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := n.counts[config.Name]
	defer func() { n.counts[config.Name] = counts }()
	if err == nil {
		counts.Sent++
		if p.trouble != "" {
			n.opts.Log.Info("messages are taken again", "place", config.Name)
		}
		p.trouble, p.failed = "", 0
		return pace
	}
	counts.Failed++
	if p.failed++; p.trouble == "" {
		p.since = time.Now()
		n.opts.Log.Warn("a message was not taken", "place", config.Name, "error", err.Error())
	}
	p.trouble = err.Error()
	newer := p.waiting
	p.waiting, p.dropped = events, dropped+p.dropped
	for _, e := range newer {
		if p.add(e) {
			counts.Dropped++
		}
	}
	return min(pace<<min(p.failed-1, 8), longestPause)
}
