package plan

import "fmt"

// remembers returns what is wrong in what a check remembers of routes that were in sync: they were,
// and nothing else is forgotten than what the cluster's table or a target was seen to lack.
func (q smallQuestion) remembers(a *smallAnswer) (rules []string) {
	hop := func(r smallRow, known bool) int8 {
		if !known {
			return 0
		}
		return int8(1 + r.address())
	}
	if q.mistaken() || a.memory.mistaken() {
		return nil
	}
	for k := range q.target {
		for c, r := range q.target[k] {
			was, now, row := q.inSync[k][c], a.memory.inSync[k][c], q.own[c]
			left := q.sourceRead() && hop(row, row.node() && q.reads != readNoSubnet) != was ||
				q.reads != readNoTarget && hop(a.after.target[k][c], true) != was
			if now != was && (now != 0 && now != hop(r, r.exists()) || now == 0 && !left) {
				rules = append(rules,
					fmt.Sprintf("true: remembers %d, not %d, for %s", now, was, smallCIDR[c]))
			}
		}
	}
	return rules
}

// history is what a keeper recalls: a table that the node subnet does not have now may be wrong.
func (q smallQuestion) history(s smallStory) smallMemory {
	m := q.smallMemory
	switch {
	case !m.started || m.table == tableUnknown:
	case m.mistaken() && s.on != hasCopy:
		m.table = copyRecalled
	case !m.mistaken() && s.on != hasOwn:
		m.table = tableRecalled
	}
	return m
}

// mistaken reports whether a keeper takes the copy for the cluster's table.
func (m smallMemory) mistaken() bool { return m.table == copyLikely || m.table == copyRecalled }

// What a keeper that starts again has: an older history does not say that a table is proven.
const (
	withoutHistory = iota
	olderHistory
	withHistory
)

// restarts forgets what the history does not have.
func (m *smallMemory) restarts(history int) {
	was := *m
	*m = smallMemory{started: true, machines: was.machines, offs: was.offs, rows: was.rows}
	if history != withoutHistory {
		m.table = was.table
	}
	if history == olderHistory && m.table == tableProven {
		m.table = tableLikely
	}
}

// smallRules says what the rules ask that begin the messages of TestEveryState and TestEveryStep.
var smallRules = map[string]string{
	"bends":    "a new or changed route leads to the machine that it names",
	"delivers": "no write takes away a route that delivers",
	"gone":     "the copy of a machine that is gone is deleted, in the end",
	"guards":   "a subnet gets the cluster's own table, and no other",
	"heals":    "in the end, all is right, or a finding names what is not",
	"kept":     "a target with UpsertOnly loses no route",
	"rest":     "in the end, nothing is left to do",
	"right":    "in the end, the target has the routes of the machines that are there",
	"room":     "a target does not grow over its limit",
	"said":     "a finding names what fails to deliver and can be seen",
	"soon":     "a copy that leads to a wrong machine is replaced in the next check",
	"stable":   "a plan leads to a state with nothing to do",
	"stale":    "a route that stays without a machine is named by a finding",
	"theirs":   "another owner's route stays",
	"true":     "what a finding says, and what is remembered, is so (everyclaim_test.go)",
	"twice":    "no prefix and no name is there twice",
}
