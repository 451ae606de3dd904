package iac

import (
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// judge says what the changes of a plan do to subnets and tables.
type judge struct {
	*tfPlan
	// gone are the destroyed networks, by key: in a destroyed network nothing can break.
	gone map[string]bool
	// renewed are the networks that are deleted and created again, by key.
	renewed map[string]*tfResource
	// associates are the properties that another change of the plan gives to subnets.
	associates map[slot]*tfResource
	// left are the subnets whose users are all destroyed, by key, with one of the users: the
	// cluster, if there is one.
	left map[string]*tfResource

	effects []Effect
	at      map[slot]int // the index of the effect on a subnet
	notes   []Note
}

const notTheTemplate = "it deploys an ARM template, which is not checked here: check the " +
	"template itself"

// ranks order the effects on one subnet: the worst is reported.
var ranks = map[Verb]int{MayLose: 1, Flaps: 2, Another: 3, Loses: 4, Recreated: 5}

func (p *tfPlan) judge() *Reading {
	uses := p.uses()
	j := &judge{tfPlan: p, left: abandoned(uses), gone: map[string]bool{},
		renewed:    map[string]*tfResource{},
		associates: map[slot]*tfResource{}, at: map[slot]int{}, notes: p.notes}
	for _, r := range p.changes {
		switch {
		case r.Type == tfVNet && r.deletes():
			j.gone[r.before().ID.Key()] = true
		case r.Type == tfVNet && r.replaces():
			j.renewed[r.before().ID.Key()] = r
		case associations[r.Type] != "" && r.creates():
			j.associates[slot{r.after().SubnetID.Key(), associations[r.Type]}] = r
		}
	}
	for _, r := range p.changes {
		switch r.Type {
		case tfVNet:
			j.vnet(r)
		case tfSubnet:
			j.subnetResource(r)
		case tfAssociation, tfNATAssociation, tfGroupAssociation:
			j.association(r, associations[r.Type])
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
		case tfRole:
			scope := r.before().Scope
			table := j.byID[scope.Key()]
			if (r.deletes() || r.replaces()) && scope.Is(arm.TypeRouteTable) &&
				(table == nil || !table.goes) {
				j.note(r, "the role on table %s is taken away: if a cluster has it, AKS can no "+
					"longer write the routes of new nodes", scope.Short())
			}
		case tfDeployment:
			j.unknown(r, notTheTemplate)
		}
	}
	if p.format == TerraformState {
		j.outdated()
	}
	deleted := map[string]bool{} // with all that they have
	for _, e := range j.effects {
		deleted[e.What.ID.Key()] = deleted[e.What.ID.Key()] || e.Verb == Recreated
	}
	j.effects = slices.DeleteFunc(j.effects, func(e Effect) bool {
		return e.Property != "" && deleted[e.What.ID.Key()]
	})
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
	reading := &Reading{Format: p.format, Notes: j.notes, Carriers: p.carriers(uses)}
	reading.put(j.effects...)
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

// outdated notes where a state contradicts itself: a subnet's block in a network has no table, but
// an association, or the subnets that a table names, show that the subnet has one.
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

// add records an effect, and keeps the worst for each subnet and property.
func (j *judge) add(e Effect) {
	if e.Property != "" {
		e.Repair = nil // a person decides
	}
	if e.What.ID.Is(arm.TypeSubnet) {
		if j.gone[e.What.ID.Parent().Key()] {
			return
		}
		key := slot{e.What.ID.Key(), e.Property}
		if u := j.left[key.subnet]; u != nil {
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

// unknown notes that a resource was not understood, so that something may be missing.
func (j *judge) unknown(r *tfResource, text string) {
	j.notes = append(j.notes, Note{Place: r.place(), Text: text, Unknown: true})
}

// association judges an azurerm_subnet_route_table_association, or one of another property. Its
// delete PUTs the subnet without a table, whichever table it has; its create fails if the subnet
// has one.
func (j *judge) association(r *tfResource, p inventory.Property) {
	before, after := r.before(), r.after()
	had, now, attribute := before.gives(p), after.gives(p), associated[p].attribute
	e := Effect{What: j.subnet(before.SubnetID, r.place()), By: r.place(),
		Property: other(p), Before: string(had)}
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
			e.Repair = &Repair{Address: r.Address, Add: true, Next: subnet.address, Set: []Setting{
				{"subnet_id", j.reference(before.SubnetID, r.Module)},
				{attribute, j.reference(had, r.Module)},
			}}
		}
		if other := j.associates[slot{before.SubnetID.Key(), p}]; other != nil {
			e.Verb, e.After, e.Repair = Flaps, string(other.after().gives(p)), nil
			e.How = "its association is destroyed, and created again as " + other.Address
			e.Fix = fmt.Sprintf("moved { from = %s  to = %s }", r.Address, other.Address)
			if e.After != "" && !arm.ID(e.Before).Equal(arm.ID(e.After)) {
				e.Verb = Another
			}
		}
		j.add(e)
	case r.replaces():
		j.associationReplaced(r, e, p)
	case r.updates() && now != "" && !had.Equal(now):
		e.Verb, e.After, e.How = Another, string(now), "its association names another "+p.Noun()
		e.Fix = fmt.Sprintf("in %s: %s = %s", r.Address, attribute, j.reference(had, r.Module))
		e.Repair = &Repair{Address: r.Address,
			Set: []Setting{{attribute, j.reference(had, r.Module)}}}
		j.add(e)
	case r.creates() && len(r.Change.Importing) == 0:
		if has := j.propertyBefore(after.SubnetID, p); has != "" && !j.freed(after.SubnetID, p) {
			j.note(r, "its creation fails, because subnet %s has the %s %s already: import { "+
				"to = %s  id = %s }", after.SubnetID.Short(), p.Noun(), has.Short(), r.Address,
				quoteHCL(string(after.SubnetID)))
			// imported with another table, the subnet would get that table
			if p == inventory.PropertyTable && j.names(r, has) {
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

// freed reports whether another change removes what the subnet has first.
func (j *judge) freed(subnet arm.ID, p inventory.Property) bool {
	return slices.ContainsFunc(j.changes, func(r *tfResource) bool {
		return associations[r.Type] == p && (r.deletes() || r.replaces()) &&
			r.before().SubnetID.Equal(subnet)
	})
}

// associationReplaced judges an association that is destroyed and created: two PUTs, with no table
// between them.
func (j *judge) associationReplaced(r *tfResource, e Effect, p inventory.Property) {
	before, after := r.before(), r.after()
	had, named := before.gives(p), associated[p]
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
	e.After = string(after.gives(p))
	why := "its association is replaced"
	if e.After == "" && r.Change.Unknown.of(named.attribute).any() {
		t := j.refers(r, named.attribute, named.kind)
		if t == nil { // the reference cannot be followed, but a replaced table is the likely reason
			if t = j.byID[had.Key()]; t != nil && t.becomes == "" {
				t = nil
			}
		}
		if t != nil && t.becomes != "" {
			e.After = t.becomes
			if t.id.Equal(had) {
				why = "its " + p.Noun() + " is replaced, and its association with it"
			}
		} else if t != nil {
			e.After = string(t.id)
		}
	}
	e.Verb, e.How = Another, why+": for a moment there is none, and then another"
	e.Fix = fmt.Sprintf("in %s: %s = %s", r.Address, named.attribute, j.reference(had, r.Module))
	e.Repair = &Repair{Address: r.Address,
		Set: []Setting{{named.attribute, j.reference(had, r.Module)}}}
	switch {
	case e.After == "":
		e.Verb, e.How = Flaps, why+": for a moment there is none, and then one that is known "+
			"only after apply"
	case arm.ID(e.After).Equal(had):
		e.Verb, e.How = Flaps, why+": for a moment there is none"
		e.Fix, e.Repair = "keep what forces the replacement unchanged, or apply it while pods "+
			"may lose packets", nil
	case why != "its association is replaced":
		e.Repair = nil
		e.Fix = fmt.Sprintf("keep the name, group and location of the %s %s as they are", p.Noun(),
			had.Short())
	}
	j.add(e)
}
