package plan

import (
	"net/netip"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestFork: reading into a fork, or remembering in it, does not change the facts of an earlier
// plan.
func TestFork(t *testing.T) {
	w := shop(t)
	w.remembered(clusterA).LastTable = tableA
	fork := w.s.Fork()
	fork.Memory[clusterA.Key()] = &Remembered{LastTable: tableB}
	fork.Memory[clusterB.Key()] = &Remembered{LastTable: tableB}
	delete(fork.Tables, tableA.Key())
	fork.Learn(clusterA).NICs = &inventory.NICs{Failed: "no"}
	if got := w.s.Memory.Of(clusterA).LastTable; got != tableA ||
		w.s.Memory.Of(clusterB).LastTable != "" {
		t.Errorf("the original remembers %s, and %+v", got, w.s.Memory.Of(clusterB))
	}
	if nics := w.s.Known(clusterA).NICs; w.s.Table(tableA) == nil ||
		nics != nil && nics.Failed != "" {
		t.Errorf("the original has lost its table, or has %+v", nics)
	}
}

// TestNodePrefixesEver: the prefixes of removed subnets count, each once, and are not added to the
// snapshot.
func TestNodePrefixesEver(t *testing.T) {
	w := shop(t)
	cluster := w.s.Cluster(clusterA)
	present := w.s.NodePrefixes(cluster)
	gone := netip.MustParsePrefix("10.9.0.0/24")
	w.remembered(clusterA).Subnets = append(slices.Clone(present), gone)
	want := inventory.SortPrefixes(append(slices.Clone(present), gone))
	if got := w.s.NodePrefixesEver(cluster); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := w.s.NodePrefixes(cluster); !slices.Equal(got, present) {
		t.Errorf("the snapshot shows %v, want %v", got, present)
	}
}
