package keeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/observe"
	"routekeeper.dev/routekeeper/internal/plan"
)

// observation holds what a check knows, reads it in the right order, and has the results of earlier
// checks. It writes nothing and chooses no changes.
type observation struct {
	k       *Keeper
	w       *worker
	configs []v1alpha1.ClusterRoutes // of the group
	mem     *groupMemory
	taken   plan.Taken
	poll    bool // no event or person waits for it
	patient bool // reads have no deadline
	urgent  bool // a repair may wait for its reads, so a poll does not back off
	began   time.Time
	calls   *azure.Calls
	life    context.Context // the keeper's context: the worker can be replaced during a write
	called  atomic.Bool     // a call was made: a poll of absent clusters makes none

	fresh time.Time // answers to earlier calls are not used
	until time.Time // when reading ends

	s plan.Facts // what was read and is remembered
	// subnetsRead is called as soon as the subnets were read, because a lost association must not
	// wait for the tables.
	subnetsRead func(context.Context)
}

// read reads into a snapshot, until the check's deadline for reads.
func (o *observation) read(ctx context.Context, s *inventory.Snapshot, w inventory.Wanted) error {
	if w.Empty() {
		return nil
	}
	o.called.Store(true)
	options := azure.ReadOptions{NotBefore: o.fresh, Poll: o.poll && !o.urgent, Calls: o.calls,
		Life: o.life}
	if !o.patient {
		options.Wait = max(time.Until(o.until), 250*time.Millisecond).Round(100 * time.Millisecond)
	}
	return o.k.azure.Read(ctx, s, w, options)
}

// missed reports whether a repair may wait for something that earlier checks could not read: the
// cluster's node subnets or its route table.
func (o *observation) missed() bool {
	for _, config := range o.configs {
		m := o.mem.clusters[keyOf(config)]
		sourceMissed := o.mem.trouble > 0 && m.cluster != nil && m.cluster.Kubenet() &&
			m.LastTable == ""
		if m.subnetsMissed() || sourceMissed {
			return true
		}
	}
	return false
}

// observeSubnets reads subnets, and clusters whose documents are old. It repairs lost associations.
// If all clusters are known from earlier checks, it reads their documents concurrently.
func (o *observation) observeSubnets(ctx context.Context) error {
	o.s = plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{},
		Paused: map[string]bool{}}
	o.s.Taken = time.Now()
	for _, config := range o.configs {
		o.s.Paused[config.Metadata.Name] = o.k.opts.clusterPause(config.Metadata.Name) != ""
	}
	o.urgent = o.missed()
	due, known := o.due()
	documents := inventory.NewSnapshot()
	read := make(chan error, 1)
	go func() { read <- o.read(ctx, documents, inventory.Wanted{Clusters: due}) }()
	concurrently := known && !o.patient
	if concurrently {
		o.recall()
		if err := o.readSubnets(ctx); err != nil {
			<-read
			return err
		}
		o.subnetsRead(ctx)
	}
	if err := <-read; err != nil {
		return err
	}
	if err := o.noteClusters(ctx, documents, due); err != nil {
		return err
	}
	o.recall()
	if err := o.readSubnets(ctx); err != nil {
		return err
	}
	if !concurrently || len(due) > 0 {
		o.subnetsRead(ctx)
	}
	return ctx.Err()
}

// due returns the clusters whose documents must be read, and whether all clusters are known from
// earlier checks.
func (o *observation) due() (due []arm.ID, known bool) {
	known = true
	for _, config := range o.configs {
		id := idOf(config)
		m := o.mem.clusters[id.Key()]
		age := o.k.opts.ClusterInterval
		if m.unread != nil || m.incomplete {
			age = min(age, retryCluster)
		}
		if m.absent(o.began) {
			age = m.againIn
		}
		if m.subnetsMissed() || m.absent(o.began) && !o.poll {
			age = 0
		}
		if m.read.IsZero() || time.Since(m.read) >= age {
			due = append(due, id)
		}
		known = known && m.cluster != nil
	}
	return due, known
}

// recall adds remembered values to the facts.
func (o *observation) recall() {
	for _, config := range o.configs {
		id := idOf(config)
		m := o.mem.clusters[id.Key()]
		if m.nicsDueAt.IsZero() && !o.patient {
			m.nicsDueAt = time.Now().Add(rand.N(o.k.nicsEvery()))
		}
		m.recall(o.s, id)
	}
	o.recallAbsent()
}

// readSubnets reads node subnets and guarded subnets that were not read yet. It returns errReplaced
// if the group has changed.
func (o *observation) readSubnets(ctx context.Context) error {
	subnets := observe.Subnets(o.s.Snapshot, o.configs)
	if err := o.read(ctx, o.s.Snapshot, inventory.Wanted{Subnets: subnets}); err != nil {
		return err
	}
	return o.share()
}

// share notes what the clusters use. It returns errReplaced if that merges the group with another.
func (o *observation) share() error {
	uses := map[string]used{}
	for _, config := range o.configs {
		u := used{resources: append(configured(config), seenUses(o.s, config)...)}
		if cluster := o.s.Cluster(idOf(config)); cluster != nil {
			u.nodeGroup = cluster.NodeGroup().Key()
		}
		slices.Sort(u.resources)
		u.resources = slices.Compact(u.resources)
		uses[keyOf(config)] = u
	}
	if o.k.share(o.w, uses) {
		return errReplaced
	}
	return nil
}

// noteClusters stores the documents of the clusters that were due.
func (o *observation) noteClusters(ctx context.Context, documents *inventory.Snapshot,
	due []arm.ID) error {
	known := false // whether any cluster is known
	for _, m := range o.mem.clusters {
		known = known || m.cluster != nil
	}
	if u, silent := allSilent(documents, due); silent && !known && !o.k.runs() {
		return fmt.Errorf("reading cluster %s: %s", u.ID.Short(), u.Reason())
	}
	var ownSubnets []arm.ID
	for _, id := range due {
		m := o.mem.clusters[id.Key()]
		m.read, m.unread = time.Now(), nil
		if u, failed := documents.Unread[id.Key()]; failed {
			m.unread = &u
			if m.againIn = o.k.absent.note(id.Key(), u.Absent); u.Absent {
				m.cluster = nil
				m.forgetNetwork()
				delete(o.s.Clusters, id.Key())
			}
			continue
		}
		o.k.absent.note(id.Key(), false)
		before := m.cluster
		m.cluster, m.incomplete = documents.Cluster(id), false
		if before != nil || fromTable(o.configs, id) {
			m.cluster = m.cluster.Leaving(before)
		}
		if before != nil && recreated(before, m.cluster) {
			m.forgetNetwork()
		}
		if o.routed(id, m.cluster) && m.cluster.UsesAKSVNet() {
			ownSubnets = append(ownSubnets, id)
		}
	}
	if len(ownSubnets) == 0 {
		return nil
	}
	o.recall()
	if err := o.read(ctx, o.s.Snapshot, inventory.Wanted{AKSSubnets: ownSubnets}); err != nil {
		return err
	}
	for _, id := range ownSubnets {
		m := o.mem.clusters[id.Key()]
		m.aksSubnets = o.s.Known(id).AKSSubnets // the previous ones if they could not be listed
		_, m.incomplete = o.s.Unread[m.cluster.NodeGroup().Key()]
	}
	return nil
}

// recreated reports whether a cluster has bring-your-own subnets, before and now, but none that it
// had before: it was deleted and created again.
func recreated(before, now *inventory.Cluster) bool {
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

// observeTables finds the clusters' route tables, reads the evidence for that, and reads all
// tables.
func (o *observation) observeTables(ctx context.Context) error {
	if err := o.recallTables(ctx); err != nil {
		return err
	}
	sources, err := o.discover(ctx)
	if err != nil {
		return err
	}
	if err := o.read(ctx, o.s.Snapshot,
		inventory.Wanted{Tables: observe.Tables(o.s.Snapshot, o.configs, sources)}); err != nil {
		return err
	}
	o.readNodes(ctx) // last: they may be newer than the other reads
	return o.share()
}

// discover finds the clusters' route tables, reads the evidence for that, and notes what the
// activity log and the lists show.
//
// Once an association has identified the table, it forgets a log that shows no write of the
// cluster. The log is minutes late, and is queried again if the association is lost or replaced. It
// keeps the log's answer for askAgain while a node lacks its route: otherwise every check would
// query.
func (o *observation) discover(ctx context.Context) ([]arm.ID, error) {
	defer func() {
		for i := range o.configs {
			m := o.mem.clusters[keyOf(o.configs[i])]
			if d := plan.Discover(o.s, &o.configs[i], o.taken); d.Table != "" && !d.Doubtful &&
				len(m.found.Written) == 0 && !m.Nodes.Lacking() {
				m.asked = time.Time{}
			}
		}
	}()
	return observe.Sources(ctx, o.s, o.configs, o.taken,
		func(ctx context.Context, want inventory.Wanted) error {
			err := o.read(ctx, o.s.Snapshot, want)
			for _, id := range slices.Concat(want.Written, want.Managed) {
				failed, passing := o.unanswered(id)
				if err == nil && !passing {
					m := o.mem.clusters[id.Key()]
					m.asked, m.found, m.refused = time.Now(), o.s.Known(id), failed
				}
			}
			return err
		})
}

// unanswered reports whether the activity log, or the list of managed tables, could not be read,
// and whether the reason is transient. If it is, the next check asks again, instead of treating the
// answer as empty.
func (o *observation) unanswered(cluster arm.ID) (failed, passing bool) {
	scopes := []arm.ID{cluster.SubscriptionID()}
	if doc := o.s.Cluster(cluster); doc != nil {
		scopes = append(scopes, doc.NodeGroup())
		for _, subnet := range o.s.NodeSubnetIDs(doc) {
			scopes = append(scopes, subnet.SubscriptionID())
		}
	}
	for _, id := range scopes {
		if u, unread := o.s.Unread[id.Key()]; unread {
			failed, passing = true, passing || u.Transient()
		}
	}
	return failed, passing
}

// outdated lists the findings that an old cluster document can explain: a pool was added since, or
// the cluster has left kubenet and lost its table.
var outdated = []finding.Code{finding.SourceHop, finding.SourceEmpty, finding.TableMissing,
	finding.TableUnknown}

// doubted returns the clusters with findings that may be due to old documents.
func (o *observation) doubted(p plan.Plan) []arm.ID {
	var ids []arm.ID
	for _, f := range p.Findings {
		if !slices.Contains(outdated, f.Code) {
			continue
		}
		for _, config := range o.configs {
			id := idOf(config)
			if config.Metadata.Name == f.Cluster &&
				time.Since(o.mem.clusters[id.Key()].read) >= retryCluster {
				ids = append(ids, id)
			}
		}
	}
	return inventory.SortIDs(ids)
}

// forget makes the next check read these clusters' documents again.
func (o *observation) forget(ids []arm.ID) {
	for _, id := range ids {
		o.mem.clusters[id.Key()].read = time.Time{}
	}
}
