package iac

import (
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// templateSubnet is a subnet with what a deployment does to it, one write after the other.
type templateSubnet struct {
	place  Place
	vnet   string // ID
	writes []subnetWrite
	// property is what the writes' outcomes are about.
	property inventory.Property
	// table is the final table, as far as it is known. kept means that it does not change. doubt
	// means that it is unknown.
	table       string
	kept, doubt bool
	// lost is the write that removes the table or the subnet, and verb its effect.
	lost *subnetWrite
	verb Verb
}

// outcome is the effect of a write on a subnet's table.
type outcome int

const (
	strips  outcome = iota // removes the table
	gives                  // writes a table
	keeps                  // writes the table that was read before
	doubts                 // is not known
	deletes                // deletes the whole subnet
)

// subnetWrite is one PUT that affects a subnet: of the subnet, or of its network with or without
// it.
type subnetWrite struct {
	by      *armtemplate.Resource
	outcome outcome
	table   string
	doubt   string
	subnet  *armtemplate.Object // its name and properties
	line    int
	file    string
}

// inline reports whether the write is of the network.
func (w subnetWrite) inline() bool { return strings.EqualFold(w.by.Type, arm.TypeVNet) }

// writes collects what the template writes, network by network, subnet by subnet.
func (t *armReading) writes() {
	t.each(arm.TypeSubnet, func(r *armtemplate.Resource) {
		vnet := r.ID[:max(0, strings.LastIndex(r.ID, "/subnets/"))]
		t.write(vnet, lastName(r.Name), r.Body, r, r.File, r.Line)
	})
	t.each(arm.TypeVNet, func(r *armtemplate.Resource) {
		t.vnets = append(t.vnets, r)
		t.network(r)
	})
}

func (t *armReading) network(r *armtemplate.Resource) {
	properties, isObject := r.Body.Get("properties").(*armtemplate.Object)
	if !isObject && r.Body.Get("properties") != nil {
		t.note(t.place(r), true, "its properties are unknown, so its subnets are unknown too")
		t.doubt(r.Body.Get("properties"))
		return
	}
	value := properties.Get("subnets")
	list, listed := value.([]any)
	switch unknown, is := value.(*armtemplate.Unknown); {
	case is && strings.EqualFold(unknown.Of, r.ID):
		return // it writes what it read
	case value != nil && !listed:
		t.doubt(value)
		t.note(t.place(r), true, "its list of subnets is unknown, so it is unknown which of them "+
			"keep a route table")
		return
	case value == nil && onlyOnce(r):
		return
	case value == nil && !plainVersion(r.APIVersion):
		t.note(t.place(r), true, "its api-version is not known: before "+subnetsKept+
			" a deployment deletes the subnets that it does not list")
		return
	case value == nil && r.APIVersion >= subnetsKept:
		return
	}
	named := map[string]bool{}
	for _, item := range list {
		subnet, is := item.(*armtemplate.Object)
		name := subnet.Text("name")
		if !is || name == "" {
			t.doubt(item)
			t.note(t.place(r), true, "one of its subnets is unknown")
			return
		}
		named[strings.ToLower(name)] = true
		line, file := subnet.Line, subnet.File
		if line == 0 {
			line, file = properties.LineOf("subnets"), r.File
		}
		t.write(r.ID, name, subnet, r, file, line)
	}
	if onlyOnce(r) {
		return
	}
	gone := func(s *templateSubnet) {
		s.writes = append(s.writes,
			subnetWrite{by: r, outcome: deletes, file: r.File, line: r.Line})
	}
	for _, s := range t.subnets {
		if strings.EqualFold(s.vnet, r.ID) && !named[strings.ToLower(s.place.Name)] {
			gone(s)
		}
	}
	for _, list := range [][]Carrier{t.reading.Carriers, t.options.Carriers} {
		for _, c := range list {
			p := subnetPlace(r.ID + "/subnets/" + c.Name)
			if c.isSubnet(p) && c.VNet != "" && !named[strings.ToLower(c.Name)] &&
				t.byID[p.ID.Key()] == nil {
				gone(t.subnet(r.ID, c.Name))
			}
		}
	}
	switch {
	case listed && len(list) == 0:
		t.note(t.place(r), true, "its list of subnets is empty: a deployment deletes the subnets "+
			"that the network has, which Azure refuses while they are in use: leave them out, at "+
			"api-version "+subnetsKept+" or later")
	case value == nil:
		t.note(t.place(r), true, fmt.Sprintf("at api-version %s a deployment deletes the subnets "+
			"of the network, because it lists none; Azure refuses that while they are in use: "+
			"use %s or later", r.APIVersion, subnetsKept))
	}
}

// onlyOnce reports whether a resource is only made if it does not exist, and never written again.
func onlyOnce(r *armtemplate.Resource) bool {
	once, _ := r.Body.Object("@options").Get("onlyIfNotExists").(bool)
	return once
}

// plainVersion reports whether an api-version is known.
func plainVersion(v string) bool { return len(v) >= len(subnetsKept) && v[0] >= '0' && v[0] <= '9' }

// subnet returns the subnet of a network, and creates it at first use.
func (t *armReading) subnet(vnet, name string) *templateSubnet {
	id := vnet + "/subnets/" + name
	s := t.byID[strings.ToLower(id)]
	if s == nil {
		s = &templateSubnet{place: subnetPlace(id), vnet: vnet, property: inventory.PropertyTable}
		t.subnets = append(t.subnets, s)
		t.byID[strings.ToLower(id)] = s
	}
	return s
}

// write records a PUT of a subnet with a body.
func (t *armReading) write(vnet, name string, body *armtemplate.Object, by *armtemplate.Resource,
	file string, line int) {
	s := t.subnet(vnet, name)
	w := subnetWrite{by: by, subnet: body, file: file, line: line}
	w.outcome, w.table, w.doubt = propertyIn(body, s.place.ID, s.property)
	if w.outcome == strips && onlyOnce(by) {
		w.outcome = keeps
	}
	t.doubt(body.Get("name"))
	if w.outcome == doubts {
		t.doubts = append(t.doubts, w.doubt)
	}
	if s.place.Address == "" || w.inline() {
		s.place.Address, s.place.File, s.place.Line = by.Address, file, line
	}
	s.writes = append(s.writes, w)
}

// others judges what the template does to the subnet's other properties. If a template writes an
// unknown value, that counts as a value.
func (t *armReading) others(s *templateSubnet) {
	for _, p := range inventory.Properties[1:] {
		view := &templateSubnet{place: s.place, vnet: s.vnet, property: p}
		for _, w := range s.writes {
			if w.subnet == nil { // deleted
				continue
			}
			w.outcome, w.table, w.doubt = propertyIn(w.subnet, s.place.ID, p)
			switch {
			case w.outcome == strips && onlyOnce(w.by):
				w.outcome = keeps
			case w.outcome == doubts:
				w.outcome = gives
			}
			view.writes = append(view.writes, w)
		}
		if len(view.writes) > 0 {
			t.judge(view)
		}
	}
}

// propertyIn reads a property, such as routeTable, of a subnet's body. null, an object without an
// ID and an empty one mean none.
func propertyIn(body *armtemplate.Object, subnet arm.ID, p inventory.Property) (is outcome, id,
	doubt string) {
	value := body.Get("properties")
	properties, _ := value.(*armtemplate.Object)
	if properties != nil {
		value = properties.Get(string(p))
	}
	o, isObject := value.(*armtemplate.Object)
	if isObject {
		value = o.Get("id")
	}
	switch v := value.(type) {
	case *armtemplate.Unknown:
		path := strings.TrimPrefix(strings.ToLower(v.Path), "properties.")
		own := path == "" || strings.HasPrefix(path, strings.ToLower(string(p)))
		if own && arm.ID(v.Of).Equal(subnet) {
			return keeps, "", ""
		}
		if isObject && v.Of == "" {
			return gives, "", ""
		}
		return doubts, "", v.Why
	case string, armtemplate.Opaque:
		text, _ := armtemplate.TextOf(v)
		if text == "" {
			return strips, "", ""
		}
		return gives, text, ""
	}
	return strips, "", ""
}

// inOrder sorts a subnet's writes into a possible order, and says whether another order is possible
// too.
func (s *templateSubnet) inOrder() (open bool) {
	if len(s.writes) > 20 { // no real template has so many
		return true
	}
	var done []subnetWrite
	rest := s.writes
	for len(rest) > 0 {
		next := 0
		for i, w := range rest {
			ready := true
			for j, other := range rest {
				if i != j && w.by.After(other.by) {
					ready = false
				}
			}
			if ready {
				next = i
				break
			}
		}
		if n := len(done); n > 0 && !rest[next].by.After(done[n-1].by) {
			open = true
		}
		done = append(done, rest[next])
		rest = append(rest[:next:next], rest[next+1:]...)
	}
	s.writes = done
	return open
}

// judge decides what happens to a subnet's table, or to another property.
func (t *armReading) judge(s *templateSubnet) {
	open := s.inOrder()
	final := s.writes[len(s.writes)-1]
	var lost *subnetWrite // the write that removes the table or the subnet
	for i, w := range s.writes {
		// Deleting the subnet is worse than losing the table, and losing it is worse than unknown.
		// Among equals, the last one counts.
		switch worse := w.outcome; {
		case worse != strips && worse != deletes && worse != doubts:
		case lost == nil, worse == deletes, worse == strips && lost.outcome != deletes,
			worse == lost.outcome:
			lost = &s.writes[i]
		}
	}
	s.table, s.kept, s.doubt = final.table, final.outcome == keeps, final.outcome == doubts ||
		open && lost != nil
	if final.outcome == gives && final.by.Maybe == nil && final.table != "" {
		t.reading.Associations = append(t.reading.Associations, Effect{What: s.place,
			By: t.place(final.by), Property: other(s.property), After: final.table,
			How: "the template names it"})
	}
	if lost == nil {
		return
	}
	why := t.carries(s.place)
	e := Effect{What: s.place, By: t.place(lost.by), Property: other(s.property),
		How: t.how(*lost, s.property), Fix: t.fix(s, *lost)}
	if lost.file != "" {
		e.By.File, e.By.Line = lost.file, lost.line
	}
	e.Doubt = lost.by.Maybe != nil || lost.outcome == doubts
	// a subnet that carries pods must have a table; nothing else follows from that
	certain := !e.Doubt && (why != "" && e.Property == "" || t.givenBefore(s))
	switch ends := final.outcome == gives || final.outcome == keeps; {
	case lost.outcome == deletes:
		e.Verb = Recreated
	case ends && !open:
		e.Verb, e.After = Flaps, final.table
		e.How += "; " + final.by.Address + " gives it one again"
	case certain:
		e.Verb = Loses
	default:
		e.Verb = MayLose
	}
	if open && lost.outcome != deletes {
		e.How += "; another resource of the template gives it one, and their order is undefined"
	}
	if lost.by.Maybe != nil {
		e.How += ", provided that it is deployed (" + lost.by.Maybe.Why + ")"
	}
	s.lost, s.verb = lost, e.Verb
	t.reading.put(e)
}

// givenBefore reports whether the template itself gives the subnet a table, so that it has one at
// the next deployment.
func (t *armReading) givenBefore(s *templateSubnet) bool {
	return slices.ContainsFunc(s.writes, func(w subnetWrite) bool { return w.outcome == gives })
}

func (t *armReading) how(w subnetWrite, p inventory.Property) string {
	switch {
	case w.outcome == deletes:
		return "the template writes its network and does not list it there"
	case w.outcome == doubts && w.doubt != "":
		return "it is not known which " + string(p) + " the template writes: " + w.doubt
	case w.inline():
		return "the template lists it in its network without " + string(p) + ", and Azure writes " +
			"listed subnets as they are"
	}
	return "the template writes it without " + string(p) + ", and Azure writes subnets as they are"
}

func (t *armReading) fix(s *templateSubnet, w subnetWrite) string {
	table := ""
	for _, other := range s.writes {
		if other.table != "" {
			table = other.table
		}
	}
	switch {
	case w.outcome == deletes && w.by.APIVersion < subnetsKept &&
		w.by.Body.Object("properties").Get("subnets") == nil:
		return "give " + w.by.Address + " the apiVersion " + subnetsKept +
			" or later, which leaves the subnets alone"
	case w.outcome == deletes:
		return fmt.Sprintf("list %s in the subnets of %s, with its routeTable; or list no "+
			"subnets there at all, at apiVersion %s or later", s.place.Name, w.by.Address,
			subnetsKept)
	case table != "":
		return fmt.Sprintf(`in the properties of %s: "%s": {"id": "%s"}`, s.place.Name,
			s.property, table)
	}
	return fmt.Sprintf(
		`in the properties of %s: "%s": {"id": "…"}, with the one that it has: %s`,
		s.place.Name, s.property, showCommand(s.place, s.property))
}

// showCommand returns the command that shows what a subnet has.
func showCommand(p Place, property inventory.Property) string {
	query := string(property) + ".id"
	if !partly(p.ID) {
		return finding.Command("az network vnet subnet show --ids %s --query %s", p.ID,
			query).String()
	}
	group := p.ID.ResourceGroup()
	if strings.Contains(group, "{") {
		group = "RESOURCE_GROUP"
	}
	return finding.Command("az network vnet subnet show -g %s --vnet-name %s -n %s --query %s",
		group, p.VNet, p.Name, query).String()
}
