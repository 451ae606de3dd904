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
	"routekeeper.dev/routekeeper/internal/survey"
	"routekeeper.dev/routekeeper/internal/trace"
)

// simulatedGateways decides which probes of the emulator's Application Gateways are answered. It
// reads the emulator's network as a client, and traces the probes and their answers.
type simulatedGateways struct {
	dir string // of emulator.json

	mu   sync.Mutex
	seen map[string]seenSubscription // by the subscription
}

type seenSubscription struct {
	at       time.Time
	snapshot *inventory.Snapshot
}

func newSimulatedGateways(dir string) *simulatedGateways {
	return &simulatedGateways{dir: dir, seen: map[string]seenSubscription{}}
}

func (p *simulatedGateways) probe(ctx context.Context,
	probe emulator.Probe) (emulator.Health, string) {
	s, err := p.read(ctx, probe.Gateway.Subscription())
	if err != nil {
		return emulator.Unknown, fmt.Sprintf("the network was not read: %v", err)
	}
	// Clusters that nothing connects may have the same pod CIDR. The probe reaches only those with
	// networks that are connected with the gateway's.
	health, why := emulator.Unknown, ""
	for _, c := range clustersOf(s) {
		if !inventory.Within(s.Cluster(c).PodCIDRs, probe.To) {
			continue
		}
		h, text, known := judgeProbe(s, probe, c)
		switch {
		case !known:
		case h == emulator.Healthy:
			return h, ""
		case why == "" || h == emulator.Unknown:
			health, why = h, text
		}
	}
	if why == "" {
		health, why, _ = judgeProbe(s, probe, "")
	}
	return health, why
}

// judgeProbe traces a probe and its answer as a cluster sees the network. The result is unknown if
// the cluster does not see the gateway.
func judgeProbe(s *inventory.Snapshot, probe emulator.Probe, cluster arm.ID) (emulator.Health,
	string, bool) {
	t := trace.New(s, trace.Options{Protocol: "tcp", Port: probe.Port, Cluster: cluster})
	verdict, why, err := thereAndBack(t, "gateway/"+probe.Gateway.Name(), probe.To.String())
	switch {
	case err != nil:
		return emulator.Unknown, err.Error(), false
	case verdict == trace.Delivered:
		return emulator.Healthy, "", true
	case verdict == trace.Unknown:
		return emulator.Unknown, why, true
	}
	return emulator.Unhealthy, why, true
}

func (p *simulatedGateways) read(ctx context.Context, subscription string) (*inventory.Snapshot,
	error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen := p.seen[subscription]; time.Since(seen.at) < networkAge {
		return seen.snapshot, nil
	}
	client, err := connectQuietly(p.dir)
	if err != nil {
		return nil, err
	}
	e := &examination{client: client}
	if e.Snapshot, err = survey.Around(ctx, client, arm.SubscriptionID(subscription),
		nil); err != nil {
		return nil, err
	}
	e.Clusters = clustersOf(e.Snapshot)
	if err := e.read(ctx, examineOptions{withoutRights: true, allMachines: true}); err != nil {
		return nil, err
	}
	p.seen[subscription] = seenSubscription{time.Now(), e.Snapshot}
	return e.Snapshot, nil
}

// clustersOf returns the clusters of a snapshot in a stable order.
func clustersOf(s *inventory.Snapshot) []arm.ID {
	var out []arm.ID
	for _, c := range s.Clusters {
		out = append(out, c.ID)
	}
	slices.Sort(out)
	return out
}
