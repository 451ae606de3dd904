package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestStories replays stories, which TestEveryStep reaches only with many states: the attacks that
// once bent or deleted a route, and what they become after a restart or with old reads.
func TestStories(t *testing.T) {
	const check, again = "a check reads all; its writes succeed: true", "the keeper starts again"
	own := func(name, cidr, address int) string {
		return fmt.Sprintf("a person sets in the cluster's table, for %s: %s", smallCIDR[cidr],
			smallRoute(cidr, aRow(name, address)))
	}
	const older = "the cloud provider writes another route, from an older read"
	const stripped = "another component strips the node subnet"
	const copied = "a person gives the node subnet a copy of the table"
	const stopped, passes = "the cloud provider stops, or starts", "time passes"
	stories := map[string][][]string{"small": {
		// Packets to the wrong node arrive by a person's row, which is not copied.
		{own(byPerson, 1, 1), older, check, passes, check,
			"a person sets in the target, for 10.244.1.0/24: " + smallRoute(1, aRow(0, 0)), check},
		// Two next hops are exchanged.
		{own(0, 0, 1), own(1, 1, 0), check, passes, check},
		{own(0, 0, 1), own(1, 1, 0), again, check, passes, check},
		{own(0, 0, 1), own(1, 1, 0), "a check with old reads", check, again, check},
		// A stranger's row in the cluster's table.
		{own(byPerson, 0, 2), check, passes, check, again, check},
		// The node has another row while the cloud provider cannot write.
		{stopped, own(0, 1, 0), check, passes, check, again, passes, check},
		{stopped, own(0, 1, 0), own(0, 0, 0), check, passes, check},
		// The pod CIDRs of two nodes are exchanged, and the cloud provider has not noticed yet.
		{own(0, 1, 0), own(1, 0, 1), check, older, check, passes, check},
		{own(0, 1, 0), own(1, 0, 1), older, check, again, check, passes, check},
		{own(0, 1, 0), older, check},
		// The log shows a write of the cloud provider's that the table as read does not have yet.
		{"a person gives the row of 10.244.0.0/24 the prefix 10.244.1.0/24",
			"a check reads no interface; its writes succeed: true", own(1, 1, 0), passes,
			"a check with an old read of the cluster's table"},
		// An address goes to the next machine, and an older table comes back.
		{"machine 0 leaves", passes, check, "machine 1 has 10.240.0.4 and 10.244.1.0/24", check,
			own(0, 0, 0), check, again, check, passes, check},
		// A node has another address, while nothing else changes.
		{"machine 0 has 10.240.0.6 and 10.244.0.0/24", check, passes, check, again, check},
		// The keeper starts while the node subnet lacks its table.
		{"all machines get other pod CIDRs", stripped, again},
		// The copy of a node that is gone happens to lead to the pods' next machine.
		{"machine 0 leaves", "a person exchanges the next hops of 10.244.0.0/24 and 10.244.1.0/24",
			stopped, "machine 1 has 10.240.0.4 and 10.244.0.0/24"},
	}, "three": {
		// A copy delivers, by the name of a node that is gone; then a row is rewritten.
		{own(0, 1, 2), "machine 0 has 10.240.0.6 and 10.244.0.0/24",
			"a person sets in the target, for 10.244.1.0/24: " + smallRoute(1, aRow(2, 1)), check},
		// A write waits. Meanwhile a node has another address, and the next node has its old one.
		{"machine 1 leaves", "machine 2 has 10.240.0.5 and 10.244.2.0/24",
			"the cloud provider writes", check, passes, check,
			"machine 0 has 10.240.0.6 and 10.244.0.0/24",
			"the cloud provider loses 10.244.0.0/24 to a 412",
			"machine 1 has 10.240.0.4 and 10.244.1.0/24", "the cloud provider writes",
			"the cloud provider loses 10.244.1.0/24 to a 412",
			"a person sets in the target, for 10.244.1.0/24: " + smallRoute(1, aRow(1, 0)),
			"a person sets in the target, for 10.244.2.0/24: -",
			"a check writes late, by a new read of the cluster's table"},
	}, "runbook": {
		// A route is gone when a check reads the target, and then a person writes it again.
		{"machine 0 leaves", "a person empties the target",
			"a check reads not the node subnet; its writes succeed: true",
			"a person sets in the target, for 10.244.0.0/24: vip-0 10.244.0.0/24 10.240.0.4"},
	}, "room": {
		// Packets to the wrong node arrive, because it sends them on. The table is full.
		{"machine 0 has 10.240.0.4 and 10.244.2.0/24", "a person sets in the target, for " +
			"10.244.2.0/24: " + smallRoute(2, aRow(1, 1)), check},
	}, "unnamed": {
		// A cluster without nodes, and a copy of its table on the node subnet.
		{"machine 0 leaves", "machine 1 leaves", copied, again + ", without its history"},
		{"machine 0 leaves", "machine 1 leaves", "the cluster's table is deleted", copied},
		{copied, again, check, again + ", without its history", check},
		{copied, "the activity log forgets who wrote the table", again, check},
	}}
	for name, all := range stories {
		for _, story := range all {
			playStory(t, smallVariants()[name].made(t), story)
		}
	}
}

func playStory(t *testing.T, w *smallWorld, story []string) {
	s, steps := w.inStep(), w.allSteps()
	for n, name := range story {
		i := slices.IndexFunc(steps, func(step smallStep) bool { return step.name == name })
		if i < 0 {
			t.Fatalf("there is no step %q", name)
		}
		var rules []string
		s, rules = steps[i].do(s)
		if rules = append(rules, s.heals(w)...); len(rules) > 0 {
			broke("story "+rules[0], fmt.Sprintf("in %d steps:", n+1))
			t.Errorf("%q, step %d:\n%s\n%s", story, n, strings.Join(rules, "\n"), s)
		}
	}
}
