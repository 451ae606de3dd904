package keeper

import (
	"context"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/apply"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Prune removes leftover routes of missing clusters, once. read collects the proof, and does so
// again before a late write. The writes work like all others: whole documents, planned again on
// each fresh one, and read back.
func (k *Keeper) Prune(
	ctx context.Context, read func(context.Context) (*plan.Pruner, error),
) (Result, error) {
	w := k.wholeGroup()
	c := w.newCheck(Cause{By: ByPerson}, time.Time{})
	c.configs, c.fresh = nil, c.began // no configured cluster
	var result Result
	c.tell = func(r Result) { result = r }
	pruner, err := read(ctx)
	if err != nil {
		return c.result(), err
	}
	p := pruner.Plan()
	c.s, c.changes, c.mem.planned = pruner.Seen(), p.Changes, p.Findings
	if chosen, again := p.Changes, pruning(pruner, read); !k.opts.DryRun && len(chosen) > 0 {
		if only := k.opts.Only; only != nil {
			chosen = slices.DeleteFunc(slices.Clone(chosen), func(change plan.Change) bool {
				return !only(change)
			})
			again = again.Only(only)
		}
		c.start(ctx, c.s, chosen, again)
	}
	c.whole, c.decided = true, true
	w.finish(c)
	return result, ctx.Err()
}

// Remember sets which routes a cluster's route table has or had. It is for a keeper that does not
// run. The next check counts these routes as the cluster's, even if the cluster is gone.
func (k *Keeper) Remember(cluster arm.ID, had map[plan.Pair]bool) {
	if m := k.wholeGroup().mem.clusters[cluster.Key()]; m != nil {
		m.Had = had
	}
}

// finish waits for the writes of a check.
func (w *worker) finish(c *check) {
	for c.end(w); !c.ended; {
		<-w.wake
		w.work()
	}
}

// pruning plans again, by the proof for orphans.
func pruning(pruner *plan.Pruner, read func(context.Context) (*plan.Pruner, error)) apply.Replan {
	return apply.Replan{Table: pruner.Again,
		Late: func(ctx context.Context, _ arm.ID) (apply.Replan, error) {
			pruner, err := read(ctx)
			if err != nil {
				return apply.Replan{}, err
			}
			return pruning(pruner, read), nil
		}}
}
