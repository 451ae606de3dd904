package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/apply"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

// This file handles configs that a person removes from a running keeper. How it works: with
// spec.onRemoval Prune, a separate worker takes over the memory of the cluster, deletes its routes
// from the targets once, and ends. A file that is copied slowly lacks clusters for a while. So the
// worker first asks AKS whether the cluster exists. If it does, the worker waits for leavingFor. If
// the config has the cluster again by then, its new worker takes the memory back and deletes
// nothing. If all configs disappear at once, that looks like a mistake, such as a folder that is
// not mounted. Then nothing is deleted. If every removal needs a separate order (Removal), nothing
// is deleted without one, and nothing waits.

// leavingFor is how long a cluster that may exist must be missing from the config before its routes
// are deleted.
const leavingFor = 2 * time.Minute

// Removal is the order to delete the routes of a cluster from its targets. The cluster's config
// must be gone.
type Removal struct {
	Config v1alpha1.ClusterRoutes
	// Ended is called once, with the reason why routes remain, or nil. It must not block.
	Ended func(error)
}

// Replace works like Reload for callers to whom a missing config alone means nothing: it carries
// out only the removals that are ordered. It may be called while Run runs.
func (k *Keeper) Replace(configs []v1alpha1.ClusterRoutes, removals ...Removal) {
	k.reload(configs, func(_ []v1alpha1.ClusterRoutes, old map[string]*worker) {
		for _, r := range removals {
			before := old[keyOf(r.Config)]
			if before == nil {
				go r.Ended(errors.New("it is not known yet which routes are the cluster's"))
				continue
			}
			w := k.newWorkerLocked([]v1alpha1.ClusterRoutes{r.Config})
			w.after = []*worker{before}
			k.running.Go(func() { r.Ended(w.remove(true)) })
		}
	})
}

// removedLocked starts deleting the routes of clusters that are no longer configured.
func (k *Keeper) removedLocked(before []v1alpha1.ClusterRoutes, old map[string]*worker) {
	kept := keySet(k.configs)
	gone := slices.DeleteFunc(slices.Clone(before), func(c v1alpha1.ClusterRoutes) bool {
		return kept[keyOf(c)]
	})
	for _, c := range gone {
		log := k.log.With("cluster", c.Metadata.Name, "clusterID", c.Spec.ClusterID)
		switch {
		case len(c.Spec.Targets) == 0:
		case c.Spec.OnRemoval != v1alpha1.RemovalPrune:
			log.Info("removed from the config: its routes stay in the targets", "onRemoval",
				string(c.Spec.OnRemoval))
		case len(gone) == len(before):
			log.Warn("removed from the config together with all other clusters: that looks like " +
				"a mistake, so its routes stay in the targets")
		case k.opts.DryRun:
			log.Info("removed from the config: this is a dry run, so its routes stay in " +
				"the targets")
		default:
			w := k.newWorkerLocked([]v1alpha1.ClusterRoutes{c})
			w.after = []*worker{old[keyOf(c)]}
			k.leaving[keyOf(c)] = w
			k.running.Go(func() { _ = w.remove(false) }) // it has logged why
		}
	}
}

// returnedLocked takes clusters that are configured again away from the workers that would remove
// them.
func (k *Keeper) returnedLocked() {
	for _, c := range k.configs {
		if w := k.leaving[keyOf(c)]; w != nil {
			k.workers[keyOf(c)] = w
			delete(k.leaving, keyOf(c))
		}
	}
}

// awaitReturn waits until a cluster has been missing from the config for leavingFor, unless it is
// gone from Azure. It reports whether the cluster stays away.
func (w *worker) awaitReturn(log *slog.Logger) bool {
	if w.k.confirmsGone(w.ctx, idOf(w.configs[0]), azure.ReadOptions{}) {
		return true
	}
	log.Info("removed from the config: its routes are deleted if it stays so",
		"until", time.Now().Add(leavingFor).UTC().Format(time.RFC3339))
	for {
		wait := time.NewTimer(leavingFor)
		select {
		case <-wait.C:
		case <-w.ctx.Done():
			wait.Stop()
			return false
		}
		w.k.mu.Lock()
		held := w.k.held || len(w.k.configs) == 0
		w.k.mu.Unlock()
		if !held {
			return true
		}
	}
}

// ending reports whether Run ends.
func (k *Keeper) ending() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ctx == nil || k.ctx.Err() != nil
}

// HoldRemovals sets whether the routes of clusters that have just left the config stay for now.
// They stay while the present config is refused, because it does not show which clusters it has.
func (k *Keeper) HoldRemovals(refused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = refused
}

// remove deletes the routes of the worker's only cluster from its targets. Writes of the cluster's
// previous worker finish first. Without an order, remove waits to see whether the cluster returns.
func (w *worker) remove(ordered bool) error {
	defer w.end()
	for _, before := range w.after {
		<-before.done
	}
	w.inherit()
	log := w.k.log.With("cluster", w.configs[0].Metadata.Name)
	if !ordered {
		left := w.awaitReturn(log)
		w.left()
		switch {
		case left:
		case w.k.ending():
			log.Warn("removed from the config: the program ends before its routes are deleted; " +
				"routekeeper sync prune finds them")
			return w.ctx.Err()
		default:
			log.Info("it is configured again: its routes stay in the targets")
			return w.ctx.Err()
		}
	}
	if pause := cmp.Or(w.k.opts.pause(), w.k.opts.clusterPause(w.configs[0].Metadata.Name),
		inSpec(w.configs[0])); pause != "" {
		log.Warn("removed from the config: it is paused, so its routes stay in the targets",
			"paused", pause)
		return errors.New("it is paused " + pause)
	}
	c := w.newCheck(Cause{By: ByPerson}, time.Time{})
	c.fresh, c.until = c.began, c.began.Add(readMost)
	p, planner, err := c.planRemoval(w.ctx)
	if err != nil {
		log.Error("removed from the config: its routes stay in the targets", "error", err.Error())
		return err
	}
	var stays error
	for _, f := range p.Findings {
		isTarget := func(t v1alpha1.Target) bool {
			return arm.ID(f.Resource).Equal(arm.ID(t.RouteTableID))
		}
		if slices.ContainsFunc(w.configs[0].Spec.Targets, isTarget) {
			log.Warn("removed from the config: its routes stay in a target", "code", string(f.Code),
				"resource", f.Resource, "message", f.Message)
			stays = errors.New(f.Message)
		}
	}
	c.changes = p.Changes
	stops := stopped(c, permission, p.Changes)
	chosen := slices.DeleteFunc(slices.Clone(p.Changes), func(change plan.Change) bool {
		_, why := stops(change)
		if why != "" {
			stays = errors.New(why)
		}
		return why != ""
	})
	if len(chosen) > 0 {
		c.start(w.ctx, c.s, chosen, w.removing(planner))
	}
	c.whole, c.decided = true, true
	w.finish(c)
	done, why := 0, ""
	for _, o := range slices.Concat(slices.Collect(maps.Values(c.outcomes))...) {
		if o.State == plan.Done || o.State == plan.Obsolete {
			done++
		} else if o.Error > why {
			why = o.Error // one of them, the same at each attempt
		}
	}
	log.Info("removed from the config: its routes were deleted from the targets", "routes", done)
	if done < len(p.Changes) {
		log.Error("removed from the config: some routes could not be deleted and stay in the "+
			"targets", "routes", len(p.Changes)-done)
		if stays == nil {
			stays = fmt.Errorf("%d routes could not be deleted: %s", len(p.Changes)-done,
				cmp.Or(why, "no answer says why"))
		}
	}
	return stays
}

// left ends the wait for a cluster's return.
func (w *worker) left() {
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	if key := keyOf(w.configs[0]); w.k.leaving[key] == w {
		delete(w.k.leaving, key)
	}
}

// planRemoval plans the deletes. It reads the targets, and the subnets that show whether a target
// is a cluster's route table.
func (c *check) planRemoval(ctx context.Context) (plan.Plan, *plan.Planner, error) {
	config := c.configs[0]
	c.s = plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}
	c.s.Taken = time.Now()
	c.recall()
	// that the cluster does not exist, or could not be read, does not matter
	delete(c.s.Unread, keyOf(config))
	want := inventory.Wanted{}
	for _, t := range config.Spec.Targets {
		want.Tables = append(want.Tables, arm.ID(t.RouteTableID))
	}
	if cluster := c.s.Cluster(idOf(config)); cluster != nil {
		want.Subnets = c.s.NodeSubnetIDs(cluster)
	}
	if err := c.read(ctx, c.s.Snapshot, want); err != nil {
		return plan.Plan{}, nil, err
	}
	planner := plan.Removal(c.s, config, c.taken)
	p, err := c.confirm(ctx, c.s.Snapshot, planner.Plan(), planner.Plan)
	return p, planner, err
}

// removing plans again for a target, unless the cluster was configured again.
func (w *worker) removing(planner *plan.Planner) apply.Replan {
	again := apply.Replan{Table: func(table *inventory.RouteTable) plan.Plan {
		w.k.mu.Lock()
		configured := keySet(w.k.configs)[keyOf(w.configs[0])]
		w.k.mu.Unlock()
		if configured {
			return plan.Plan{}
		}
		return planner.Again(table)
	}}
	again.Late = func(context.Context, arm.ID) (apply.Replan, error) { return again, nil }
	return again
}
