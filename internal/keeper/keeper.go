// Package keeper is the loop: observe, decide, act, tell. It joins azure, which reads and writes, with plan, which decides;
// it holds what has to be remembered from one round to the next, and nothing else.
//
// It must not decide what a route should be, nor know how anything is shown.
package keeper

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Azure is what a keeper needs of Azure.
type Azure interface {
	Read(context.Context, *network.Snapshot, network.Wanted) error
	Write(context.Context, network.ID, azure.Edit) (azure.Written, error)
	Counts() (reads, writes, polls int)
}

// Options say how a keeper works.
type Options struct {
	// DryRun plans and writes nothing.
	DryRun bool
	// Paused says, before a round's changes, until when none are to be made; "" when they are. Nil: they always are.
	Paused func() string
	// ClusterInterval is how long a cluster's own document is believed. 0: 5 minutes.
	ClusterInterval time.Duration
	// Log receives what happens. Nil: nothing.
	Log *slog.Logger
	// Planned is told of a round that is about to change something, with its changes as planned. Nil: nobody is.
	Planned func(Round)
	// Recorder keeps what was done. Nil: nobody does.
	Recorder Recorder
	// Shelf keeps what a restart must not forget. Nil: it is forgotten.
	Shelf Shelf
}

// Keeper keeps the pod routes of the configured clusters true. Its rounds must not overlap; Wake may be called at any time.
type Keeper struct {
	azure   Azure
	configs []v1alpha1.ClusterRoutes
	opts    Options
	log     *slog.Logger
	taken   plan.Taken
	memory  map[string]*memory  // by the cluster's ID.Key()
	refused map[string]*refusal // by the resource's ID.Key()
	places  map[string]place    // by the subnet's ID.Key()
	bell    *bell
	kept    map[string]Lasting // what is on the shelf

	// of the round
	began time.Time
	woke  Cause
	asked *Request                 // what a person wants of it, nil where nobody asked
	part  []v1alpha1.ClusterRoutes // the clusters it looks at

	standing []finding.Finding // of all clusters, when each was last looked at
}

// Round is what one round led to.
type Round struct {
	Started time.Time
	Elapsed time.Duration
	// Configs are all that are kept.
	Configs []v1alpha1.ClusterRoutes
	// Kept are the names of all clusters that are configured, Of those of the clusters that were looked at, nil where it was all.
	Kept []string
	Of   []string
	Woke Cause
	// Asked is when the first event came that woke it; zero where none did.
	Asked   time.Time
	Changes []plan.Outcome
	// Findings are all that stand, of clusters not looked at as well.
	Findings []finding.Finding
	// Observed is how what was changed, or found, read before; with a Recorder only.
	Observed []Observation
	// Seen is what was read, with what was written since as it read then. It is large, and not to be kept.
	Seen *network.Snapshot
	// Tables say how full the tables were that were looked at.
	Tables []Fill
	// Reads, Writes and Polls are ARM calls.
	Reads, Writes, Polls int
	// Complete is set when everything that was asked for was seen: nothing to do then means that nothing has to be done.
	Complete bool
}

// Fill is how many routes a table holds, and how many it may; Limit is 0 where it is nobody's target.
type Fill struct {
	Table         network.ID
	Routes, Limit int
}

// fill says how full the tables are that were read.
func (k *Keeper) fill(s *network.Snapshot) []Fill {
	limits := map[string]int{}
	for _, c := range k.part {
		for _, t := range c.Spec.Targets {
			limits[network.ID(t.RouteTableID).Key()] = t.MaxRoutes
		}
	}
	var out []Fill
	for _, key := range slices.Sorted(maps.Keys(s.Tables)) {
		out = append(out, Fill{s.Tables[key].ID, len(s.Tables[key].Routes), limits[key]})
	}
	return out
}

// New makes a keeper.
func New(a Azure, configs []v1alpha1.ClusterRoutes, opts Options) *Keeper {
	if opts.ClusterInterval == 0 {
		opts.ClusterInterval = 5 * time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Recorder == nil {
		opts.Recorder = nobody{}
	}
	k := &Keeper{azure: a, opts: opts, log: opts.Log, refused: map[string]*refusal{}, places: map[string]place{}, bell: newBell(), woke: Cause{By: ByPerson}}
	k.configure(configs)
	k.recallHeld()
	return k
}

// Round looks once and does what has to be done. The error is the context's, or says that nothing at all can be seen:
// everything else is a finding.
func (k *Keeper) Round(ctx context.Context) (Round, error) { return k.round(ctx, k.configs, 0) }

// round looks at some clusters, at all that share something with them, and does what has to be done. Where patience is not 0, looking
// may take no longer.
func (k *Keeper) round(ctx context.Context, part []v1alpha1.ClusterRoutes, patience time.Duration) (round Round, err error) {
	k.began, k.part = time.Now(), part
	end := k.count(&round)
	defer end()
	s, planner, p, err := k.decide(ctx, patience)
	if err != nil {
		return round, err
	}
	k.remember(s, p)
	k.shelve(s)
	round.Complete = len(s.Unread) == 0
	round.Tables = k.fill(s)
	k.name(&round)
	round.Seen = s.Fork()
	err = k.carryOut(ctx, &round, k.replan(s, planner, k.part), p)
	end()
	k.note(&round)
	k.record(&round, s, planner.Sources)
	return round, err
}

// decide looks and plans.
func (k *Keeper) decide(ctx context.Context, patience time.Duration) (s *network.Snapshot, planner *plan.Planner, p plan.Plan, err error) {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	if s, planner, err = k.look(ctx); err != nil {
		return nil, nil, p, err
	}
	p = planner.Plan()
	if again := k.doubted(p); len(again) > 0 {
		k.forget(again)
		if s, planner, err = k.look(ctx); err != nil {
			return nil, nil, p, err
		}
		p = planner.Plan()
	}
	p, err = k.confirm(ctx, s, planner, p)
	return s, planner, p, err
}

// count starts a round, and returns what ends it: what it cost.
func (k *Keeper) count(round *Round) func() {
	round.Started, round.Woke = time.Now(), k.woke
	reads, writes, polls := k.azure.Counts()
	return func() {
		r, w, p := k.azure.Counts()
		round.Reads, round.Writes, round.Polls = r-reads, w-writes, p-polls
		round.Elapsed = time.Since(round.Started)
	}
}

// carryOut does what was planned, or only tells of it. The error is the context's.
func (k *Keeper) carryOut(ctx context.Context, round *Round, again replan, p plan.Plan) error {
	round.Findings = p.Findings
	pause := ""
	if k.opts.Paused != nil {
		pause = k.opts.Paused()
	}
	if pause != "" {
		round.Findings = append(round.Findings, finding.New(finding.Paused, "", "", "nothing is changed %s: the keeper is paused", pause).WithFix("routekeeper resume ends it, with the -f of the keeper"))
	}
	wanted := p
	switch {
	case k.asked != nil:
		wanted, again = p.Only(k.asked.Verbs, round.Seen.Table), again.only(k.asked.Verbs)
	case k.opts.DryRun || pause != "":
		wanted.Changes = nil
	}
	round.Changes = planned(p.Changes, wanted.Changes)
	if len(wanted.Changes) == 0 {
		return nil
	}
	if k.opts.Planned != nil {
		about := *round
		about.Changes = planned(wanted.Changes, nil)
		k.opts.Planned(about)
	}
	changes, findings, err := k.apply(ctx, *round, again, wanted)
	round.Changes, round.Findings = append(changes, round.Changes...), finding.Sort(append(round.Findings, findings...))
	return err
}

// look observes, and makes a planner of what was seen. Where what is seen is other clusters' too, they are looked at as well.
func (k *Keeper) look(ctx context.Context) (*network.Snapshot, *plan.Planner, error) {
	s, err := k.observe(ctx)
	for err == nil && k.widen(s) {
		s, err = k.observe(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	planner := plan.Among(s, k.part, k.configs)
	k.timeSources(s, planner)
	return s, planner, nil
}

// nicsBelieved is for how long evidence that holds deletes back is not read again.
const nicsBelieved = time.Minute

// confirm reads the addresses of the nodes where deletes need them, and plans again. Evidence that holds deletes back is
// believed for a while; to let go, it is read anew.
func (k *Keeper) confirm(ctx context.Context, s *network.Snapshot, planner *plan.Planner, p plan.Plan) (plan.Plan, error) {
	if len(p.NeedSubnets) > 0 {
		if err := k.placeTargets(ctx, s, p.NeedSubnets); err != nil {
			return p, err
		}
		p = planner.Plan()
	}
	var read, believed []network.ID
	for _, id := range p.NeedNICs {
		if m := k.memory[id.Key()]; m.nics != nil && time.Since(m.nicsRead) < nicsBelieved {
			s.Learn(id).NICs = m.nics
			believed = append(believed, id)
		} else {
			read = append(read, id)
		}
	}
	if len(believed) > 0 {
		p = planner.Plan()
		for _, id := range believed {
			if !slices.ContainsFunc(p.Held, func(h plan.Part) bool { return h.Cluster.Equal(id) }) {
				read = append(read, id)
			}
		}
	}
	if len(read) == 0 {
		return p, nil
	}
	if err := k.refresh(ctx, s, read); err != nil {
		return p, err
	}
	if err := k.azure.Read(ctx, s, network.Wanted{NICs: read}); err != nil {
		return p, err
	}
	for _, id := range read {
		m := k.memory[id.Key()]
		m.nics, m.nicsRead = s.Known(id).NICs, time.Now()
	}
	return planner.Plan(), nil
}

// placeTargets puts the subnets of targets into the snapshot: as they were seen, for as long as a cluster's own document is believed.
func (k *Keeper) placeTargets(ctx context.Context, s *network.Snapshot, subnets []network.ID) error {
	var read []network.ID
	for _, id := range subnets {
		if seen, known := k.places[id.Key()]; known && time.Since(seen.at) < k.opts.ClusterInterval {
			s.Subnets[id.Key()] = seen.subnet
		} else {
			read = append(read, id)
		}
	}
	if err := k.azure.Read(ctx, s, network.Wanted{Subnets: read}); err != nil {
		return err
	}
	for _, id := range read {
		if subnet := s.Subnet(id); subnet != nil {
			k.places[id.Key()] = place{subnet, time.Now()}
		}
	}
	return nil
}

// place is a subnet that a target is on, and when it was read.
type place struct {
	subnet *network.Subnet
	at     time.Time
}

// refresh reads clusters anew whose documents are not of this round: how many nodes their pools have is held against the
// network interfaces that are seen.
func (k *Keeper) refresh(ctx context.Context, s *network.Snapshot, clusters []network.ID) error {
	old := slices.DeleteFunc(slices.Clone(clusters), func(id network.ID) bool { return !k.memory[id.Key()].read.Before(k.began) })
	fresh := network.NewSnapshot()
	if err := k.azure.Read(ctx, fresh, network.Wanted{Clusters: old}); err != nil {
		return err
	}
	for _, id := range old {
		if cluster := fresh.Cluster(id); cluster != nil {
			s.Clusters[id.Key()] = cluster
			k.memory[id.Key()].cluster = cluster
		}
	}
	return nil
}
