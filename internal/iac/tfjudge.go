package iac

import (
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
)

// judge says what the changes of a plan do to subnets and tables.
type judge struct {
	*tfPlan
	// gone are the destroyed networks, by key: in a destroyed network nothing can break.
	gone map[string]bool
	// renewed are the networks that are deleted and created again, by key.
	renewed map[string]*tfResource
	// associates are the subnets that another change of the plan gives a table, by key.
	associates map[string]*tfResource
	// left are the subnets whose users are all destroyed, by key, with one of the users: the
	// cluster, if there is one.
	left map[string]*tfResource

	effects []Effect
	at      map[string]int // the effect on a subnet, by its key
	notes   []Note
}

// ranks order the effects on one subnet: the worst is reported.
var ranks = map[Verb]int{MayLose: 1, Flaps: 2, Another: 3, Loses: 4, Recreated: 5}

func (p *tfPlan) judge() *Reading {
	uses := p.uses()
	j := &judge{tfPlan: p, left: abandoned(uses), gone: map[string]bool{},
		renewed:    map[string]*tfResource{},
		associates: map[string]*tfResource{}, at: map[string]int{}, notes: p.notes}
	for _, r := range p.changes {
		switch {
		case r.Type == tfVNet && r.deletes():
			j.gone[r.before().ID.Key()] = true
		case r.Type == tfVNet && r.replaces():
			j.renewed[r.before().ID.Key()] = r
		case r.Type == tfAssociation && r.creates():
			j.associates[r.after().SubnetID.Key()] = r
		}
	}
	for _, r := range p.changes {
		switch r.Type {
		case tfVNet:
			j.vnet(r)
		case tfSubnet:
			j.subnetResource(r)
		case tfAssociation:
			j.association(r)
		case tfTable:
			j.routeTable(r)
		case tfRoute:
			j.route(r)
		case tfCluster:
			j.cluster(r)
		case tfPool:
			j.pool(r)
		case tfAzapi, tfAzapiUpdate:
			j.azapi(r)
		case tfAzapiAction:
			j.action(r)
		case tfDeployment:
			j.notes = append(j.notes,
				Note{Place: r.place(), Text: "it deploys an ARM template, which is not checked " +
					"here: check the template itself", Unknown: true})
		}
	}
	if p.format == TerraformState {
		j.outdated()
	}
	for i := range j.effects {
		e := &j.effects[i]
		if e.Repair == nil || len(e.Repair.Set) == 0 {
			continue
		}
		e.Repair.Shared = j.shared(*e)
		// the code that a repair would name is gone
		if table := j.byID[arm.ID(e.Before).Key()]; table != nil && table.goes {
			e.Repair = nil
			e.Fix += "; and keep its table " + table.address + ", which is destroyed as well"
		}
	}
	reading := &Reading{Format: p.format, Effects: j.effects, Notes: j.notes,
		Carriers: p.carriers(uses)}
	if p.format == TerraformPlan {
		reading.own = ownRoutes{byTable(j.pictures[0].routes), byTable(j.pictures[1].routes)}
		reading.rewritten = j.rewritten
		reading.Before, reading.After = j.snapshots(reading.own)
	}
	return reading
}

// shared reports whether the block of a repair has other instances with another table.
func (j *judge) shared(e Effect) bool {
	table := j.reference(arm.ID(e.Before), moduleOf(e.Repair.Address))
	for _, s := range j.instances[withoutKeys(e.Repair.Address)] {
		id := s.id
		if id.Is(arm.TypeVNet) {
			id = id.Child("subnets", e.Repair.Subnet)
		}
		if s.address != e.Repair.Address && !s.goes &&
			j.reference(j.tables[id.Key()], moduleOf(s.address)) != table {
			return true
		}
	}
	return false
}

// outdated notes where a state contradicts itself: a block of a network has no table, but an
// association or the table shows one.
func (j *judge) outdated() {
	for _, b := range j.bare {
		if table := j.tables[b.subnet.Key()]; table != "" {
			j.notes = append(j.notes, Note{Place: Place{ID: b.subnet, Address: b.address},
				Text: fmt.Sprintf(
					"the state has subnet %s without a table here, and with %s elsewhere: it is "+
						"older than the association. A plan made from it with -refresh=false does "+
						"not show when a change of the inline blocks takes the table away",
					b.subnet.Short(), table.Short())})
		}
	}
}

// add records an effect, and keeps the worst for each subnet.
func (j *judge) add(e Effect) {
	if e.What.ID.Is(arm.TypeSubnet) {
		if j.gone[e.What.ID.Parent().Key()] {
			return
		}
		key := e.What.ID.Key()
		if u := j.left[key]; u != nil {
			e.Left, e.Part = u.Address, u.Type != tfCluster
		}
		if i, known := j.at[key]; known {
			if ranks[e.Verb] > ranks[j.effects[i].Verb] {
				j.effects[i] = e
			}
			return
		}
		j.at[key] = len(j.effects)
	}
	j.effects = append(j.effects, e)
}

func (j *judge) note(r *tfResource, format string, args ...any) {
	j.notes = append(j.notes, Note{Place: r.place(), Text: fmt.Sprintf(format, args...)})
}

// association judges an azurerm_subnet_route_table_association. Its delete PUTs the subnet without
// a table, whichever table it has; its create fails if the subnet has one.
func (j *judge) association(r *tfResource) {
	before, after := r.before(), r.after()
	e := Effect{What: j.subnet(before.SubnetID, r.place()), By: r.place(),
		Before: string(before.table())}
	keep := fmt.Sprintf("keep %s, or take it out of the state only: ", r.Address)
	if r.Address == withoutKeys(r.Address) {
		keep += fmt.Sprintf("removed { from = %s  lifecycle { destroy = false } }", r.Address)
	} else { // a removed block is for all instances
		keep += finding.Command("terraform state rm %s", r.Address).String()
	}
	switch {
	case r.deletes():
		e.Verb, e.How, e.Fix = Loses, "its association is destroyed", keep
		if subnet := j.byID[before.SubnetID.Key()]; subnet != nil && r.Deposed == "" &&
			keyOf(r.Address) == "" {
			e.Repair = &Repair{Address: r.Address, Add: true, Next: subnet.address,
				Set: []Setting{
					{"subnet_id", j.reference(before.SubnetID, r.Module)}, {"route_table_id",
						j.reference(before.table(), r.Module)},
				}}
		}
		if other := j.associates[before.SubnetID.Key()]; other != nil {
			e.Verb, e.After, e.Repair = Flaps, string(other.after().table()), nil
			e.How = "its association is destroyed, and created again as " + other.Address
			e.Fix = fmt.Sprintf("moved { from = %s  to = %s }", r.Address, other.Address)
			if e.After != "" && !arm.ID(e.Before).Equal(arm.ID(e.After)) {
				e.Verb = Another
			}
		}
		j.add(e)
	case r.replaces():
		j.associationReplaced(r, e)
	case r.updates() && after.table() != "" && !before.table().Equal(after.table()):
		e.Verb, e.After, e.How = Another, string(after.table()), "its association names another "+
			"table"
		e.Fix = fmt.Sprintf("in %s: route_table_id = %s", r.Address,
			j.reference(before.table(), r.Module))
		e.Repair = &Repair{Address: r.Address,
			Set: []Setting{{"route_table_id", j.reference(before.table(), r.Module)}}}
		j.add(e)
	case r.creates() && len(r.Change.Importing) == 0:
		if table := j.tables[after.SubnetID.Key()]; table != "" && !j.freed(after.SubnetID) {
			j.note(r, "its creation fails, because subnet %s has the table %s already: import { "+
				"to = %s  id = %s }", after.SubnetID.Short(), table.Short(), r.Address,
				quoteHCL(string(after.SubnetID)))
			if j.names(r, table) { // imported with another table, the subnet would get that table
				j.notes[len(j.notes)-1].Repair = &Repair{Address: r.Address,
					Import: string(after.SubnetID)}
			}
		}
	}
}

// names reports whether a new association names an existing table.
func (j *judge) names(r *tfResource, table arm.ID) bool {
	if after := r.after().table(); after != "" {
		return after.Equal(table)
	}
	t := j.refers(r, "route_table_id", tfTable)
	return t != nil && t.becomes == "" && t.id.Equal(table)
}

// freed reports whether another change removes the subnet's table first.
func (j *judge) freed(subnet arm.ID) bool {
	return slices.ContainsFunc(j.changes, func(r *tfResource) bool {
		return r.Type == tfAssociation && (r.deletes() || r.replaces()) &&
			r.before().SubnetID.Equal(subnet)
	})
}

// associationReplaced judges an association that is destroyed and created: two PUTs, with no table
// between them.
func (j *judge) associationReplaced(r *tfResource, e Effect) {
	before, after := r.before(), r.after()
	subnet := after.SubnetID
	if subnet == "" {
		s := j.refers(r, "subnet_id", tfSubnet)
		switch {
		case s == nil || s.id == "":
			subnet = before.SubnetID
		case s.becomes != "" && s.id.Equal(before.SubnetID):
			return // the subnet itself is recreated, and its own change says so
		default:
			subnet = s.id
		}
	}
	if !subnet.Equal(before.SubnetID) {
		e.Verb, e.How = Loses, "its association moves to subnet "+subnet.Short()
		e.Fix = "give the other subnet its own association, and keep " + r.Address
		j.add(e)
		return
	}
	e.After = string(after.table())
	why := "its association is replaced"
	if e.After == "" && r.Change.Unknown.of("route_table_id").any() {
		t := j.refers(r, "route_table_id", tfTable)
		if t == nil { // the reference cannot be followed, but a replaced table is the likely reason
			if t = j.byID[before.table().Key()]; t != nil && t.becomes == "" {
				t = nil
			}
		}
		if t != nil && t.becomes != "" {
			e.After = t.becomes
			if t.id.Equal(before.table()) {
				why = "its table is replaced, and its association with it"
			}
		} else if t != nil {
			e.After = string(t.id)
		}
	}
	e.Verb, e.How = Another, why+": for a moment there is none, and then another"
	e.Fix = fmt.Sprintf("in %s: route_table_id = %s", r.Address,
		j.reference(before.table(), r.Module))
	e.Repair = &Repair{Address: r.Address,
		Set: []Setting{{"route_table_id", j.reference(before.table(), r.Module)}}}
	switch {
	case e.After == "":
		e.Verb, e.How = Flaps, why+": for a moment there is none, and then one that is known "+
			"only after apply"
	case arm.ID(e.After).Equal(before.table()):
		e.Verb, e.How = Flaps, why+": for a moment there is none"
		e.Fix, e.Repair = "keep what forces the replacement unchanged, or apply it while pods "+
			"may lose packets", nil
	case why != "its association is replaced":
		e.Repair = nil
		e.Fix = fmt.Sprintf("keep the name, group and location of the table %s as they are",
			before.table().Short())
	}
	j.add(e)
}
