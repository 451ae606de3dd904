package iac

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// whyUncertain says why the effect is uncertain.
func whyUncertain(p inventory.Property) string {
	return "the plan does not show whether the subnet has a " + p.Noun() + " in Azure"
}

// vnet judges an azurerm_virtual_network. The provider (4.0 and later) writes all inline blocks
// when one of them changes, and a block without a table removes it; other changes leave the blocks
// alone. Before 4.0 the blocks had no route_table_id, and the provider read every subnet before it
// wrote it (virtual_network_resource.go, getExistingSubnet). Every version deletes the subnets
// without a block.
func (j *judge) vnet(r *tfResource) {
	before, after := r.before(), r.after()
	switch {
	case r.replaces():
		for _, b := range before.Subnet {
			j.recreated(before.ID.Child("subnets", inline(b).name()), inline(b).table(), r,
				renewed(r))
		}
		j.goneWith(r, before.ID)
		return
	case !r.updates():
		return
	case r.Change.Unknown.of("subnet").all:
		j.unknownBlocks(r)
		return
	}
	if !r.Change.Unknown.of("subnet").any() && !rewrites(before.Subnet, after.Subnet) {
		return
	}
	j.inlineBlocks(r, inventory.PropertyGroup)
	if namesTables(before.Subnet) || namesTables(after.Subnet) {
		j.inlineBlocks(r, inventory.PropertyTable)
	}
	for _, b := range before.Subnet {
		old := inline(b)
		id := before.ID.Child("subnets", old.name())
		if now, _ := block(after.Subnet, old.name()); now != nil {
			continue
		}
		if j.nameUnknown(r) {
			j.add(Effect{
				Verb: MayLose, Doubt: true, What: j.subnet(id, r.place()), By: r.place(),
				Before: string(j.tables[id.Key()]),
				How:    "no inline block has its name, and one has a name known only after apply",
				Fix:    "apply what the name depends on first, and plan again",
			})
		} else {
			j.recreated(id, old.table(), r, "its inline block is gone")
		}
	}
	j.forgotten(r)
}

// inlineBlocks judges how written blocks change a property of their subnets. Every version of the
// provider writes the security group; a table is written only if the blocks can name one.
func (j *judge) inlineBlocks(r *tfResource, p inventory.Property) {
	for _, b := range r.before().Subnet {
		name := inline(b).name()
		if now, i := block(r.after().Subnet, name); now != nil {
			j.inlineBlock(r, p, r.before().ID.Child("subnets", name), now,
				r.Change.Unknown.of("subnet").at(i).of(inlineAttributes[p]).all)
		}
	}
}

// namesTables reports whether the blocks have the attribute for a table, as they do from azurerm
// 4.0 on.
func namesTables(blocks []map[string]any) bool {
	return slices.ContainsFunc(blocks, func(b map[string]any) bool {
		_, has := b["route_table_id"]
		return has
	})
}

// nameUnknown reports whether a block's name is known only after apply, so that no block is
// certainly gone.
func (j *judge) nameUnknown(r *tfResource) bool {
	return slices.ContainsFunc(r.Change.Unknown.of("subnet").items, func(u unknown) bool {
		return u.of("name").all
	})
}

// inlineBlock judges a block that is written.
func (j *judge) inlineBlock(r *tfResource, p inventory.Property, id arm.ID, now inline,
	unknown bool) {
	had, after, attribute := j.propertyBefore(id, p), now.has(p), inlineAttributes[p]
	e := Effect{What: j.subnet(id, r.place()), By: r.place(), Property: other(p),
		Before: string(had), After: string(after)}
	e.What.Address = r.Address
	e.Fix = fmt.Sprintf("in %s, subnet %s: %s = %s", r.Address, quoteHCL(id.Name()), attribute,
		j.reference(had, r.Module))
	e.Repair = &Repair{Address: r.Address, Subnet: id.Name(),
		Set: []Setting{{attribute, j.reference(had, r.Module)}}}
	switch {
	case unknown:
		t := j.refers(r, "subnet", associated[p].kind)
		if had == "" || t != nil && t.id.Equal(had) && t.becomes == "" {
			return
		}
		e.Verb, e.How = Another, "its inline block names a "+p.Noun()+" that is known only "+
			"after apply"
		if t != nil && t.becomes != "" {
			e.After, e.How = t.becomes, "its inline block names a new "+p.Noun()
		}
	case after == "" && had != "":
		e.Verb, e.How = Loses, "the inline subnet block names no "+p.Name()+", and the "+
			"network's blocks are written"
		if other := j.associates[slot{id.Key(), p}]; other != nil {
			e.Verb, e.After = Flaps, string(other.after().gives(p))
		}
	case after == "" && !j.refreshed:
		e.Verb = MayLose
		e.How = "the inline subnet block names no " + p.Name() + ", and the network's blocks are " +
			"written; " + whyUncertain(p)
		e.Fix = showCommand(Place{ID: id}, p)
		e.Repair = &Repair{Address: r.Address, Ignore: "subnet"}
	case after != "" && had != "" && !after.Equal(had):
		e.Verb, e.How = Another, "the inline subnet block names another "+p.Noun()
	default:
		return
	}
	j.add(e)
}

// unknownBlocks judges dynamic blocks over values that are known only after apply: the plan does
// not show them.
func (j *judge) unknownBlocks(r *tfResource) {
	for _, b := range r.before().Subnet {
		id := r.before().ID.Child("subnets", inline(b).name())
		for _, p := range []inventory.Property{inventory.PropertyTable, inventory.PropertyGroup} {
			j.add(Effect{
				Verb: MayLose, Doubt: true, What: j.subnet(id, r.place()), By: r.place(),
				Property: other(p), Before: string(j.propertyBefore(id, p)),
				How: "the network's inline blocks are known only after apply, and Azure writes " +
					"all of them",
				Fix: "apply what the blocks depend on first, and plan again",
			})
		}
	}
}

// forgotten judges the network's subnets that are separate resources without a block: writing the
// blocks deletes them.
func (j *judge) forgotten(r *tfResource) {
	before, after := r.before(), r.after()
	if len(after.Subnet) == 0 {
		return
	}
	for _, subnet := range j.subnets[before.ID.Key()] {
		listed, _ := block(after.Subnet, subnet.id.Name())
		had, _ := block(before.Subnet, subnet.id.Name())
		if listed == nil && had == nil && !subnet.changes {
			j.recreated(subnet.id, "", r, "the network's inline blocks are written without it")
		}
	}
}

// goneWith judges the separate subnets of a network that is replaced: Terraform keeps them in the
// state if the network's name stays, but Azure deletes them with it.
func (j *judge) goneWith(r *tfResource, vnet arm.ID) {
	for _, subnet := range j.subnets[vnet.Key()] {
		if !subnet.changes {
			j.recreated(subnet.id, "", r, renewed(r))
		}
	}
}

// renewed says how a network is replaced.
func renewed(vnet *tfResource) string {
	before, after := vnet.before(), vnet.after()
	if after.Name != "" && after.Name != before.Name {
		return fmt.Sprintf("network %s is renamed to %s, which deletes it and creates another",
			before.Name, after.Name)
	}
	how := "network " + before.Name + " is deleted and created again"
	if forced := vnet.forced(); forced != "" {
		how += ": a change of " + forced + " forces it"
	}
	return how
}

// recreated judges a subnet that is deleted, with its network or without. A subnet about which
// nothing is known does not matter.
func (j *judge) recreated(id, table arm.ID, r *tfResource, how string) {
	e := Effect{Verb: Recreated, What: j.subnet(id, r.place()), By: r.place(),
		Before: string(cmp.Or(table, j.tables[id.Key()])), How: how}
	if vnet := j.renewed[id.Parent().Key()]; vnet != nil {
		e.WithNetwork, e.How, e.By = true, renewed(vnet), vnet.place()
	}
	e.Fix = "keep the subnet's name and network as they are, or move the machines out of it first"
	j.add(e)
}

// subnetResource judges an azurerm_subnet. Since 2.0 the provider reads it first and keeps its
// table; before, route_table_id was its own argument. Since 5.0 a new version of route_table_id_wo
// writes that argument.
func (j *judge) subnetResource(r *tfResource) {
	before, after := r.before(), r.after()
	switch {
	case r.deletes():
		j.recreated(before.ID, before.table(), r, "its resource is destroyed")
		return
	case r.replaces():
		how := "its resource is replaced"
		if after.Name != "" && after.Name != before.Name {
			how = fmt.Sprintf("it is renamed to %s, which deletes it and creates another",
				after.Name)
		}
		j.recreated(before.ID, before.table(), r, how)
		return
	case !r.updates():
		return
	}
	e := Effect{What: j.subnet(before.ID, r.place()), By: r.place(),
		Before: string(j.tables[before.ID.Key()])}
	if string(substanceOf(before.WOVersion)) != string(substanceOf(after.WOVersion)) {
		j.writeOnly(r, e)
		return
	}
	had, now := before.table(), after.table()
	if had == "" || after.Table == nil && before.Table == nil ||
		r.Change.Unknown.of("route_table_id").any() || had.Equal(now) {
		return
	}
	e.Verb, e.After, e.How = Another, string(now), "its route_table_id names another table"
	if now == "" {
		e.Verb, e.How = Loses, "its route_table_id is removed"
	}
	e.Fix = fmt.Sprintf("in %s: route_table_id = %s", r.Address, j.reference(had, r.Module))
	j.add(e)
}

// writeOnly judges a changed version of route_table_id_wo: the provider writes the table that the
// argument names, or none. No plan shows the value; the configuration shows at least what the
// argument refers to.
func (j *judge) writeOnly(r *tfResource, e Effect) {
	const argument = "route_table_id_wo"
	sets, known := j.sets(r, argument)
	e.Fix = fmt.Sprintf("in %s: %s = %s  %s_version = %s", r.Address, argument,
		j.reference(arm.ID(e.Before), r.Module), argument, versionAfter(r))
	if e.Before != "" {
		e.Repair = &Repair{Address: r.Address, Set: []Setting{
			{argument, j.reference(arm.ID(e.Before), r.Module)}, {argument + "_version",
				versionHCL(r.before().WOVersion)},
		}}
	}
	t := j.refers(r, argument, tfTable)
	switch {
	case known && !sets || !known && len(substanceOf(r.after().WOVersion)) == 0:
		e.Verb, e.How = Loses, "its write-only argument route_table_id_wo is removed"
	case t != nil && t.becomes == "" && t.id.Equal(arm.ID(e.Before)):
		return
	case t != nil && t.becomes != "":
		e.Verb, e.After, e.How = Another, t.becomes, "its write-only argument route_table_id_wo "+
			"names another table"
	case t != nil:
		e.Verb, e.After, e.How = Another, string(t.id), "its write-only argument "+
			"route_table_id_wo names another table"
	default:
		e.Verb, e.Doubt, e.Repair = MayLose, true, nil
		e.How = "the version of its write-only argument route_table_id_wo changes, and the plan " +
			"does not show which table it names"
	}
	if e.Before == "" {
		if e.Verb == Another || j.refreshed { // there is no table to lose
			return
		}
		e.Verb = MayLose
		e.Fix = fmt.Sprintf("make sure that %s of %s names the subnet's present table: %s",
			argument, r.Address, finding.Command("az network vnet subnet show --ids %s --query "+
				"routeTable.id", e.What.ID))
	}
	j.add(e)
}

func versionAfter(r *tfResource) string {
	if v := substanceOf(r.after().WOVersion); len(v) > 0 {
		return versionHCL(v)
	}
	return versionHCL(r.before().WOVersion)
}

// versionHCL returns a version as code. The provider writes a number; a plan that another tool made
// can hold any type.
func versionHCL(raw []byte) string {
	var v any
	_ = json.Unmarshal(raw, &v) // it is a part of JSON that was read
	switch v := v.(type) {
	case float64:
		return string(raw)
	case string:
		return quoteHCL(v)
	default:
		return "null"
	}
}

// substanceOf returns a version, nil for none: null and 0 are equal.
func substanceOf(raw []byte) []byte {
	if s := string(raw); s == "null" || s == "0" || s == `""` {
		return nil
	}
	return raw
}
