package diagnose

import (
	"slices"
	"testing"
)

// TestCount counts nodes and pods by their ranges, with the same rules as the findings.
func TestCount(t *testing.T) {
	count := func(w *world) Counts {
		w.c.Snapshot = w.snapshot()
		counts, read := w.c.Count(shop)
		if !read {
			t.Fatal("not read")
		}
		return counts
	}
	w := withPodSubnet(t).pod(2, false, "10.42.1.200").pod(2, true, nodeAddr(2)).pod(0,
		false).pod(1, false, "10.42.8.77")
	w.kube[shop.Key()].Pods[3].Name = "azure-cns-x7k2p"
	w.kube[shop.Key()].Pods[5].Node = "virtual-node"
	counts := count(w)
	if len(counts.Places) != 2 || counts.Waiting != 1 || counts.Astray != 1 ||
		len(counts.Nodes) != 3 {
		t.Fatalf("%+v", counts)
	}
	nodePlace, podPlace := counts.Places[0], counts.Places[1]
	if nodePlace.Kind != "node subnet" || nodePlace.Nodes != 3 || nodePlace.Host != 2 ||
		nodePlace.Outside != 0 || !slices.Contains(nodePlace.Agents, "azure-cns") {
		t.Errorf("%+v", nodePlace)
	}
	if podPlace.Kind != "pod subnet" || podPlace.Pods != 1 || podPlace.Outside != 1 ||
		podPlace.Usable != 1019 || podPlace.Used != 2 {
		t.Errorf("%+v", podPlace)
	}
	shared := count(onAzureCNI(t)).Places
	if len(shared) != 1 || shared[0].Pods != 1 || shared[0].Host != 1 {
		t.Errorf("%+v", shared)
	}
	if _, read := (Case{Snapshot: w.c.Snapshot}).Count(shop + "x"); read {
		t.Error("a cluster that was not read is counted")
	}
}
