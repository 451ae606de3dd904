package iac

import (
	"fmt"
	"strings"
	"unicode"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. Operators write the objects in an order that no file shows. So all writes of a
// subnet's property are collected, and judged together.

// manifestSubnet is a subnet with the writes of one of its properties.
type manifestSubnet struct {
	place    Place
	property inventory.Property
	writes   []manifestWrite
}

// manifestWrite is one write of a subnet.
type manifestWrite struct {
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
	return arm.ID("/subscriptions/" + idPart(subscription, "{subscription}") +
		"/resourceGroups/" + idPart(group, "{resource-group}") +
		"/providers/" + arm.TypeVNet + "/" + idPart(vnet, "{network}") + "/subnets/" +
		idPart(name, "{subnet}"))
}

// idPart returns a name in an ID. A name that no ID can have is shown as unknown.
func idPart(name, missing string) string {
	if name == "" {
		return missing
	}
	if _, err := arm.ParseID("/subscriptions/" + name); err != nil || strings.Contains(name, "/") {
		return unknownName(name)
	}
	return name
}

// write records a write of a subnet's property, first of all of its table.
func (m *manifests) write(id arm.ID, p inventory.Property, w manifestWrite) {
	s, table := m.byID[slot{id.Key(), p}], p == inventory.PropertyTable
	switch {
	case s != nil:
	case table && !m.room(len(m.reading.Subnets)), // or the subnet was left out
		!table && m.byID[slot{id.Key(), inventory.PropertyTable}] == nil:
		return
	default:
		s = &manifestSubnet{place: subnetPlace(string(id)), property: p}
		s.place.Address, s.place.File, s.place.Line = w.by.Address, w.by.File, w.by.Line
		m.subnets = append(m.subnets, s)
		m.byID[slot{id.Key(), p}] = s
		if table {
			m.reading.Subnets = append(m.reading.Subnets, s.place)
		}
	}
	s.writes = append(s.writes, w)
}

// mostOfAKind limits the subnets of the code, and the pools and gateways in them, because each is
// compared with each.
const mostOfAKind = 2000

// room reports whether one more of a kind is read after so many. If not, a note says so.
func (m *manifests) room(read int) bool {
	if read < mostOfAKind {
		return true
	}
	m.leftOut(Place{}, "there are more than %d subnets, pools or gateways, and not all of them "+
		"were checked", mostOfAKind)
	return false
}

// carrier adds a subnet that carries pods or reaches them.
func (m *manifests) carrier(id arm.ID, by Place, why string) {
	p := subnetPlace(string(id))
	if !p.ID.Is(arm.TypeSubnet) {
		m.note(by, true, "the subnet %s is not known, so what happens to it is unknown", id)
		return
	}
	if !m.room(len(m.reading.Carriers)) {
		return
	}
	p.Address, p.File, p.Line = by.Address, by.File, by.Line
	m.reading.Carriers = append(m.reading.Carriers, Carrier{Place: p, Why: why})
}

// judge turns the writes into effects. A subnet that carries pods must have a table. Nothing else
// follows from that.
func (m *manifests) judge(known []Carrier) {
	for _, s := range m.subnets {
		table := s.property == inventory.PropertyTable
		if e, lost := s.judge(table && m.carries(s.place, known)); lost {
			m.reading.put(e)
			continue
		}
		for _, w := range s.writes {
			if w.outcome == gives && w.maybe == "" && w.table != "" {
				m.reading.Associations = append(m.reading.Associations, Effect{
					What: s.place, By: w.by, Property: other(s.property), After: w.table,
					How: "the code names it"})
			}
		}
	}
}

// carries reports whether a subnet is known to need its table.
func (m *manifests) carries(p Place, known []Carrier) bool {
	for _, list := range [][]Carrier{known, m.reading.Carriers} {
		for _, carrier := range list {
			if carrier.isSubnet(p) && carrier.needs(inventory.PropertyTable) {
				return true
			}
		}
	}
	return false
}

// judge says what the writes do to a subnet's property. A write that certainly removes it counts
// before one that may.
func (s *manifestSubnet) judge(carries bool) (Effect, bool) {
	lost, given := -1, -1
	for i, w := range s.writes {
		switch w.outcome {
		case gives:
			given = i
		case strips, doubts:
			if lost < 0 || rank(w) >= rank(s.writes[lost]) {
				lost = i
			}
		case keeps, deletes: // neither; no object deletes a subnet
		}
	}
	if lost < 0 {
		return Effect{}, false
	}
	w := s.writes[lost]
	e := Effect{Verb: MayLose, What: s.place, By: w.by, How: w.how, Fix: w.fix,
		Property: other(s.property), Doubt: w.outcome == doubts || w.maybe != "" || w.never}
	if !e.Doubt && (carries || given >= 0) {
		e.Verb = Loses
	}
	if given >= 0 {
		e.How += "; " + s.writes[given].by.Address + " gives it one, and their order is undefined"
	}
	if w.maybe != "" {
		e.How += ", provided that " + w.maybe
	}
	return e, true
}

func rank(w manifestWrite) int {
	n := map[outcome]int{doubts: 0, strips: 2}[w.outcome]
	if w.maybe == "" {
		n++
	}
	return n
}

// nameFix returns a fix: the setting that must name the subnet's table (or other property), and the
// command that shows the present one.
func nameFix(where, setting string, at Place, p inventory.Property) string {
	return fmt.Sprintf("in %s: %s, with the %s that the subnet has: %s", where, setting, p.Noun(),
		showCommand(at, p))
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
