package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/observe"
	"routekeeper.dev/routekeeper/internal/plan"
)

// read reads into a snapshot, until the check's deadline for reads.
func (c *check) read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted) error {
	if w.Empty() {
		return nil
	}
	o := azure.ReadOptions{NotBefore: c.fresh, Poll: c.poll && !c.urgent, Calls: c.calls,
		Life: c.life}
	if !c.patient {
		o.Wait = max(time.Until(c.until), 250*time.Millisecond).Round(100 * time.Millisecond)
	}
	return c.k.azure.Read(ctx, s, w, o)
}

// missed reports whether a repair may wait for something that earlier checks could not read: which
// node subnets a cluster has, or which route table.
func (c *check) missed() bool {
	for _, config := range c.configs {
		m := c.mem.clusters[keyOf(config)]
		sourceMissed := c.mem.trouble > 0 && m.cluster != nil && m.cluster.Kubenet() &&
			m.LastTable == ""
		if m.subnetsMissed() || sourceMissed {
			return true
		}
	}
	return false
}

// observeSubnets reads subnets, and clusters whose documents are old. It repairs lost associations.
// If all clusters are known from before, their documents are read concurrently.
func (c *check) observeSubnets(ctx context.Context) error {
	c.s = plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{}}
	c.s.Taken = time.Now()
	c.urgent = c.missed()
	due, known := c.due()
	documents := inventory.NewSnapshot()
	read := make(chan error, 1)
	go func() { read <- c.read(ctx, documents, inventory.Wanted{Clusters: due}) }()
	concurrently := known && !c.patient
	if concurrently {
		c.recall()
		if err := c.readSubnets(ctx); err != nil {
			<-read
			return err
		}
		c.repair(ctx)
	}
	if err := <-read; err != nil {
		return err
	}
	if err := c.noteClusters(ctx, documents, due); err != nil {
		return err
	}
	c.recall()
	if err := c.readSubnets(ctx); err != nil {
		return err
	}
	if !concurrently || len(due) > 0 {
		c.repair(ctx)
	}
	return ctx.Err()
}

// due returns the clusters whose documents have to be read, and whether all clusters are known from
// before.
func (c *check) due() (due []arm.ID, known bool) {
	known = true
	for _, config := range c.configs {
		id := idOf(config)
		m := c.mem.clusters[id.Key()]
		age := c.k.opts.ClusterInterval
		if m.unread != nil || m.incomplete {
			age = min(age, retryCluster)
		}
		if m.subnetsMissed() {
			age = 0
		}
		if m.read.IsZero() || time.Since(m.read) >= age {
			due = append(due, id)
		}
		known = known && m.cluster != nil
	}
	return due, known
}

// recall adds what is remembered to the facts.
func (c *check) recall() {
	for _, config := range c.configs {
		id := idOf(config)
		m := c.mem.clusters[id.Key()]
		if m.lookAt.IsZero() && !c.patient {
			m.lookAt = time.Now().Add(rand.N(c.k.lookEvery()))
		}
		m.recall(c.s, id)
	}
}

// readSubnets reads node subnets and guarded subnets that were not read yet. It returns errReplaced
// if the group has changed.
func (c *check) readSubnets(ctx context.Context) error {
	subnets := observe.Subnets(c.s.Snapshot, c.configs)
	if err := c.read(ctx, c.s.Snapshot, inventory.Wanted{Subnets: subnets}); err != nil {
		return err
	}
	return c.share()
}

// share notes what the clusters use. It returns errReplaced if that merges the group with another.
func (c *check) share() error {
	uses := map[string]used{}
	for _, config := range c.configs {
		u := used{resources: append(configured(config), seenUses(c.s, config)...)}
		if cluster := c.s.Cluster(idOf(config)); cluster != nil {
			u.nodeGroup = cluster.NodeGroup().Key()
		}
		slices.Sort(u.resources)
		u.resources = slices.Compact(u.resources)
		uses[keyOf(config)] = u
	}
	if c.k.share(c.w, uses) {
		return errReplaced
	}
	return nil
}

// repair starts to repair lost associations, as far as the subnets alone can show them.
func (c *check) repair(ctx context.Context) {
	p := plan.Among(c.s, c.configs, c.taken).Repairs()
	if len(p.Changes) == 0 {
		return
	}
	s := c.s.Fork() // must not change while the check reads on
	planner := plan.Among(s, c.configs, c.taken)
	c.write(ctx, p, c.choose(p.Changes), s, planner)
}

// noteClusters stores the documents of the clusters that were due.
func (c *check) noteClusters(ctx context.Context, documents *inventory.Snapshot,
	due []arm.ID) error {
	known := false // whether any cluster is known
	for _, m := range c.mem.clusters {
		known = known || m.cluster != nil
	}
	if u, silent := allSilent(documents, due); silent && !known && !c.k.hasWorked() {
		return fmt.Errorf("reading cluster %s: %s", u.ID.Short(), u.Reason())
	}
	var ownSubnets []arm.ID
	for _, id := range due {
		m := c.mem.clusters[id.Key()]
		m.read, m.unread = time.Now(), nil
		if u, failed := documents.Unread[id.Key()]; failed {
			m.unread = &u
			if u.Absent {
				m.cluster = nil
				m.forgetNetwork()
				delete(c.s.Clusters, id.Key())
			}
			continue
		}
		before := m.cluster
		m.cluster, m.incomplete = documents.Cluster(id), false
		if before != nil || fromTable(c.configs, id) {
			m.cluster = m.cluster.Leaving(before)
		}
		if before != nil && elsewhere(before, m.cluster) {
			m.forgetNetwork()
		}
		if c.routed(id, m.cluster) && m.cluster.UsesAKSVNet() {
			ownSubnets = append(ownSubnets, id)
		}
	}
	if len(ownSubnets) == 0 {
		return nil
	}
	c.recall()
	if err := c.read(ctx, c.s.Snapshot, inventory.Wanted{AKSSubnets: ownSubnets}); err != nil {
		return err
	}
	for _, id := range ownSubnets {
		m := c.mem.clusters[id.Key()]
		m.aksSubnets = c.s.Known(id).AKSSubnets // the previous ones if they could not be listed
		_, m.incomplete = c.s.Unread[m.cluster.NodeGroup().Key()]
	}
	return nil
}

// elsewhere reports whether a cluster has bring-your-own subnets, before and now, and shares none:
// it was deleted and created again.
func elsewhere(before, now *inventory.Cluster) bool {
	old := before.ExistingSubnets()
	for _, id := range now.ExistingSubnets() {
		if slices.ContainsFunc(old, id.Equal) {
			return false
		}
	}
	return len(old) > 0 && len(now.ExistingSubnets()) > 0
}

// allSilent reports whether Azure answered for none of the resources.
func allSilent(s *inventory.Snapshot, ids []arm.ID) (last inventory.Unread, silent bool) {
	for _, id := range ids {
		u, failed := s.Unread[id.Key()]
		if !failed || u.Status != 0 {
			return u, false
		}
		last = u
	}
	return last, len(ids) > 0
}

// observeTables finds the clusters' route tables, reads what that takes, and reads all tables.
func (c *check) observeTables(ctx context.Context) error {
	if err := c.recallTables(ctx); err != nil {
		return err
	}
	sources, err := c.discover(ctx)
	if err != nil {
		return err
	}
	if err := c.read(ctx, c.s.Snapshot,
		inventory.Wanted{Tables: observe.Tables(c.s.Snapshot, c.configs, sources)}); err != nil {
		return err
	}
	c.readNodes(ctx) // last: they may be newer than what was read
	return c.share()
}

// discover finds the clusters' route tables, reads what that takes, and notes what the activity log
// and lists have shown.
//
// A log that shows no write of a cluster's is forgotten once an association has identified the
// table: it is minutes late, and is asked again if the association is lost or replaced.
func (c *check) discover(ctx context.Context) ([]arm.ID, error) {
	defer func() {
		for i := range c.configs {
			m := c.mem.clusters[keyOf(c.configs[i])]
			if d := plan.Discover(c.s, &c.configs[i], c.taken); d.Table != "" && !d.Doubtful &&
				len(m.found.Written) == 0 {
				m.asked = time.Time{}
			}
		}
	}()
	return observe.Sources(ctx, c.s, c.configs, c.taken,
		func(ctx context.Context, want inventory.Wanted) error {
			err := c.read(ctx, c.s.Snapshot, want)
			for _, id := range slices.Concat(want.Written, want.Managed) {
				failed, passing := c.unanswered(id)
				if err == nil && !passing {
					m := c.mem.clusters[id.Key()]
					m.asked, m.found, m.refused = time.Now(), c.s.Known(id), failed
				}
			}
			return err
		})
}

// unanswered reports whether the activity log, or the list of managed tables, could not be read,
// and whether the reason is transient. The next check asks again then, instead of treating the
// answer as empty.
func (c *check) unanswered(cluster arm.ID) (failed, passing bool) {
	scopes := []arm.ID{arm.ID("/subscriptions/" + cluster.Subscription())}
	if doc := c.s.Cluster(cluster); doc != nil {
		scopes = append(scopes, doc.NodeGroup())
		for _, subnet := range c.s.NodeSubnetIDs(doc) {
			scopes = append(scopes, arm.ID("/subscriptions/"+subnet.Subscription()))
		}
	}
	for _, id := range scopes {
		if u, unread := c.s.Unread[id.Key()]; unread {
			failed, passing = true, passing || u.Transient()
		}
	}
	return failed, passing
}

// outdated are the findings that an old document of the cluster can explain: a pool was added
// since, or the cluster has left kubenet, and its table with it.
var outdated = []finding.Code{finding.SourceHop, finding.SourceEmpty, finding.TableMissing,
	finding.TableUnknown}

// doubted returns the clusters with findings that may be due to old documents.
func (c *check) doubted(p plan.Plan) []arm.ID {
	var ids []arm.ID
	for _, f := range p.Findings {
		if !slices.Contains(outdated, f.Code) {
			continue
		}
		for _, config := range c.configs {
			id := idOf(config)
			if config.Metadata.Name == f.Cluster &&
				time.Since(c.mem.clusters[id.Key()].read) >= retryCluster {
				ids = append(ids, id)
			}
		}
	}
	return inventory.SortIDs(ids)
}

// forget makes the next check read the documents of clusters again.
func (c *check) forget(ids []arm.ID) {
	for _, id := range ids {
		c.mem.clusters[id.Key()].read = time.Time{}
	}
}
