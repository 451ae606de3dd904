package hello

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// watchEvery is how often a pod calls each address, unless calls take longer.
const watchEvery = time.Second

// MostWithin is the longest time that a call can wait for its answer.
const MostWithin = callTime

// Loss counts calls over a time.
type Loss struct {
	Sent, Lost int
	// Unasked counts calls that the API server did not bring to a pod, so they prove nothing.
	Unasked int
	// First and Last are when the first and the last lost call began, or zero.
	First, Last time.Time
}

// Pair is a pod that calls an address.
type Pair struct {
	From Pod
	To   netip.Addr
}

// Watch lets each pair's pod call its address once a second until the context ends, and counts the
// calls, the lost ones, and the ones that the API server did not bring to the pod. A call without
// an answer within the given time, at most MostWithin, is lost.
func (d *Demo) Watch(ctx context.Context, pairs []Pair, within time.Duration) (l Loss) {
	var mu sync.Mutex
	var all sync.WaitGroup
	clients := map[string]*http.Client{}
	for _, p := range pairs {
		client := clients[p.From.Name]
		if client == nil {
			transport := d.Transport(p.From, len(pairs))
			defer transport.CloseIdleConnections()
			client = &http.Client{Transport: transport, Timeout: time.Minute}
			clients[p.From.Name] = client
		}
		all.Go(func() {
			tick := time.NewTicker(watchEvery)
			defer tick.Stop()
			for ctx.Err() == nil {
				begun := time.Now()
				// A call that has begun counts, even if the watch ends first.
				call, err := ask(context.WithoutCancel(ctx), client, p.To, within)
				mu.Lock()
				switch {
				case err != nil:
					l.Unasked++
				case !call.Arrived():
					l.Lost++
					if l.First.IsZero() || begun.Before(l.First) {
						l.First = begun
					}
					if begun.After(l.Last) {
						l.Last = begun
					}
					fallthrough
				default:
					l.Sent++
				}
				mu.Unlock()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
	return l
}
