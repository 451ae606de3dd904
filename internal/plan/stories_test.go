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
			smallRoute(cidr, smallRow(1+name*3+address)))
	}
	const older = "the cloud provider writes another route, from an older read"
	const stopped, passes = "the cloud provider stops, or starts", "time passes"
	for _, story := range [][]string{
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
		// An address goes to the next machine, and an older table comes back.
		{"machine 0 leaves", passes, check, "machine 1 has 10.240.0.4 and 10.244.1.0/24", check,
			own(0, 0, 0), check, again, check, passes, check},
		// A node has another address, while nothing else changes.
		{"machine 0 has 10.240.0.6 and 10.244.0.0/24", check, passes, check, again, check},
	} {
		w, s, steps := newSmallWorld(t), smallStory{}, smallSteps()
		s = inStep(w)
		for n, name := range story {
			i := slices.IndexFunc(steps, func(step smallStep) bool { return step.name == name })
			if i < 0 {
				t.Fatalf("there is no step %q", name)
			}
			var rules []string
			s, rules = steps[i].do(w, s)
			if rules = append(rules, s.heals(w)...); len(rules) > 0 {
				t.Errorf("%q, step %d:\n%s\n%s", story, n, strings.Join(rules, "\n"), s)
			}
		}
	}
}
