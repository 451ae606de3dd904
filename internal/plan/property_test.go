package plan

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// randomWorld draws one or two clusters with their tables, and two targets in any state: correct
// routes, stale ones, wrong next hops, unmanaged routes that resemble pod routes, taken names.
func randomWorld(t *rapid.T) *world {
	w := &world{t: new(testing.T), s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	prefix := rapid.Custom(func(t *rapid.T) string {
		return rapid.OneOf(
			rapid.Map(rapid.IntRange(0, 9), func(i int) string {
				return fmt.Sprintf("10.244.%d.0/24", i)
			}),
			rapid.SampledFrom([]string{"10.244.0.0/16", "10.244.3.0/25", "10.244.2.0/23",
				"0.0.0.0/0", "10.245.1.0/24", "192.168.0.0/16", "Storage"}),
		).Draw(t, "prefix")
	})
	hop := rapid.OneOf(
		rapid.Map(rapid.IntRange(4, 12), func(i int) string {
			return fmt.Sprintf("10.240.0.%d", i)
		}),
		rapid.SampledFrom([]string{"10.250.0.4", "10.250.0.5", "10.1.0.4", "Internet", "None"}),
	)
	name := rapid.Custom(func(t *rapid.T) string {
		style := rapid.SampledFrom([]string{"n%d", "n%d", "n%d____x", "vip-%d"}).Draw(t, "style")
		return fmt.Sprintf(style, rapid.IntRange(0, 9).Draw(t, "node"))
	})
	routes := func(label string) []string {
		var out []string
		names, prefixes := map[string]bool{}, map[string]bool{}
		for range rapid.IntRange(0, 10).Draw(t, label) {
			n, p, h := name.Draw(t, "name"), prefix.Draw(t, "prefix"), hop.Draw(t, "hop")
			if names[n] || prefixes[p] {
				continue
			}
			names[n], prefixes[p] = true, true
			out = append(out, n+" "+p+" "+h)
		}
		return out
	}
	w.cluster(clusterA, "10.244.0.0/16", nodesA).subnet(nodesA, "10.240.0.0/24",
		rapid.SampledFrom([]arm.ID{tableA, "", hub, gateway}).Draw(t, "association"))
	w.table(tableA, routes("source")...).table(gateway, routes("gateway")...).table(hub,
		routes("hub")...)
	w.config("shop", clusterA, gateway, hub)
	if rapid.Bool().Draw(t, "second cluster") {
		w.cluster(clusterB,
			rapid.SampledFrom([]string{"10.244.0.0/16", "10.245.0.0/16", "10.244.0.0/20"}).Draw(t,
				"podCIDR"), nodesB)
		w.subnet(nodesB, rapid.SampledFrom([]string{"10.250.0.0/24", "10.240.0.8/29"}).Draw(t,
			"nodes"), tableB).table(tableB, routes("second source")...)
		w.config("play", clusterB, gateway)
	}
	for i := range w.configs {
		spec := &w.configs[i].Spec
		if rapid.Bool().Draw(t, "named") {
			spec.RouteTableID = string(map[string]arm.ID{"shop": tableA,
				"play": tableB}[w.configs[i].Metadata.Name])
		}
		for j := range spec.Targets {
			spec.Targets[j].Policy = rapid.SampledFrom([]v1alpha1.Policy{v1alpha1.PolicySync,
				v1alpha1.PolicySync, v1alpha1.PolicyUpsertOnly, v1alpha1.PolicyObserve}).Draw(t,
				"policy")
			spec.Targets[j].MaxRoutes = rapid.SampledFrom([]int{3, 8, 400}).Draw(t, "limit")
		}
		if rapid.Bool().Draw(t, "NICs read") {
			var held []string
			for i := range 18 {
				address := fmt.Sprintf("10.%d.0.%d", 240+i/9*10, i%9+4)
				if w.s.NodePrefixes(w.s.Cluster(arm.ID(spec.ClusterID)))[0].Contains(
					netip.MustParseAddr(address)) && rapid.Bool().Draw(t, "alive") {
					held = append(held, address)
				}
			}
			w.nics(arm.ID(spec.ClusterID), held...)
		}
		read, known := w.s.Learn(arm.ID(spec.ClusterID)), w.remembered(arm.ID(spec.ClusterID))
		read.LogRead, read.ManagedRead = true, true
		known.Settled, known.Had = map[netip.Prefix]Settled{}, map[Pair]bool{}
		known.InSync = map[string]map[netip.Prefix]netip.Addr{gateway.Key(): {}}
		cluster := w.s.Cluster(arm.ID(spec.ClusterID))
		if cluster != nil && rapid.Bool().Draw(t, "written by the cluster") {
			w.lastWriter(tableA, cluster.Principals...)
			w.lastWriter(tableB, cluster.Principals...)
		}
		for _, id := range []arm.ID{tableA, tableB, gateway} {
			if w.s.Table(id) == nil {
				continue
			}
			for _, r := range w.s.Table(id).Routes() {
				if !r.Prefix.IsValid() || !r.Hop.IsValid() || !rapid.Bool().Draw(t, "remembered") {
					continue
				}
				switch id {
				case gateway:
					known.Had[Pair{Prefix: r.Prefix, Hop: r.Hop}] = true
				default:
					known.Settled[r.Prefix] = Settled{Hop: r.Hop}
					known.InSync[gateway.Key()][r.Prefix] = r.Hop
				}
			}
		}
	}
	return w
}

// TestProperties: whatever the tables contain, applying the plan gives the desired table; unmanaged
// routes stay byte for byte; no living node's route is deleted; no route changes to an address
// without a NIC; routes that complete NIC lists lack are deleted; no cluster's route table is
// written; nothing is doubled or overfilled; planning again gives nothing.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := randomWorld(t)
		before := map[string]*inventory.RouteTable{}
		for k, v := range w.s.Tables {
			before[k] = v
		}
		p := Make(w.s, w.configs)
		if again := Make(w.s, w.configs); !reflect.DeepEqual(p, again) {
			t.Fatalf("the same input gives another plan:\n%+v\n%+v", p, again)
		}
		for _, c := range p.Changes {
			if c.Resource.Equal(tableA) || c.Resource.Equal(tableB) {
				t.Fatalf("writes a cluster's route table: %+v", c)
			}
		}
		for _, desired := range p.Desired.Tables {
			now := before[desired.ID.Key()]
			raw, err := inventory.SetRoutes(now.Raw, desired.Routes)
			if err != nil {
				t.Fatal(err)
			}
			table, err := inventory.DecodeRouteTable(raw)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := byName(table.Routes()), apply(now.Routes(), p.Changes,
				desired.ID); !reflect.DeepEqual(got, want) {
				t.Fatalf("the changes lead to %v, the desired table is %v", want, got)
			}
			checkTable(t, w, now, table)
			checkProofs(t, w, now, table)
			w.s.Tables[desired.ID.Key()] = table
		}
		for _, a := range p.Desired.Associations {
			w.subnet(a.Subnet, w.s.Subnet(a.Subnet).Prefixes[0].String(), a.Value)
		}
		if again := Make(w.s, w.configs); len(again.Changes) > 0 {
			t.Fatalf("planning again gives more:\n%s\nfirst:\n%s", changes(again), changes(p))
		}
	})
}

// byName is a table's content, without the bytes.
func byName(routes []inventory.Route) map[string]string {
	out := map[string]string{}
	for _, r := range routes {
		out[strings.ToLower(r.Name)] = r.Destination() + ">" + r.NextHop()
	}
	return out
}

// apply is a second, naive way to carry out changes.
func apply(routes []inventory.Route, changes []Change, table arm.ID) map[string]string {
	out := byName(routes)
	for _, c := range changes {
		if !c.Resource.Equal(table) {
			continue
		}
		if c.New == nil {
			delete(out, strings.ToLower(c.Route))
		} else {
			out[strings.ToLower(c.Route)] = c.New.AddressPrefix + ">" + c.New.NextHopIPAddress
		}
	}
	return out
}

// checkTable compares a target before and after with a second version of the rules.
func checkTable(t *rapid.T, w *world, now, then *inventory.RouteTable) {
	after := map[string]inventory.Route{}
	prefixes := map[netip.Prefix]bool{}
	for _, r := range then.Routes() {
		if prefixes[r.Prefix] && r.Prefix.IsValid() {
			t.Fatalf("%s holds %s twice", then.ID, r.Prefix)
		}
		prefixes[r.Prefix] = true
		after[r.Name] = r
	}
	added := 0 // a route that replaces another one of the same prefix takes no room
	for _, r := range then.Routes() {
		if !slices.ContainsFunc(now.Routes(), func(o inventory.Route) bool {
			return strings.EqualFold(o.Name, r.Name) || o.Prefix == r.Prefix
		}) {
			added++
		}
	}
	limit := 400
	for _, c := range w.configs {
		for _, target := range c.Spec.Targets {
			if now.ID.Equal(arm.ID(target.RouteTableID)) {
				limit = min(limit, target.MaxRoutes)
			}
		}
	}
	if added > 0 && len(then.Routes()) > limit {
		t.Fatalf("%d routes, %d of them added, in a table for %d", len(then.Routes()), added, limit)
	}
	for _, r := range now.Routes() {
		if mayBeOurs(w, r) {
			continue
		}
		if !bytes.Equal(after[r.Name].Raw, r.Raw) {
			t.Fatalf("the unmanaged route %s became %s", r.Raw, after[r.Name].Raw)
		}
	}
	if paths, err := arm.Differences(now.Raw, then.Raw); err != nil ||
		len(paths) > 0 && !strings.HasPrefix(paths[0], "properties.routes") {
		t.Fatalf("other fields changed: %v %v", paths, err)
	}
}

// mayBeOurs reports whether a route in a target can be a cluster's: by its addresses and its name;
// because a cluster's table has or had it; or because it was correct, with a node's name.
func mayBeOurs(w *world, r inventory.Route) bool {
	named := !strings.HasPrefix(r.Name, "vip-")
	byAddress := false
	for _, side := range []struct{ pods, nodes string }{{"10.244.", "10.240.0."},
		{"10.244.", "10.250.0."}, {"10.245.", "10.240.0."}, {"10.245.", "10.250.0."}} {
		byAddress = byAddress || strings.HasPrefix(r.Destination(), side.pods) &&
			strings.HasSuffix(r.Destination(), "/24") && strings.HasPrefix(r.NextHop(), side.nodes)
	}
	known := false
	for _, c := range w.configs {
		known = known ||
			w.s.Memory.Of(arm.ID(c.Spec.ClusterID)).Had[Pair{Prefix: r.Prefix, Hop: r.Hop}]
	}
	for _, id := range []arm.ID{tableA, tableB} {
		if table := w.s.Table(id); table != nil {
			for _, own := range table.Routes() {
				known = known || own.Prefix == r.Prefix && own.SameHop(r)
				if own.Prefix == r.Prefix && (named || strings.EqualFold(own.Name, r.Name)) {
					return true
				}
			}
		}
	}
	return byAddress && (named || known)
}

// checkProofs checks each lost route against its proof.
func checkProofs(t *rapid.T, w *world, now, then *inventory.RouteTable) {
	owned := func(pods netip.Prefix) bool {
		return slices.ContainsFunc(w.configs, func(c v1alpha1.ClusterRoutes) bool {
			return w.s.Cluster(arm.ID(c.Spec.ClusterID)).PodCIDRs[0].Overlaps(pods)
		})
	}
	// held: a node has it, of a cluster with these pods and this target; of any cluster if none has
	// them.
	held := func(pods netip.Prefix, hop netip.Addr) bool {
		for _, c := range w.configs {
			cluster := w.s.Cluster(arm.ID(c.Spec.ClusterID))
			targets := slices.ContainsFunc(c.Spec.Targets, func(t v1alpha1.Target) bool {
				return then.ID.Equal(arm.ID(t.RouteTableID))
			})
			if nics := w.s.Known(cluster.ID).NICs; targets && nics != nil &&
				nics.Holder[hop] != "" && (cluster.PodCIDRs[0].Overlaps(pods) || !owned(pods)) {
				return true
			}
		}
		return false
	}
	// a cluster's table leads to the next hop with another prefix, and the cluster wrote it last
	moved := func(r inventory.Route) bool {
		for _, c := range w.configs {
			for prefix, row := range w.s.Memory.Of(arm.ID(c.Spec.ClusterID)).Settled {
				if len(w.s.Writers) > 0 && row.Hop == r.Hop && prefix != r.Prefix {
					return true
				}
			}
		}
		return false
	}
	listed := func(c v1alpha1.ClusterRoutes) bool {
		nics := w.s.Known(arm.ID(c.Spec.ClusterID)).NICs
		return nics != nil && len(nics.Holder) >= 3
	}
	// The proven delete of one cluster's copy and the create of another's are one update if both
	// have the same name.
	replaced := func(r inventory.Route) bool {
		return len(w.configs) > 1 && !held(r.Prefix, r.Hop) &&
			slices.ContainsFunc(w.configs, listed)
	}
	// The cluster whose table had it has no node there; another cluster's may have the address.
	left := func(r inventory.Route) bool {
		return slices.ContainsFunc(w.configs, func(c v1alpha1.ClusterRoutes) bool {
			id := arm.ID(c.Spec.ClusterID)
			return listed(c) && w.s.Known(id).NICs.Holder[r.Hop] == "" &&
				w.s.Memory.Of(id).Had[Pair{Prefix: r.Prefix, Hop: r.Hop}]
		})
	}
	after := map[netip.Prefix]inventory.Route{}
	for _, r := range then.Routes() {
		after[r.Prefix] = r
	}
	for _, r := range now.Routes() {
		switch n, there := after[r.Prefix]; {
		case !r.Prefix.IsValid() || there && n.SameHop(r):
		// a restored copy can get its row's name back: packets see one update
		case there && !held(r.Prefix, n.Hop) && !replaced(r):
			t.Fatalf("%s led to %s, and leads to %s, which no node has", r.Prefix, r.NextHop(),
				n.NextHop())
		case there, moved(r), left(r):
		case held(r.Prefix, r.Hop):
			t.Fatalf("%s to %s is deleted, and its node is there", r.Prefix, r.NextHop())
		case !slices.ContainsFunc(w.configs, listed):
			t.Fatalf("%s to %s is deleted, and nothing proves it", r.Prefix, r.NextHop())
		}
	}
	spec := w.configs[0].Spec
	if len(w.configs) > 1 || spec.RouteTableID != string(tableA) || !listed(w.configs[0]) {
		return
	}
	for _, target := range spec.Targets {
		if target.Policy != v1alpha1.PolicySync || !then.ID.Equal(arm.ID(target.RouteTableID)) {
			continue
		}
		wanted := PodRoutes(w.s, &w.configs[0], w.s.Table(tableA))
		for _, r := range then.Routes() {
			_, wants := wanted[r.Prefix]
			if !wants && !held(r.Prefix, r.Hop) &&
				within([]netip.Prefix{mustPrefix("10.240.0.0/24")}, r.Hop) &&
				strings.HasPrefix(r.Destination(), "10.244.") &&
				strings.HasSuffix(r.Destination(), "/24") && strings.HasPrefix(r.Name, "aks-") {
				t.Fatalf("%s to %s stays, and no NIC has it", r.Prefix, r.NextHop())
			}
		}
	}
}

// TestInSync: the fast path for a target in sync agrees with the slow path, which decides about
// each route. It must not be taken if the slow path would report anything.
func TestInSync(t *testing.T) {
	inSync := 0
	rapid.Check(t, func(t *rapid.T) {
		w := randomWorld(t)
		if rapid.Bool().Draw(t, "in sync") { // most random worlds are not
			for _, desired := range Make(w.s, w.configs).Desired.Tables {
				raw, err := inventory.SetRoutes(w.s.Table(desired.ID).Raw, desired.Routes)
				if err != nil {
					t.Fatal(err)
				}
				w.rawTable(string(raw))
			}
		}
		p := New(w.s, w.configs)
		for _, id := range p.tableIDs() {
			plan := func(decide func(*target)) (*target, planning) {
				w := p.planning()
				target := &target{w: &w, now: p.s.Table(id), limit: inventory.DefaultRouteLimit}
				for _, part := range p.targets[id.Key()] {
					target.clusters = append(target.clusters, w.targetCluster(part, id))
					target.limit = min(target.limit, part.maxRoutes)
				}
				decide(target)
				return target, w
			}
			short := false
			if plan(func(t *target) { short = t.alreadyInSync() }); !short {
				continue
			}
			inSync++
			long, found := plan((*target).decide)
			same := slices.EqualFunc(long.routes, p.s.Table(id).Routes(),
				func(a, b inventory.Route) bool {
					return reflect.DeepEqual(a, b)
				})
			noted := len(long.changes) + len(long.blocked) + len(found.found) + len(found.asked)
			for _, s := range long.clusters {
				noted += len(s.drift) + len(s.retained) + len(s.undeleted) + len(s.unfollowed)
			}
			if !same || noted > 0 || !found.need.Empty() {
				t.Fatalf("%s is taken to be in sync, but: %+v, %+v, %+v", id.Short(), long,
					found.found, found.need)
			}
		}
	})
	if inSync == 0 {
		t.Error("no target was in sync")
	}
}

// TestInSyncShared: a route that two clusters want alike is reported, although there is nothing to
// do.
func TestInSyncShared(t *testing.T) {
	w := &world{t: t, s: Facts{Snapshot: inventory.NewSnapshot(), Memory: Memory{}}}
	route := "n1 10.244.1.0/24 10.240.0.4"
	w.cluster(clusterA, "10.244.0.0/16", nodesA).subnet(nodesA, "10.240.0.0/24",
		tableA).table(tableA, route)
	w.cluster(clusterB, "10.244.0.0/16", nodesB).subnet(nodesB, "10.240.0.0/24",
		tableB).table(tableB, route)
	w.table(gateway, route).wrote(clusterA, tableA).wrote(clusterB, tableB)
	w.config("shop", clusterA, gateway)
	w.config("play", clusterB, gateway)
	p := Make(w.s, w.configs)
	reported := slices.ContainsFunc(p.Findings, func(f finding.Finding) bool {
		return f.Code == finding.ClustersOverlap && f.Severity == finding.Error &&
			len(f.Evidence) == 1
	})
	if len(p.Changes) > 0 || !reported {
		t.Errorf("%+v, %+v", p.Changes, p.Findings)
	}
}
