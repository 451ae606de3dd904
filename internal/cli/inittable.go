package cli

import (
	"context"
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/provision"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
)

// makeGatewayTables shows a plan, asks, and creates a route table for each gateway subnet that has
// none. It reports whether it created anything.
func makeGatewayTables(
	ctx context.Context, a *app, client *azure.Client, proposals []plan.Proposal, yes bool,
) (bool, error) {
	type job struct {
		cluster build.Cluster
		steps   []build.Step
		planned []provision.Outcome
	}
	var jobs []job
	var subnets []arm.ID
	told := report.Building{}
	for _, p := range proposals {
		for _, id := range p.Tableless {
			if slices.ContainsFunc(subnets, id.Equal) {
				continue
			}
			subnets = append(subnets, id)
			vnet, err := client.Find(ctx, id.Parent())
			if err != nil {
				return false, err
			}
			if vnet == nil {
				return false, fmt.Errorf("--gateway-table: network %s does not exist any more",
					id.Parent())
			}
			j := job{cluster: build.Cluster{Name: p.Cluster.Name(), Subscription: id.Subscription(),
				Group: p.Cluster.ResourceGroup(), Location: build.LocationOf(*vnet)}}
			j.steps = j.cluster.GatewayTableSteps(id)
			if j.planned, err = provision.Preview(ctx, client, j.cluster, j.steps,
				true); err != nil {
				return false, err
			}
			if err := mayBuild(ctx, a, client, j.cluster, j.planned); err != nil {
				return false, err
			}
			told.Steps = append(told.Steps, building(j.cluster, j.planned).Steps...)
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == 0 {
		say(a.err, "%s\n", "--gateway-table: no Application Gateway's subnet without a route "+
			"table was seen")
		return false, nil
	}
	if err := told.Write(a.err, report.Text, report.Style{}); err != nil {
		return false, err
	}
	for _, j := range jobs {
		if err := refused(j.planned); err != nil {
			return false, err
		}
		// The flag allows a change of the subnet. It does not allow changes of existing tables.
		if have := j.planned[0].Have; have != nil && !j.cluster.Owns(*have) {
			return false, fmt.Errorf("nothing was written: route table %s exists, and was not "+
				"made for this: "+
				"associate it yourself, or rename it", have.ID)
		}
	}
	if !yes {
		if err := a.unlessYes(a.ask("Build this?")); err != nil {
			return false, err
		}
	}
	for _, j := range jobs {
		progress := a.progress(ctx, "building")
		_, err := provision.Take(ctx, client, j.cluster, j.steps, true, buildObserver(progress))
		progress.stop()
		if err != nil {
			return false, fmt.Errorf("%w; what was created stays; run the same command again to "+
				"continue", err)
		}
	}
	return true, nil
}

// propose reads the clusters, and makes the proposals for them.
func propose(
	ctx context.Context, client *azure.Client, scope, one arm.ID,
) (*inventory.Snapshot, []plan.Proposal, error) {
	s, err := survey.Of(ctx, client, scope, oneOrNone(one))
	if err != nil {
		return nil, nil, err
	}
	all, err := survey.Propose(ctx, client, s, oneOrNone(one))
	return s, all, err
}
