// Package demo plays the life of a cluster's routes on a local Azure emulator, scene by scene,
// while a keeper runs. After each scene it checks the network with a client of its own. It must not
// trust the keeper, except for the findings that it reports, and must not know how a scene is
// shown.
//
// How it works. Run starts an emulator with a network and a cluster, and makes a keeper. Each scene
// changes something in Azure, lets the keeper check until the network is correct
// (stage.checkUntil), and fails when the keeper takes too long.
package demo

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Keeper is the keeper under test.
type Keeper interface {
	Reconcile(context.Context) (keeper.Result, error)
}

// The principals of the demo: the keeper, and the operator who redeploys and checks the network.
var (
	KeeperPrincipal = emulator.DefaultPrincipal
	Operator        = emulator.Principal{
		Name: "infrastructure pipeline", ClientID: "0a0a0000-0000-4000-8000-000000000002",
		Secret:   "local-secret",
		ObjectID: "0b1ec700-0000-4000-8000-000000000002",
	}
)

// Options are the options of the demo.
type Options struct {
	// NewKeeper makes the keeper for the emulator.
	NewKeeper func(emulator.Info, []v1alpha1.ClusterRoutes) (Keeper, error)
	// Dir is an empty folder for the emulator's files.
	Dir string
	// Started receives the emulator's addresses, Scene each scene that ended. Both may be nil.
	Started func(emulator.Info, emulator.Demo, emulator.Firewalled)
	Scene   func(Scene)
	// Playing receives each scene before it starts, with its number and the number of scenes. It
	// may be nil.
	Playing func(s Scene, n, of int)
	// Next waits until a person chooses a scene, and returns its number, from 1. Any scene can be
	// chosen, any number of times: Run first prepares the network for the scene. Run ends when the
	// context does. Nil: each scene is played once, in order.
	Next func(context.Context) (int, error)
	// Pause makes the keeper write nothing until Pause is called with false. Only with Next.
	Pause func(bool)
	// Patience returns how long the keeper may take for a scene, or for what precedes the first one
	// ("" as its name). Nil: 20 s.
	Patience func(scene string) time.Duration
	// OperationTime is how long Azure's operations take, RouteBatch how long the cluster's cloud
	// provider collects routes before it writes.
	OperationTime, RouteBatch time.Duration
}

// Scene is the result of a scene.
type Scene struct {
	Name  string
	Title string // what happens, in a sentence
	OK    bool
	// Detail says what was checked, or what is wrong.
	Detail  string
	Elapsed time.Duration
	// Reads, Writes and Polls are the keeper's ARM calls, as the emulator counted them.
	Reads, Writes, Polls int
	Changes              []plan.Outcome
}

// Config returns the config for the cluster with pod routes.
func Config(d emulator.Demo) []v1alpha1.ClusterRoutes {
	c := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: d.Cluster.Name()}}
	c.Spec.ClusterID = string(d.Cluster)
	c.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
		{SubnetID: string(d.GatewaySubnet), RouteTableID: string(d.GatewayTable)}}
	c.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(d.GatewayTable)}}
	c.SetDefaults()
	return []v1alpha1.ClusterRoutes{c}
}

// Run plays all scenes and reports whether every one succeeded. The error says why the demo could
// not run.
func Run(ctx context.Context, o Options) (bool, error) {
	if o.Patience == nil {
		o.Patience = func(string) time.Duration { return 20 * time.Second }
	}
	e, err := emulator.New(emulator.Options{
		Principals:    []emulator.Principal{KeeperPrincipal, Operator},
		OperationTime: o.OperationTime, RouteBatch: o.RouteBatch, CheckClusterIdentity: true,
	})
	if err != nil {
		return false, err
	}
	defer e.Close()
	server, err := e.Start(o.Dir, "", "")
	if err != nil {
		return false, err
	}
	defer server.Close()
	names, err := emulator.BuildDemo(e, Operator)
	if err != nil {
		return false, err
	}
	web, err := emulator.BuildFirewalled(e, Operator)
	if err != nil {
		return false, err
	}
	s := &stage{opts: o, demo: names, web: web, e: e, patience: o.Patience("")}
	if s.azure, err = e.Client(Operator); err != nil {
		return false, err
	}
	if s.keeper, err = o.NewKeeper(server.Info, append(Config(names), guarded(web))); err != nil {
		return false, err
	}
	if o.Started != nil {
		o.Started(server.Info, names, web)
	}
	if o.Next != nil {
		return s.playChosen(ctx)
	}
	all := true
	for i := range scenes {
		ok, err := s.show(ctx, i)
		if err != nil {
			return false, err
		}
		all = all && ok
	}
	return all, nil
}

// show plays a scene and reports it.
func (s *stage) show(ctx context.Context, i int) (ok bool, err error) {
	if s.opts.Playing != nil {
		s.opts.Playing(Scene{Name: scenes[i].name, Title: scenes[i].title}, i+1, len(scenes))
	}
	s.patience = s.opts.Patience(scenes[i].name)
	result := s.play(ctx, scenes[i])
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if s.opts.Scene != nil {
		s.opts.Scene(result)
	}
	return result.OK, nil
}

// playChosen plays the scenes that a person chooses, until the context ends.
func (s *stage) playChosen(ctx context.Context) (bool, error) {
	all, last := true, 0
	s.opts.Pause(true)
	for {
		n, err := s.opts.Next(ctx)
		if ctx.Err() != nil {
			return all, nil
		}
		if err != nil {
			return false, err
		}
		if n != last+1 {
			if err := s.prepare(ctx, n-1); err != nil && ctx.Err() == nil {
				return false, fmt.Errorf("before scene %d: %w", n, err)
			}
		}
		s.opts.Pause(false)
		ok, err := s.show(ctx, n-1)
		if ctx.Err() != nil {
			return all, nil
		}
		if err != nil {
			return false, err
		}
		all, last = all && ok, n
	}
}

// Titles returns the titles of the scenes.
func Titles() (titles []string) {
	for _, sc := range scenes {
		titles = append(titles, sc.title)
	}
	return titles
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stage is the state that scenes share.
type stage struct {
	opts   Options
	demo   emulator.Demo
	web    emulator.Firewalled
	e      *emulator.Emulator
	azure  *emulator.Client // the operator's, which shares no code with the keeper's
	keeper Keeper

	// of the scene being played
	patience time.Duration
	changes  []plan.Outcome
	findings []finding.Finding
}

// play plays one scene.
func (s *stage) play(ctx context.Context, sc scene) Scene {
	s.changes, s.findings = nil, nil
	before := s.e.LastRequest()
	result := Scene{Name: sc.name, Title: sc.title}
	start, detail := time.Now(), ""
	t, err := s.table(s.demo.GatewayTable)
	if err == nil {
		detail, err = sc.play(ctx, s, t)
	}
	result.Elapsed = time.Since(start)
	result.OK, result.Detail = err == nil, detail
	if err != nil {
		result.Detail = err.Error()
	}
	result.Changes = s.changes
	for _, r := range s.e.Requests(before) {
		switch {
		case r.Principal != KeeperPrincipal.Name:
		case r.Method != "GET":
			result.Writes++
		case strings.Contains(strings.ToLower(r.Path), "/operations/"):
			result.Polls++
		default:
			result.Reads++
		}
	}
	return result
}

// reconcile makes the keeper check once.
func (s *stage) reconcile(ctx context.Context) (keeper.Result, error) {
	r, err := s.keeper.Reconcile(ctx)
	for _, c := range r.Changes {
		if c.State == plan.Done {
			s.changes = append(s.changes, c)
		}
	}
	s.findings = r.Findings
	return r, err
}

// between is the pause between two checks: long enough to see the keeper wait for the network,
// short enough to watch.
const between = 200 * time.Millisecond

// checkUntil makes the keeper check until right returns nil and the last check read the present
// route tables. When patience is over, it returns what is still wrong.
func (s *stage) checkUntil(ctx context.Context, right func() error) error {
	deadline := time.Now().Add(s.patience)
	for {
		r, err := s.reconcile(ctx)
		if err != nil {
			return err
		}
		wrong := right()
		if wrong == nil {
			wrong = s.sawLatest(r)
		}
		if wrong == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %w", s.patience, wrong)
		}
		if err := sleep(ctx, between); err != nil {
			return err
		}
	}
}

// sawLatest returns an error if a route table has changed since the check read it. The cloud
// provider can remove a new route before a check, and write it again after the check. Then the
// network is correct, but the check reports, and the page shows, a missing route.
func (s *stage) sawLatest(r keeper.Result) error {
	if r.Seen.Snapshot == nil {
		return nil
	}
	for _, id := range []arm.ID{s.demo.ClusterTable, s.demo.GatewayTable} {
		seen := r.Seen.Table(id)
		if seen == nil {
			continue
		}
		now, err := s.table(id)
		if err != nil {
			return err
		}
		was, is := map[string]string{}, map[string]string{}
		for _, r := range seen.Routes() {
			if r.Hop.IsValid() {
				was[r.Name] = fmt.Sprint(r.Prefix, " to ", r.Hop)
			}
		}
		for _, r := range now.routes {
			if _, err := netip.ParseAddr(r.hop); err == nil {
				is[r.name] = r.prefix + " to " + r.hop
			}
		}
		if !maps.Equal(was, is) {
			return fmt.Errorf("%s has changed since the last check read it", id.Short())
		}
	}
	return nil
}
