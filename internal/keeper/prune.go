package keeper

import (
	"context"
	"time"

	"routekeeper.dev/routekeeper/internal/apply"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Prune removes once the routes whose clusters are gone. Look reads what their proof stands on, and is asked again where a write comes
// late. They are written as all others: whole, planned again on each fresh document, and read back.
func (k *Keeper) Prune(ctx context.Context, look func(context.Context) (*plan.Pruner, error)) (Round, error) {
	w := k.wholeGroup()
	c := w.newCheck(Cause{By: ByPerson}, time.Time{})
	c.configs, c.fresh = nil, c.began // no cluster that is configured
	var round Round
	c.tell = func(r Round) { round = r }
	pruner, err := look(ctx)
	if err != nil {
		return c.round(), err
	}
	p := pruner.Plan()
	c.s, c.changes, c.mem.planned = pruner.Seen(), p.Changes, p.Findings
	if !k.opts.DryRun && len(p.Changes) > 0 {
		c.start(ctx, c.s, p.Changes, pruning(pruner, look))
	}
	c.whole, c.decided = true, true
	w.finish(c)
	return round, ctx.Err()
}

// Remember says which routes a cluster's own table has or had, for a keeper that does not run: the
// next Round counts them as the cluster's, also where the cluster is gone.
func (k *Keeper) Remember(cluster arm.ID, had map[plan.Pair]bool) {
	if m := k.wholeGroup().mem.clusters[cluster.Key()]; m != nil {
		m.had = had
	}
}

// finish waits for the writes of a check.
func (w *worker) finish(c *check) {
	for c.end(w); !c.ended; {
		<-w.wake
		w.work()
	}
}

// pruning plans by what was found orphaned.
func pruning(pruner *plan.Pruner, look func(context.Context) (*plan.Pruner, error)) apply.Replan {
	return apply.Replan{Table: pruner.Again, Late: func(ctx context.Context, _ arm.ID) (apply.Replan, error) {
		pruner, err := look(ctx)
		if err != nil {
			return apply.Replan{}, err
		}
		return pruning(pruner, look), nil
	}}
}
