package plan

import (
	"strings"
	"testing"
)

// TestBentRoute: a node's route is changed to an address that no node has. It is reported as a lost
// route until it is correct again. If the node has the new address, the route is correct.
func TestBentRoute(t *testing.T) {
	bent := func(w *watch) {
		w.table(tableA, nodeRoute(0), nodeRoute(1),
			"aks-pool0-12345678-vmss000002____102442024 10.244.2.0/24 10.240.0.250")
		w.s.Table(tableA).ETag = "bent"
	}
	w := watched(t)
	w.sees("")
	bent(w)
	w.sees("")
	for range 3 {
		f := w.sees("node-without-route")
		if !strings.Contains(f.Message, "3 nodes, but pod routes to at most 2") ||
			len(f.Evidence) != 1 ||
			f.Evidence[0] != machine(2)+" (10.240.0.6): IPv4; its route leads to 10.240.0.250" {
			t.Errorf("%+v", f)
		}
	}
	w.routed(0, 1, 2).sees("")
	w.s.Learn(clusterA).NICs = nil
	if p := Make(w.s, w.configs); len(p.Need.NICs) > 0 {
		t.Error("the network interfaces are read although all is right")
	}

	w.nodes[machine(2)] = []string{"10.240.0.250"}
	bent(w)
	for range 3 {
		w.sees("")
	}
}

// TestMisledRoute: a node's route is bent to what is no node's address. The finding says where it
// leads.
func TestMisledRoute(t *testing.T) {
	const row = "aks-pool0-12345678-vmss000002____102442024"
	for _, hop := range []string{"Internet", "None"} {
		w := watched(t)
		w.sees("")
		w.table(tableA, nodeRoute(0), nodeRoute(1), row+" 10.244.2.0/24 "+hop)
		w.s.Table(tableA).ETag = "bent"
		w.sees("")
		f := w.sees("node-without-route")
		if len(f.Evidence) != 1 ||
			!strings.HasSuffix(f.Evidence[0], "its route "+row+" leads to "+hop) {
			t.Errorf("%s: %+v", hop, f)
		}
		homes := Homes(w.s, &w.configs[0], w.s.Table(tableA))
		if len(homes) != 3 || homes[2].Node != "aks-pool0-12345678-vmss000002" {
			t.Errorf("%s: the node has no home: %+v", hop, homes)
		}
	}
}
