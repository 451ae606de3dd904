package plan

import (
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/network"
)

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

var sixRoutes = []string{
	"own 192.168.0.0/16 10.1.0.4",
	"n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6",
	"n3 10.244.3.0/24 10.240.0.7", "n4 10.244.4.0/24 10.240.0.8", "n5 10.244.5.0/24 10.240.0.9",
}

const deleteFour = `
	delete gw-rt n2 10.244.2.0/24>10.240.0.6 -
	delete gw-rt n3 10.244.3.0/24>10.240.0.7 -
	delete gw-rt n4 10.244.4.0/24>10.240.0.8 -
	delete gw-rt n5 10.244.5.0/24>10.240.0.9 -`

func TestBrakeOnManyDeletes(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n8 10.244.8.0/24 10.240.0.20").table(gateway, sixRoutes...)
	const add = "create gw-rt n8 - 10.244.8.0/24>10.240.0.20\n"

	p := w.expect(add, "deletes-held")
	if len(p.NeedNICs) != 1 || !p.NeedNICs[0].Equal(clusterA) {
		t.Errorf("NeedNICs %v, want the cluster", p.NeedNICs)
	}
	if f := p.Findings[0]; !strings.Contains(f.Message, "4 of the 6 routes of cluster shop would go, more than 50 %") || len(f.Evidence) != 4 {
		t.Errorf("finding %+v", f)
	}

	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.20")
	p = w.expect(deleteFour+"\n"+add, "")
	if len(p.NeedNICs) != 0 {
		t.Error("asks for the NICs again")
	}

	// One that contradicts holds all of them back; what is to be added goes on.
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.7", "10.240.0.20")
	p = w.expect(add, "deletes-held")
	if f := p.Findings[0]; len(f.Evidence) != 1 || !strings.Contains(f.Evidence[0], "instance 10.240.0.7") {
		t.Errorf("evidence %q, want the NIC that holds 10.240.0.7", f.Evidence)
	}

	w.s.Learn(clusterA).NICs = &network.NICs{Failed: "AuthorizationFailed"}
	p = w.expect(add, "deletes-held")
	if !strings.Contains(p.Findings[0].Message, "could not be read: AuthorizationFailed") {
		t.Error(p.Findings[0].Message)
	}

	// An address that the cluster's table routes another prefix to belongs to a new node, if the table can be believed: it
	// may be an old version of it, in which the same addresses had other prefixes, and is believed once it has stood a while.
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n8 10.244.8.0/24 10.240.0.7")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.7")
	w.expect("create gw-rt n8 - 10.244.8.0/24>10.240.0.7", "deletes-held")
	w.s.Learn(clusterA).Steady = true
	w.expect(deleteFour+"\ncreate gw-rt n8 - 10.244.8.0/24>10.240.0.7", "")
}

func TestBrakePercentage(t *testing.T) {
	w := shop(t)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6").table(gateway, sixRoutes...)
	three := `
		delete gw-rt n3 10.244.3.0/24>10.240.0.7 -
		delete gw-rt n4 10.244.4.0/24>10.240.0.8 -
		delete gw-rt n5 10.244.5.0/24>10.240.0.9 -`
	w.expect(three, "") // half is not more than half
	percent := func(n int) { w.configs[0].Spec.MaxDeletePercent = &n }
	percent(49)
	w.expect("", "deletes-held")
	percent(0)
	w.expect("", "deletes-held")
	percent(100)
	w.table(tableA, "n0 10.244.0.0/24 10.240.0.4")
	w.expect("delete gw-rt n1 10.244.1.0/24>10.240.0.5 -"+deleteFour, "")
}

func TestBrakeOnEmptySource(t *testing.T) {
	w := shop(t)
	w.s.Learn(clusterA).LastTable = tableA // as seen before
	w.table(tableA, "egress 0.0.0.0/0 10.1.0.4").table(gateway, sixRoutes...)
	hundred := 100
	w.configs[0].Spec.MaxDeletePercent = &hundred // an empty source is never believed, whatever the percentage
	p := w.expect("", "deletes-held\nsource-empty")
	if !strings.Contains(p.Findings[0].Message, "the own table of cluster shop reads empty") {
		t.Error(p.Findings[0].Message)
	}
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.7", "10.240.0.8", "10.240.0.9")
	w.expect("", "deletes-held\nsource-empty")
	// Lists that show no NIC at all prove nothing while the pools have nodes: a list shows only what one may see.
	w.nics(clusterA)
	w.expect("", "deletes-held\nsource-empty")
	w.nics(clusterA, "10.240.0.200", "10.240.0.201") // of three
	if p := w.expect("", "deletes-held\nsource-empty"); !strings.Contains(strings.Join(p.Findings[0].Evidence, "\n"), "pool pool0 has 3 nodes, and network interfaces of 2 are seen") {
		t.Errorf("%q", p.Findings[0].Evidence)
	}
	w.nics(clusterA, "10.240.0.200", "10.240.0.201", "10.240.0.202")
	w.expect("delete gw-rt n0 10.244.0.0/24>10.240.0.4 -\ndelete gw-rt n1 10.244.1.0/24>10.240.0.5 -"+deleteFour, "source-empty")
	w.nics(clusterA)
	w.s.Clusters[clusterA.Key()].Pools[0].Count = 0
	w.expect("delete gw-rt n0 10.244.0.0/24>10.240.0.4 -\ndelete gw-rt n1 10.244.1.0/24>10.240.0.5 -"+deleteFour, "")
}

// TestBrakeCannotBeWorn: with half of the nodes really gone and the table wrong about the rest, no sequence of rounds may
// get from the one to the other.
func TestBrakeCannotBeWorn(t *testing.T) {
	w := shop(t)
	w.s.Learn(clusterA).LastTable = tableA // as seen before
	w.table(tableA, "egress 0.0.0.0/0 10.1.0.4").table(gateway, sixRoutes...)
	w.nics(clusterA, "10.240.0.4", "10.240.0.5")
	for range 3 {
		w.expect("", "deletes-held\nsource-empty")
	}
}

// TestBrakeRemembers: an old version of the table was put back. Its routes are added, and then the living ones, still held
// back, are no more than half; they stay all the same.
func TestBrakeRemembers(t *testing.T) {
	w := shop(t)
	w.table(tableA, "o0 10.244.10.0/24 10.240.0.10", "o1 10.244.11.0/24 10.240.0.11").table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5")
	p := w.expect(`
		create gw-rt o0 - 10.244.10.0/24>10.240.0.10
		create gw-rt o1 - 10.244.11.0/24>10.240.0.11`, "deletes-held")
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "o0 10.244.10.0/24 10.240.0.10", "o1 10.244.11.0/24 10.240.0.11")
	w.s.Learn(clusterA).Held = map[string]bool{p.Held[0].Target.Key(): true}
	w.expect("", "deletes-held")
	w.nics(clusterA, "10.240.0.10", "10.240.0.11", "10.240.0.12")
	w.expect("delete gw-rt n0 10.244.0.0/24>10.240.0.4 -\ndelete gw-rt n1 10.244.1.0/24>10.240.0.5 -", "")
}

// TestBrakeAtTheFirstLook: what was held back before the program started is not known, so the nodes are asked before
// anything is deleted; where they cannot be, the percentage counts as ever.
func TestBrakeAtTheFirstLook(t *testing.T) {
	w := shop(t)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6", "n3 10.244.3.0/24 10.240.0.7")
	w.s.Learn(clusterA).Fresh = map[string]bool{gateway.Key(): true}
	if p := w.expect("", "deletes-held"); len(p.NeedNICs) != 1 || len(p.Held) != 1 || len(p.Released) != 0 {
		t.Errorf("NeedNICs %v, held %v, released %v", p.NeedNICs, p.Held, p.Released)
	}
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.7")
	w.expect("", "deletes-held")
	const gone = "delete gw-rt n3 10.244.3.0/24>10.240.0.7 -"
	w.s.Learn(clusterA).NICs = &network.NICs{Failed: "AuthorizationFailed"}
	w.expect(gone, "")
	w.nics(clusterA, "10.240.0.4", "10.240.0.5", "10.240.0.6")
	if p := w.expect(gone, ""); len(p.Held) != 0 || len(p.Released) != 1 {
		t.Errorf("held %v, released %v", p.Held, p.Released)
	}
	// A target that cannot be looked at is neither held nor released.
	delete(w.s.Tables, tableA.Key())
	w.s.Learn(clusterA).LastTable = tableA
	w.s.Unread[tableA.Key()] = network.Unread{ID: tableA, Status: 403, Code: "AuthorizationFailed"}
	if p := w.expect("", "read-failed"); len(p.Held) != 0 || len(p.Released) != 0 {
		t.Errorf("held %v, released %v", p.Held, p.Released)
	}
}

// TestBrakeIsPerTarget: one target far behind does not hold back another.
func TestBrakeIsPerTarget(t *testing.T) {
	w := shop(t)
	w.configs = nil
	w.config("shop", clusterA, gateway, hub)
	w.table(gateway, "n0 10.244.0.0/24 10.240.0.4", "n1 10.244.1.0/24 10.240.0.5", "n2 10.244.2.0/24 10.240.0.6", "n3 10.244.3.0/24 10.240.0.7")
	w.table(hub, sixRoutes[4:]...)
	w.expect(`
		delete gw-rt n3 10.244.3.0/24>10.240.0.7 -
		create hub-rt n0____102440024 - 10.244.0.0/24>10.240.0.4
		create hub-rt n1____102441024 - 10.244.1.0/24>10.240.0.5
		create hub-rt n2____102442024 - 10.244.2.0/24>10.240.0.6`, "deletes-held")
}
