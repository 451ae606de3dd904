package iac

import (
	"fmt"
	"strings"
	"unicode"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// codeReading builds the Reading of code that writes subnets in Azure one by one: Ansible tasks and
// manifests of Kubernetes operators.
type codeReading struct {
	reading *Reading
	subnets []*codeSubnet
	byID    map[slot]*codeSubnet
	budget  *budget
}

func newCodeReading(format Format, b *budget) *codeReading {
	return &codeReading{reading: &Reading{Format: format}, byID: map[slot]*codeSubnet{}, budget: b}
}

// budget limits what is read of all files together: it counts what may still be read. With aliases
// and defaults, little code can expand to a lot.
type budget struct {
	steps                      int // tasks, arguments and objects
	subnets, carriers, removed int
	full                       bool // something was left out
}

// mostSteps limits the steps. A folder with ten thousand tasks needs less than half of them.
const mostSteps = 250_000

// mostOfAKind limits the subnets of the code, the pools and gateways in them, and removed things,
// because each is compared with each.
const mostOfAKind = 2000

func newBudget() *budget {
	return &budget{steps: mostSteps, subnets: mostOfAKind, carriers: mostOfAKind,
		removed: mostOfAKind}
}

// take takes n steps, and returns false if not so many remain.
func (b *budget) take(n int) bool {
	b.steps -= n
	return b.steps >= 0
}

// codeSubnet is a subnet with the writes of one of its properties, in the order of the code.
type codeSubnet struct {
	place    Place
	property inventory.Property
	writes   []codeWrite
}

// codeWrite is one write of a subnet.
type codeWrite struct {
	by      Place
	outcome outcome
	table   string // or another property's value that it gives, "" if unknown
	// maybe says on what the write depends, if it may not happen. never is set if that applies even
	// to a subnet that is known to carry pods.
	maybe string
	never bool
	how   string
	fix   string
}

// subnetID returns the ID of a subnet. Unknown parts are words in braces.
func subnetID(subscription, group, vnet, name string) arm.ID {
	return arm.ID("/subscriptions/" + part(subscription, "{subscription}") +
		"/resourceGroups/" + part(group, "{resource-group}") +
		"/providers/" + arm.TypeVNet + "/" + part(vnet, "{network}") + "/subnets/" +
		part(name, "{subnet}"))
}

// part returns a name in an ID. A name that no ID can have is shown as unknown.
func part(name, missing string) string {
	if name == "" {
		return missing
	}
	if _, err := arm.ParseID("/subscriptions/" + name); err != nil || strings.Contains(name, "/") {
		return unknownName(name)
	}
	return name
}

// write records a write of a subnet's property, first of all of its table.
func (c *codeReading) write(id arm.ID, p inventory.Property, w codeWrite) {
	s, table := c.byID[slot{id.Key(), p}], p == inventory.PropertyTable
	switch {
	case s != nil:
	case table && !c.room(&c.budget.subnets), // or the subnet was left out
		!table && c.byID[slot{id.Key(), inventory.PropertyTable}] == nil:
		return
	default:
		s = &codeSubnet{place: subnetPlace(string(id)), property: p}
		s.place.Address, s.place.File, s.place.Line = w.by.Address, w.by.File, w.by.Line
		c.subnets = append(c.subnets, s)
		c.byID[slot{id.Key(), p}] = s
		if table {
			c.reading.Subnets = append(c.reading.Subnets, s.place)
		}
	}
	s.writes = append(s.writes, w)
}

// room reports whether one more of a kind is read. The first one that is not read is noted.
func (c *codeReading) room(left *int) bool {
	if *left > 0 {
		*left--
		return true
	}
	if !c.budget.full {
		c.note(Place{}, true, "there are more than %d subnets, pools, gateways or removed routes, "+
			"and not all of them were checked", mostOfAKind)
	}
	c.budget.full = true
	return false
}

// removes adds the removal of routes or of a cluster.
func (c *codeReading) removes(e Effect) {
	if c.room(&c.budget.removed) {
		c.reading.Effects = append(c.reading.Effects, e)
	}
}

func (c *codeReading) note(at Place, unknown bool, format string, args ...any) {
	c.reading.Notes = append(c.reading.Notes,
		Note{Place: at, Text: fmt.Sprintf(format, args...), Unknown: unknown})
}

// carrier adds a subnet that carries pods or reaches them.
func (c *codeReading) carrier(id arm.ID, by Place, why string) {
	p := subnetPlace(string(id))
	if !p.ID.Is(arm.TypeSubnet) {
		c.note(by, true, "the subnet %s is not known, so what happens to it is unknown", id)
		return
	}
	if !c.room(&c.budget.carriers) {
		return
	}
	p.Address, p.File, p.Line = by.Address, by.File, by.Line
	c.reading.Carriers = append(c.reading.Carriers, Carrier{Place: p, Why: why})
}

// judge turns the writes into effects. inOrder is set if the code's order is the order of writes. A
// subnet that carries pods must have a table. Nothing else follows from that.
func (c *codeReading) judge(inOrder bool, known []Carrier) {
	for _, s := range c.subnets {
		table := s.property == inventory.PropertyTable
		e, lost := s.judge(inOrder, table && c.carries(s.place, known))
		if lost {
			c.reading.put(e)
			continue
		}
		for i, w := range s.writes {
			if w.outcome == gives && w.maybe == "" && !w.never && w.table != "" &&
				(!inOrder || i == len(s.writes)-1) {
				c.reading.Given = append(c.reading.Given, Effect{What: s.place, By: w.by,
					Property: other(s.property), After: w.table, How: "the code names it"})
			}
		}
	}
}

// carries reports whether a subnet is known to need its table.
func (c *codeReading) carries(p Place, known []Carrier) bool {
	for _, list := range [][]Carrier{known, c.reading.Carriers} {
		for _, carrier := range list {
			if carrier.same(p) && carrier.needs(inventory.PropertyTable) {
				return true
			}
		}
	}
	return false
}

// judge says what the writes do to a subnet's property. A write that certainly removes it counts
// before one that may.
func (s *codeSubnet) judge(inOrder, carries bool) (Effect, bool) {
	lost, given := -1, -1
	for i, w := range s.writes {
		switch w.outcome {
		case gives:
			given = i
		case strips, deletes, doubts:
			if lost < 0 || rank(w) >= rank(s.writes[lost]) {
				lost = i
			}
		case keeps: // neither
		}
	}
	if lost < 0 {
		return Effect{}, false
	}
	w := s.writes[lost]
	e := Effect{What: s.place, By: w.by, How: w.how, Fix: w.fix, Property: other(s.property),
		Doubt: w.outcome == doubts || w.maybe != "" || w.never}
	switch {
	case w.outcome == deletes:
		e.Verb = Recreated
	case w.outcome == strips && inOrder && given > lost && s.writes[given].maybe == "":
		e.Verb, e.After = Flaps, s.writes[given].table
		e.How += "; " + s.writes[given].by.Address + " gives it one again"
	case !e.Doubt && (carries || given >= 0):
		e.Verb = Loses
	default:
		e.Verb = MayLose
	}
	if !inOrder && given >= 0 && w.outcome != deletes {
		e.How += "; " + s.writes[given].by.Address + " gives it one, and their order is undefined"
	}
	if w.maybe != "" {
		e.How += ", provided that " + w.maybe
	}
	return e, true
}

func rank(w codeWrite) int {
	n := map[outcome]int{doubts: 0, strips: 2, deletes: 4}[w.outcome]
	if w.maybe == "" {
		n++
	}
	return n
}

// nameFix returns a fix: the setting that must name the subnet's table (or other property), and the
// command that shows the present one.
func nameFix(where, setting string, at Place, p inventory.Property) string {
	return fmt.Sprintf("in %s: %s, with the %s that the subnet has: %s", where, setting, p.Noun(),
		ask(at, p))
}

// unknownName shows a value that is not known, as other formats show it: {subnet_name}. It can be
// part of an ID.
func unknownName(expression string) string {
	const longest = 40
	var text []rune // no more than is shown, because expressions can be long, and many
	space := false
	for _, r := range expression {
		switch {
		case r == ' ':
			space = len(text) > 0
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.,()[]'|", r):
			continue
		case space:
			text, space = append(text, ' '), false
		}
		if text = append(text, r); len(text) > longest {
			return "{" + string(text[:longest]) + "…}"
		}
	}
	return "{" + string(text) + "}"
}
