package plan

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Stories for internal/trace/kernel, which sends packets through them (packets_test.go there): what
// the tables are before and after a check writes, and which of their routes deliver.

// packetStory is a check that writes, and the steps before it.
type packetStory struct {
	World         string
	Steps         []string
	Dual          bool
	Pods          [smallMost]int8 // 1 + the pod CIDR of the machine with each address, 0 for none
	Off           [smallMost]bool // the machine with each address is deallocated
	Before, After packetState
	Excepted      [smallTargets + 1][smallPrefixes]bool // what a check may make worse
}

// packetState has the targets, and then what the node subnet has.
type packetState struct {
	Hops     [smallTargets + 1][smallPrefixes]int8 // 1 + the number of the address, 0 for no route
	Delivers [smallTargets + 1][smallPrefixes]bool
}

func (s smallState) packets(w *smallWorld) (p packetState) {
	for i, off := range s.off {
		if off {
			s.machine[i] = 0
		}
	}
	for k, table := range append(s.target[:], s.nodes(w)) {
		for c, r := range table {
			if r.exists() {
				p.Hops[k][c] = int8(1 + r.address())
				p.Delivers[k][c] = s.delivers(c, r.hop(c)) || k < smallTargets &&
					s.arrives(w, c, r.hop(c))
			}
		}
	}
	return p
}

// packets walks until checks have written in so many different states.
func (e *explorer) packets(most int) (all []packetStory) {
	random := rand.New(rand.NewPCG(2, uint64(most)))
	known := map[any]bool{}
	for len(all) < most {
		s := e.w.inStep()
		var steps []string
		for range 8 {
			step := e.steps[random.IntN(len(e.steps))]
			before := s
			if s, _ = step.do(s); before == s {
				continue
			}
			steps = append(steps, step.name)
			told := packetStory{World: e.name, Dual: e.w.dual, Before: before.packets(e.w),
				After: s.packets(e.w)}
			for i, m := range s.machine {
				if m.exists() {
					told.Pods[m.address()], told.Off[m.address()] = int8(1+m.cidr()), s.off[i]
				}
			}
			key := [...]any{told.Pods, told.Off, told.Before, told.After}
			if !strings.Contains(step.name, "check reads") || told.Before == told.After ||
				known[key] {
				continue
			}
			known[key], told.Steps = true, slices.Clone(steps)
			seen := before.smallState
			if s.keeper[0].mistaken() {
				seen.own = e.w.start.own
			}
			for k := range e.w.targets {
				for c, r := range before.target[k] {
					told.Excepted[k][c] = seen.rewritten(c, r) || slices.Contains(before.ahead(), c)
				}
			}
			all = append(all, told)
		}
	}
	return all[:most]
}

// TestPackets writes ROUTEKEEPER_STORIES stories of each world, each in a line of its output.
func TestPackets(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("ROUTEKEEPER_STORIES"))
	out := json.NewEncoder(os.Stdout)
	if err != nil {
		n, out = 1, json.NewEncoder(io.Discard)
	}
	for name, w := range smallVariants() {
		e := &explorer{t: t, w: w.made(t), name: name, steps: w.allSteps()}
		for _, story := range e.packets(n) {
			if err := out.Encode(story); err != nil {
				t.Fatal(err)
			}
		}
	}
}
