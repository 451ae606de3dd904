// Package keeper is the loop: observe, decide, act, tell. It joins azure, which reads and writes, with plan, which decides;
// it holds what has to be remembered from one round to the next, and nothing else.
//
// It must not decide what a route should be, nor know how anything is shown.
package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
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
	OthersWrite(ctx context.Context, from, until time.Time, ids ...network.ID) (azure.LastWrite, bool, error)
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
	// Progress is called at the end of every check, also of one that ends in an error and is not told. It
	// must not wait. Nil: nobody is told.
	Progress func()
	// Planned is told of a round that is about to change something, with its changes as planned. Nil: nobody is.
	Planned func(Round)
	// Recorder keeps what was done. Nil: nobody does.
	Recorder Recorder
	// Shelf keeps what a restart must not forget. Nil: it is forgotten.
	Shelf Shelf
}

// Keeper keeps the pod routes of the configured clusters true.
type Keeper struct {
	azure   Azure
	opts    Options
	log     *slog.Logger
	bell    *bell
	writing chan struct{} // holds one for each resource that is being written
	told    sync.Mutex    // is held while the end of a round is recorded and told

	// mu is held by whoever makes a round, but for the time it waits for Azure. It guards what follows.
	mu       sync.Mutex
	configs  []v1alpha1.ClusterRoutes
	taken    plan.Taken
	memory   map[string]*memory       // by the cluster's ID.Key()
	fights   map[place]*fight         // changes that were made, and whether they stand
	foes     map[string]*foe          // who undoes them, by the resource's ID.Key()
	refused  map[string]*refusal      // by the resource's ID.Key()
	places   map[string]seenAt        // by the subnet's ID.Key()
	kept     map[string]Lasting       // what is on the shelf
	lanes    map[string]chan struct{} // of virtual networks that are written, by ID.Key()
	standing []finding.Finding        // of all clusters, when each was last looked at
	serial   int64                    // of the last round
	outages  outages
}

// unlocked lets others have their rounds meanwhile.
func (k *Keeper) unlocked(wait func()) {
	k.mu.Unlock()
	defer k.mu.Lock()
	wait()
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
	k := &Keeper{azure: a, opts: opts, log: opts.Log, refused: map[string]*refusal{}, fights: map[place]*fight{}, foes: map[string]*foe{}, places: map[string]seenAt{}, lanes: map[string]chan struct{}{}, outages: outages{silent: map[string]silence{}}, bell: newBell(),
		writing: make(chan struct{}, writesAtOnce)}
	k.configure(configs)
	k.bell.learn(k.memory)
	k.recallHeld()
	return k
}

// Round looks at all clusters once and does what has to be done. The error is the context's, or says that nothing at all can be seen:
// everything else is a finding. It must not be called while Run runs.
func (k *Keeper) Round(ctx context.Context) (Round, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.newTurn(k.configs, Cause{By: ByPerson})
	d, err := t.decide(ctx)
	if err != nil {
		return t.round(), err
	}
	return t.act(ctx, d, func(Round) {})
}

// decision is what a round has seen, and what it will do.
type decision struct {
	s       *network.Snapshot
	planner *plan.Planner
	plan.Plan
	looked time.Time     // when that was begun: nothing in it is older, but for what is remembered
	wanted []plan.Change // what is to be made of the plan now
	again  replan
}

// decide looks and plans, until it has to wait for nobody that others need not wait for.
func (t *turn) decide(ctx context.Context) (decision, error) {
	ctx = t.manners(ctx)
	for {
		d, err := t.plan(ctx)
		if errors.Is(err, errLate) && t.withoutLate() {
			continue
		}
		if err == nil {
			t.remember(d.s, d.Plan)
			t.rememberTrue(d.planner, d.Plan)
			t.shelve(d.s)
			t.choose(&d)
		}
		return d, err
	}
}

// plan looks and plans.
func (t *turn) plan(ctx context.Context) (d decision, err error) {
	d.looked = time.Now()
	if d.s, d.planner, err = t.look(ctx); err != nil {
		return d, err
	}
	d.Plan = d.planner.Plan()
	if again := t.doubted(d.Plan); len(again) > 0 {
		t.forget(again)
		d.looked = time.Now()
		if d.s, d.planner, err = t.look(ctx); err != nil {
			return d, err
		}
		d.Plan = d.planner.Plan()
	}
	before := len(t.part)
	d.Plan, err = t.confirm(ctx, d.s, d.planner, d.Plan)
	if len(t.part) < before { // some have left for a round of their own
		kept := nameSet(t.part)
		kept[""] = true // what is about none in particular
		d.about(kept)
	}
	return d, err
}

// choose says what of the plan is to be made now.
func (t *turn) choose(d *decision) {
	d.again = replanned(t.azure, d.s, d.planner, t.part, t.configs)
	pause := t.pause()
	if pause != "" {
		d.Findings = append(d.Findings, finding.New(finding.Paused, "", "", "nothing is changed %s: the keeper is paused", pause).WithFix("routekeeper resume ends it, with the -f of the keeper"))
	}
	held := t.contested(d)
	switch {
	case t.wish != nil: // also what is fought over
		d.only(func(c plan.Change) bool { return slices.Contains(t.wish.Verbs, c.Verb) })
	case t.opts.DryRun || pause != "":
	case len(held) == 0:
		d.wanted = d.Changes
	default:
		d.only(func(c plan.Change) bool { return !held[placeOf(c)] })
	}
}

// pause says until when no changes are to be made, "" when they are.
func (k *Keeper) pause() string {
	if k.opts.Paused == nil {
		return ""
	}
	return k.opts.Paused()
}

// only has chosen changes made.
func (d *decision) only(chosen func(plan.Change) bool) {
	d.wanted, d.again = d.Only(chosen, d.s.Table).Changes, d.again.only(chosen)
}

// act does what was decided, and tells of it. The error is the context's.
func (t *turn) act(ctx context.Context, d decision, tell func(Round)) (Round, error) {
	round := t.round()
	round.Complete = len(d.s.Unread) == 0
	round.Tables = t.fill(d.s)
	t.name(&round)
	round.Seen = d.s.Fork()
	ctx = azure.Counting(ctx, t.calls)
	err := t.carryOut(ctx, &round, d)
	round.Findings = finding.Sort(slices.Concat(round.Findings, t.fighting(ctx)))
	t.end(&round)
	t.unlocked(func() {
		t.told.Lock()
		defer t.told.Unlock()
		t.note(&round)
		t.record(&round, d.s, d.planner.Sources)
		if err == nil || len(round.Changes) > 0 { // otherwise it was interrupted on its way
			tell(round)
		}
	})
	return round, err
}

// carryOut makes what is wanted, or only tells of it. The error is the context's.
func (t *turn) carryOut(ctx context.Context, round *Round, d decision) error {
	round.Findings, round.Changes = d.Findings, planned(d.Changes, d.wanted)
	if len(d.wanted) == 0 {
		return nil
	}
	if t.opts.Planned != nil {
		about := *round
		about.Changes = planned(d.wanted, nil)
		t.unlocked(func() {
			t.told.Lock()
			defer t.told.Unlock()
			t.opts.Planned(about)
		})
	}
	changes, findings, err := t.apply(ctx, *round, d)
	t.made(changes)
	round.Changes, round.Findings = append(changes, round.Changes...), finding.Sort(append(round.Findings, findings...))
	return err
}

// look observes, and makes a planner of what was seen. Where what is seen is other clusters' too, they are looked at as well.
func (t *turn) look(ctx context.Context) (*network.Snapshot, *plan.Planner, error) {
	s, err := t.observe(ctx)
	for err == nil && t.widen(s) {
		s, err = t.observe(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	planner := plan.Among(s, t.part, t.configs)
	t.timeSources(s, planner)
	return s, planner, nil
}
