package keeper

import (
	"context"
	"time"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Prune removes once the routes whose clusters are gone. Look reads what their proof stands on, and is asked again where a write comes
// late. They are written as all others: whole, planned again on each fresh document, and read back.
func (k *Keeper) Prune(ctx context.Context, look func(context.Context) (*plan.Pruner, error)) (round Round, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.newTurn(nil, Cause{By: ByPerson})
	round = t.round()
	round.Of = []string{} // no cluster that is configured
	defer t.end(&round)
	looked := time.Now()
	pruner, err := look(t.manners(ctx))
	if err != nil {
		return round, err
	}
	round.Seen = network.NewSnapshot()
	d := decision{Plan: pruner.Plan(), again: pruning(pruner, look), looked: looked}
	if !k.opts.DryRun {
		d.wanted = d.Changes
	}
	err = t.carryOut(azure.Counting(ctx, t.calls), &round, d)
	t.end(&round)
	t.record(&round, pruner.Seen(), func(network.ID) []network.ID { return nil })
	return round, err
}

// pruning plans by what was found orphaned.
func pruning(pruner *plan.Pruner, look func(context.Context) (*plan.Pruner, error)) replan {
	return replan{table: pruner.Again, late: func(ctx context.Context, _ network.ID) (replan, error) {
		pruner, err := look(ctx)
		if err != nil {
			return replan{}, err
		}
		return pruning(pruner, look), nil
	}}
}
