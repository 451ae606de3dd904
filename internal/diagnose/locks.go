package diagnose

import (
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// lockdown reports a node resource group that only AKS may change, if the config requires a change
// there.
func lockdown(p *clusterCase, wanted needs) {
	if !p.cluster.Locked || p.source.Table == "" || p.existing(p.source.Table) {
		return
	}
	f := p.found(finding.NodeGroupLocked, p.cluster.NodeGroup(), "node resource group %s is "+
		"locked down, so only AKS can associate route table %s with the node subnets of cluster %s",
		p.cluster.NodeResourceGroup, p.source.Table.Short(), p.cluster.ID.Short()).WithFix(
		"%s", p.azAKS("update", "--yes"))
	guards := slices.ContainsFunc(wanted, func(n need) bool {
		return n.scope.Equal(p.source.Table) && !reads(n.action)
	})
	if p.Proposed || !guards {
		f.Severity = finding.Info
	}
	p.add(f)
}

// azAKS returns a command about the cluster. az aks does not take resource IDs.
func (p *clusterCase) azAKS(verb, options string, values ...any) finding.CommandLine {
	id := p.cluster.ID
	template := strings.TrimSpace("az aks " + verb + " --subscription %s --resource-group %s " +
		"--name %s " + options)
	return finding.Command(template,
		append([]any{id.Subscription(), id.ResourceGroup(), id.Name()}, values...)...)
}

// locks reports locks that refuse necessary writes by AKS, the cluster's cloud provider or the
// keeper. A delete lock refuses only the verb DELETE at Azure Resource Manager (lock-resources).
// Routes are removed by a PUT of their table, so outside the node resource group a delete lock does
// not prevent that.
func (p *clusterCase) locks(caller, identity needs) {
	group := &inventory.Lock{Scope: p.cluster.NodeGroup()}
	for _, key := range slices.Sorted(maps.Keys(p.s.Locks)) {
		lock := p.s.Locks[key]
		var lines []string
		severity := finding.Info
		holds := func(n need) bool {
			return lock.ReadOnly && lock.AppliesTo(n.scope) && strings.HasSuffix(n.action, "/write")
		}
		for _, n := range identity {
			if holds(n) && n.scope.Is(arm.TypeRouteTable) &&
				!strings.Contains(n.action, "/routes/") {
				lines, severity = append(lines, "the cluster's cloud provider writes "+
					called(n.scope)+" "+n.what), finding.Warning
			}
		}
		// AKS checks the group as a whole: a lock of any level on anything in it counts (AKS#3291,
		// azure-aks-docs#427).
		if group.AppliesTo(lock.Scope) || lock.ReadOnly && lock.AppliesTo(group.Scope) {
			lines, severity = append(lines, "AKS refuses to scale, upgrade or repair the cluster "+
				"while anything is locked in its node resource group "+group.Scope.Name()),
				finding.Warning
		}
		for _, n := range caller {
			if holds(n) {
				lines = append(lines, "the keeper writes "+called(n.scope)+" "+n.what)
				if !p.Proposed {
					severity = finding.Error
				}
			}
		}
		if len(lines) == 0 {
			continue
		}
		if lock.Notes != "" {
			lines = append(lines, "notes of the lock: "+lock.Notes)
		}
		f := p.found(finding.ResourceLocked, lock.Scope,
			"the lock %s on %s forbids necessary writes for %s", lock.ID.Name(),
			called(lock.Scope), p.cluster.ID.Short())
		f.Severity = severity
		p.add(f.About(lock.ID.Name()).With(lines...).WithAdvice("delete the lock for the time of "+
			"the change, then create it again with level %s", level(lock)).
			WithFix("az lock delete --ids %s", lock.ID))
	}
}

func level(lock *inventory.Lock) string {
	if lock.ReadOnly {
		return "ReadOnly"
	}
	return "CanNotDelete"
}
