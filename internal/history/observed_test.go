package history

import (
	"testing"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

func onlyObserved(changes ...plan.Change) []plan.Outcome {
	var all []plan.Outcome
	for _, c := range changes {
		all = append(all, plan.Outcome{Change: c, State: plan.Observed})
	}
	return all
}

// TestObserved: an observed change is recorded when it is new and when it is no longer needed, also
// by the next program, and not in between.
func TestObserved(t *testing.T) {
	p := newPast(t)
	check := func(s *inventory.Snapshot, changes ...plan.Change) {
		r := p.start()
		r.OnlyObserved = onlyObserved(changes...)
		p.Record(r, s)
	}
	for range 3 {
		check(seenWith(""), associate())
	}
	p.Close()
	p = open1(t, p.path)
	check(seenWith(""), associate())
	r := p.start() // of another cluster
	r.Managed, r.Of = []string{"shop", "play"}, []string{"play"}
	p.Record(r, inventory.NewSnapshot())
	check(inventory.NewSnapshot()) // the subnet could not be read
	check(seenWith(""), associate())
	check(seenWith(table)) // another writer repaired it
	check(seenWith(table))
	check(seenWith(""), associate())
	expect(t, p.checks(), "observed associate", "obsolete associate", "observed associate")

	// The config enforces now, and the change is made: that is recorded once.
	r = p.start()
	p.Intend(r, []plan.Change{associate()})
	r.Changes = done(associate())
	p.Settle(r.Changes)
	p.Record(r, seenWith(""))
	check(seenWith(table))
	expect(t, p.checks(), "observed associate", "obsolete associate", "observed associate",
		"done associate")
	if all := read(t, p.path, Query{Kind: KindObserved}); len(all) != 2 {
		t.Errorf("%d checks of the kind observed, want 2", len(all))
	}
}

// TestNextProgram: the next program checks the clusters one after the other. The findings of a
// cluster that it has not checked yet are neither resolved nor new.
func TestNextProgram(t *testing.T) {
	p := newPast(t)
	shop := finding.New(finding.AssociationLost, "shop", string(nodes), "lost")
	play := finding.New(finding.TargetDrift, "play", string(target), "differs")
	check := func(of []string, findings ...finding.Finding) {
		r := p.start()
		r.Managed, r.Of, r.Findings = []string{"shop", "play"}, of, findings
		p.Record(r, inventory.NewSnapshot())
	}
	check(nil, shop, play)
	p.Close()
	p = open1(t, p.path)
	check([]string{"shop"}, shop)
	check([]string{"play"}, shop, play)
	check([]string{"shop"}, shop, play)
	expect(t, p.checks(), "new association-lost; new target-drift")
	p.Close()
	p = open1(t, p.path)
	check([]string{"play"})
	check([]string{"shop"}, shop)
	expect(t, p.checks(), "new association-lost; new target-drift", "resolved target-drift")
}

// TestObservedUnproven: a delete that lacks its proof for a while is not news.
func TestObservedUnproven(t *testing.T) {
	p := newPast(t)
	stale := plan.Change{Verb: plan.Delete, Resource: target, Cluster: "shop", Route: "node9",
		Why: "gone",
		Old: &plan.Value{AddressPrefix: "10.244.9.0/24", NextHopType: "None"}}
	raw := `{"id":"` + string(target) +
		`","properties":{"routes":[{"name":"node9","properties":{"addressPrefix":"10.244.9.0/24","nextHopType":"None"}}]}}`
	there, err := inventory.DecodeRouteTable([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	s := inventory.NewSnapshot()
	s.Tables[target.Key()] = there
	for i := range 6 {
		r := p.start()
		if i%2 == 0 {
			r.OnlyObserved = onlyObserved(stale)
		}
		p.Record(r, s)
	}
	expect(t, p.checks(), "observed delete node9")
	s.Tables[target.Key()] = there.WithRoutes(nil)
	p.Record(p.start(), s)
	expect(t, p.checks(), "observed delete node9", "obsolete delete node9")
}
