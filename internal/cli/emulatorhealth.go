package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// simulatedGateways decides which probes of the emulator's Application Gateways are answered. It
// reads the emulator's network as a client, and traces the probes and their answers.
type simulatedGateways struct {
	dir string // of emulator.json

	mu   sync.Mutex
	seen map[string]seenNetwork // by the subscription
}

func newSimulatedGateways(dir string) *simulatedGateways {
	return &simulatedGateways{dir: dir, seen: map[string]seenNetwork{}}
}

func (p *simulatedGateways) probe(ctx context.Context,
	probe emulator.Probe) (emulator.Health, string) {
	p.mu.Lock() // a tracer remembers what it has worked out
	defer p.mu.Unlock()
	t, err := p.read(ctx, probe)
	if err != nil {
		return emulator.Unknown, fmt.Sprintf("the network was not read: %v", err)
	}
	ways, err := waysBetween(t, "gateway/"+probe.Gateway.Name(), probe.To.String())
	if err != nil {
		return emulator.Unknown, err.Error()
	}
	for _, w := range []trace.Way{ways.There, ways.Back} {
		why := fmt.Sprintf("%s -> %s: %s: %s", w.From, w.To, w.Verdict, w.Why)
		switch w.Verdict {
		case trace.Delivered:
		case trace.Unknown:
			return emulator.Unknown, why
		default:
			return emulator.Unhealthy, why
		}
	}
	return emulator.Healthy, ""
}

func (p *simulatedGateways) read(ctx context.Context, probe emulator.Probe) (*trace.Tracer, error) {
	subscription := probe.Gateway.Subscription()
	if seen := p.seen[subscription]; time.Since(seen.at) < networkAge && seen.port == probe.Port {
		return seen.tracer, nil
	}
	client, err := connectQuietly(p.dir)
	if err != nil {
		return nil, err
	}
	e := &examination{client: client}
	if e.Snapshot, err = survey(ctx, client, arm.ID("/subscriptions/"+subscription),
		nil); err != nil {
		return nil, err
	}
	e.Clusters = clustersOf(e.Snapshot)
	if err := e.read(ctx, examineOptions{rightless: true, machines: true}); err != nil {
		return nil, err
	}
	t := trace.New(e.Snapshot, trace.Options{Protocol: "tcp", Port: probe.Port})
	p.seen[subscription] = seenNetwork{time.Now(), probe.Port, t}
	return t, nil
}

// clustersOf returns the clusters of a snapshot, in an order.
func clustersOf(s *inventory.Snapshot) []arm.ID {
	var out []arm.ID
	for _, c := range s.Clusters {
		out = append(out, c.ID)
	}
	slices.Sort(out)
	return out
}
