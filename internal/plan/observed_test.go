package plan

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// observed are the changes that Observe withholds, as changes writes them.
func observed(p Plan) string { return changes(Plan{Changes: p.OnlyObserved}) }

// TestObserved: Observe withholds what enforcing would do, including deletes with their proofs. The
// plan contains none of it, and a diagnosis does not report it.
func TestObserved(t *testing.T) {
	w := shop(t)
	w.subnet(nodesA, "10.240.0.0/24", "")
	w.remembered(clusterA).LastTable = tableA
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.99", "n1 10.244.1.0/24 10.240.0.5",
		"n9 10.244.9.0/24 10.240.0.9", "n8 10.244.8.0/24 10.240.0.6")
	w.configs = Observing(w.configs)
	p := w.expect("", "association-lost\ntarget-drift")
	want := `update gw-rt n0 10.244.0.0/24>10.240.0.99 10.244.0.0/24>10.240.0.4
create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6
delete gw-rt n9 10.244.9.0/24>10.240.0.9 -
associate vnet/shop-nodes - shop-rt`
	if got := observed(p); got != want { // n8 is not stale: a node has its next hop
		t.Errorf("observed:\n%s\nwant:\n%s", got, want)
	}
	if p := Watch(w.s, w.configs); len(p.OnlyObserved) > 0 {
		t.Errorf("a diagnosis plans %+v", p.OnlyObserved)
	}
	// Without NICs nothing is proven: they are requested, and nothing is claimed.
	w.s.Learn(clusterA).NICs = nil
	p = Make(w.s, w.configs)
	if got := observed(p); strings.Contains(got, "delete") || strings.Contains(got, "update") ||
		len(p.Need.NICs) != 1 {
		t.Errorf("without NICs: %s; needs %v", got, p.Need.NICs)
	}
	// Remembered NICs prove no delete, but are enough to show one.
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	w.remembersNICs(p.Asked[clusterA.Key()])
	if p = Make(w.s, w.configs); observed(p) != want || !p.Need.Empty() {
		t.Errorf("with NICs from before: %s; needs %v", observed(p), p.Need)
	}
}

// TestObservedRest: a config that observes in part reports that part.
func TestObservedRest(t *testing.T) {
	w := shop(t)
	w.table(hub)
	w.configs = nil
	w.config("shop", clusterA, gateway, hub).Spec.Targets[1].Policy = v1alpha1.PolicyObserve
	p := w.expect(`
		create gw-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create gw-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create gw-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "target-drift")
	if got := observed(p); strings.Count(got, "create hub-rt") != 3 ||
		strings.Contains(got, "gw-rt") {
		t.Errorf("observed:\n%s", got)
	}
}

// TestObservedRepair: a route that another writer changed stays known as the cluster's until it is
// restored, even if nothing restores it.
func TestObservedRepair(t *testing.T) {
	w := shop(t).wrote(clusterA, tableA)
	w.configs = Observing(w.configs)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5",
		"n2 10.244.2.0/24 10.240.0.6")
	planner := New(w.s, w.configs)
	w.remembered(clusterA).InSync = planner.inSync(clusterA, planner.Plan())
	w.table(gateway, "n0 10.244.0.0/24 10.1.0.4", "n1 10.244.1.0/24 10.240.0.5",
		"n2 10.244.2.0/24 10.240.0.6")
	for range 3 {
		planner = New(w.s, w.configs)
		p := planner.Plan()
		if len(p.OnlyObserved) != 1 || !p.OnlyObserved[0].Repair {
			t.Fatalf("observed %+v", p.OnlyObserved)
		}
		w.remembered(clusterA).InSync = planner.inSync(clusterA, p)
	}
}

// TestObservedProperty: a config that only observes plans nothing. It withholds what it would plan
// otherwise, except for routes left behind, whose proof takes more reads.
func TestObservedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := randomWorld(t)
		enforce, _ := enforcing(w.configs)
		for i := range enforce { // so that the two have the same policies
			for j := range enforce[i].Spec.Targets {
				enforce[i].Spec.Targets[j].Policy = v1alpha1.PolicySync
			}
		}
		p := New(w.s, Observing(enforce)).Plan()
		if len(p.Changes) > 0 {
			t.Fatalf("it plans %+v", p.Changes)
		}
		full := among(w.s, enforce, TakenBy(enforce))
		full.onlyShown = true
		if want := full.Plan().Changes; len(want)+len(p.OnlyObserved) > 0 &&
			!reflect.DeepEqual(p.OnlyObserved, want) {
			t.Fatalf("observed %+v\nwant %+v", p.OnlyObserved, want)
		}
	})
}
