package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestRowsSettle: a route of the cluster's table settles when no other prefix has led to its next
// hop for five minutes, separately for each next hop. In a table known only from before a restart
// none does.
func TestRowsSettle(t *testing.T) {
	start := time.Now()
	m := &Remembered{}
	note := func(after time.Duration, routes ...string) []string {
		table := map[netip.Prefix]inventory.Route{}
		for _, r := range routes {
			prefix, hop, _ := strings.Cut(r, " ")
			table[netip.MustParsePrefix(prefix)] = inventory.Route{Hop: netip.MustParseAddr(hop)}
		}
		m.noteRows(table, start.Add(after))
		var out []string
		for prefix, row := range m.settled(start.Add(after)) {
			out = append(out, prefix.String()+" "+row.Hop.String())
		}
		slices.Sort(out)
		return out
	}
	expect := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("settled %q, want %q", got, want)
		}
	}
	const a, b, odd = "10.244.0.0/24 10.42.1.4", "10.244.1.0/24 10.42.1.5", "10.244.9.0/24 " +
		"10.42.1.5"
	expect(note(0, a, b, odd))
	expect(note(4*time.Minute, a, b, odd))
	expect(note(5*time.Minute, a, b), a) // b has one prefix less
	expect(note(9*time.Minute, a, b), a)
	expect(note(10*time.Minute, a, b), a, b)
	expect(note(11*time.Minute, b), b)
	expect(note(12*time.Minute, a, b), b) // a was absent
}

// TestUnreadTarget: a check cannot read a target. Then another writer leads a copy to a firewall.
// That is undone, as if each check had read the target.
func TestUnreadTarget(t *testing.T) {
	w := copiedShop(t, strings.Split(copiesOfThree, "|")...).wrote(clusterA, tableA)
	next := func() {
		planner := New(w.s, w.configs)
		w.remembered(clusterA).InSync = planner.inSync(clusterA, planner.Plan())
	}
	next()
	delete(w.s.Tables, gateway.Key())
	w.s.Unread[gateway.Key()] = inventory.Unread{ID: gateway, Status: 403}
	next()
	delete(w.s.Unread, gateway.Key())
	w.table(gateway, "n0____102440024 10.244.0.0/24 10.240.0.4",
		"n1____102441024 10.244.1.0/24 10.1.0.4", "n2____102442024 10.244.2.0/24 10.240.0.6")
	w.expect("update gw-rt n1____102441024 10.244.1.0/24>10.1.0.4 10.244.1.0/24>10.240.0.5", "")
}
