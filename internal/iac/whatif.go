package iac

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// IsWhatIf reports whether a file is the result of `az deployment … what-if --no-pretty-print`, of
// PowerShell's Get-Az…DeploymentWhatIfResult as JSON, or of the REST operation behind both.
func IsWhatIf(data []byte) bool {
	v, err := armtemplate.Parse("", data)
	if err != nil {
		return false
	}
	_, is := whatIfChanges(v)
	return is
}

// whatIfChanges returns the list of changes; the REST operation has it among the properties.
func whatIfChanges(v any) ([]any, bool) {
	o, _ := v.(*armtemplate.Object)
	if o == nil {
		return nil, false
	}
	if p := o.Object("properties"); p != nil && o.Get("status") != nil {
		o = p
	}
	list, is := o.Get("changes").([]any)
	for _, item := range list {
		if c, _ := item.(*armtemplate.Object); c == nil || changeType(c) == "" {
			return nil, false
		}
	}
	return list, is
}

// changeType returns what happens to a resource. PowerShell writes its number in the enumeration
// (Generated/Models/ChangeType.cs in Azure/azure-powershell).
func changeType(change *armtemplate.Object) string {
	types := []string{"Create", "Delete", "Ignore", "Deploy", "NoChange", "Modify", "Unsupported"}
	if n, err := strconv.Atoi(fmt.Sprint(change.Get("changeType"))); err == nil && n >= 0 &&
		n < len(types) {
		return types[n]
	}
	return change.Text("changeType")
}

// whatIf builds the Reading of a what-if result.
type whatIf struct {
	reading *Reading
	changes []*whatIfChange
	// before are the present properties of subnets, "" for none; written are those with which the
	// deployment writes subnets as separate resources.
	before, written map[slot]string
	gone            map[string]bool // networks that are deleted
	cidrs           []netip.Prefix
}

// whatIfChange is the change of one resource (WhatIfChange in the REST reference of deployments).
type whatIfChange struct {
	id            arm.ID
	kind          string
	before, after *armtemplate.Object
}

func (c *whatIfChange) is(resourceType, kind string) bool {
	return c.id.Is(resourceType) && strings.EqualFold(c.kind, kind)
}

// ReadWhatIf reads a what-if result, of any scope. The error is one line.
func ReadWhatIf(file File) (*Reading, error) {
	doc, err := armtemplate.Parse(file.Name, file.Data)
	if err != nil {
		return nil, err
	}
	list, is := whatIfChanges(doc)
	if !is {
		return nil, fmt.Errorf("it is not a what-if result: expected a list of changes")
	}
	w := &whatIf{reading: &Reading{Format: WhatIf}, before: map[slot]string{},
		written: map[slot]string{}, gone: map[string]bool{}, cidrs: []netip.Prefix{defaultPodCIDR}}
	root, _ := doc.(*armtemplate.Object)
	w.troubles(root)
	for _, item := range list {
		w.add(item.(*armtemplate.Object))
	}
	w.collect()
	for _, c := range w.changes {
		switch {
		case c.is(arm.TypeVNet, "Modify"):
			w.vnet(c)
		case c.is(arm.TypeSubnet, "Modify"):
			w.subnet(c.id, c, c.after, "the subnet's change")
		case c.is(arm.TypeSubnet, "Delete") && !w.gone[c.id.Parent().Key()]:
			w.effect(Recreated, "", c.id, c, "", "the deployment deletes it")
		case c.is(arm.TypeCluster, "Delete"):
			w.reading.Effects = append(w.reading.Effects, Effect{
				Verb: Destroyed, What: Place{ID: c.id, Name: c.id.Name()}, How: "is destroyed: " +
					"the deployment deletes resources that are not in its template",
				Fix: "add the cluster to the template, or deploy it in incremental mode",
			})
		case c.is(arm.TypeCluster, "Modify"):
			w.pools(c)
			w.cluster(c)
		case c.is(arm.TypeCluster+"/agentPools", "Modify"):
			w.poolSubnet(c.id, c.id.Name(), c.before.Object("properties"),
				c.after.Object("properties"))
		case c.is(arm.TypeRouteTable, "Modify"):
			w.table(c)
		}
	}
	w.after()
	return w.reading, nil
}

func (w *whatIf) note(p Place, unknown bool, text string) {
	w.reading.Notes = append(w.reading.Notes, Note{Place: p, Text: text, Unknown: unknown})
}

// troubles notes what the result says it did not see.
func (w *whatIf) troubles(root *armtemplate.Object) {
	if p := root.Object("properties"); p != nil {
		root = p
	}
	if e := root.Object("error"); e != nil {
		w.note(Place{}, true, "what-if itself failed: "+e.Text("code")+" "+e.Text("message"))
	}
	for _, d := range root.Objects("diagnostics") { // such as NestedDeploymentShortCircuited
		if !strings.EqualFold(d.Text("level"), "Info") {
			w.note(Place{}, true, "what-if did not see everything: "+d.Text("code")+" "+
				d.Text("message"))
		}
	}
	for _, c := range root.Objects("potentialChanges") {
		if ofInterest(arm.ID(c.Text("resourceId"))) {
			w.note(subnetPlace(c.Text("resourceId")), true,
				"what-if says that it may change, but not how")
		}
	}
}

func ofInterest(id arm.ID) bool {
	return slices.ContainsFunc(armMatters, id.Is)
}

// mentions reports whether the expression of an ID, which what-if could not evaluate, has a type
// that matters.
func mentions(expression string) bool {
	return strings.HasPrefix(expression, "[") && matter().MatchString(expression)
}

func (w *whatIf) add(o *armtemplate.Object) {
	text := cmp.Or(o.Text("resourceId"), o.Text("fullyQualifiedResourceId"))
	id, err := arm.ParseID(text)
	switch {
	case err != nil && mentions(text):
		w.note(Place{}, true, "what-if cannot say what happens to "+text+": "+
			cmp.Or(o.Text("unsupportedReason"), err.Error()))
		return
	case err != nil && ofInterest(arm.ID(text)):
		w.note(subnetPlace(text), true, "its change is not checked, because its ID is wrong: "+
			err.Error())
		return
	case err != nil || !ofInterest(id):
		return
	}
	c := &whatIfChange{id: id, kind: changeType(o), before: o.Object("before"),
		after: o.Object("after")}
	place := subnetPlace(string(id))
	switch strings.ToLower(c.kind) {
	case "unsupported":
		w.note(place, true, "what-if cannot say what happens to it: "+o.Text("unsupportedReason"))
	case "deploy":
		w.note(place, true, "it is deployed, and the result does not say what changes: make it "+
			"with --result-format FullResourcePayloads")
	case "modify":
		if c.before == nil || c.after == nil {
			w.note(place, true, "it changes, and the result does not say from what to what: make "+
				"it with --result-format FullResourcePayloads")
			return
		}
	case "delete":
		if id.Is(arm.TypeVNet) {
			w.gone[id.Key()] = true
		}
		if id.Is(arm.TypeRouteTable) {
			w.note(place, false, "the table is deleted, which Azure refuses while a subnet uses it")
		}
	}
	w.changes = append(w.changes, c)
}

// collect records the present network, and which subnets carry pods.
func (w *whatIf) collect() {
	for _, c := range w.changes {
		switch {
		case c.id.Is(arm.TypeVNet):
			for name, s := range subnetsIn(c.before) {
				record(w.before, c.id.Child("subnets", name), s)
			}
		case c.id.Is(arm.TypeSubnet):
			if c.before != nil {
				record(w.before, c.id, c.before)
			}
			if c.after != nil && !strings.EqualFold(c.kind, "Delete") {
				record(w.written, c.id, c.after)
			}
		}
	}
	s := inventory.NewSnapshot()
	for _, c := range w.changes {
		if c.id.Is(arm.TypeCluster) || c.id.Is(arm.TypeGateway) {
			if err := addPlain(s, c.id, cmp.Or(c.after, c.before)); err != nil {
				w.note(subnetPlace(string(c.id)), false, "it was not understood: "+err.Error())
			}
		}
	}
	for _, c := range w.changes { // in their order
		if cluster := s.Cluster(c.id); cluster != nil {
			w.cidrs = append(w.cidrs, cluster.PodCIDRs...)
			why := nodesNeed(c.id.Name(), cluster.Plugin, cluster.Outbound)
			for _, id := range cluster.ExistingSubnets() {
				if why != "" {
					w.reading.Carriers = append(w.reading.Carriers,
						Carrier{Place: subnetPlace(string(id)), Why: why})
				}
			}
		}
		if gateway := s.Gateways[c.id.Key()]; gateway != nil {
			for _, id := range gateway.Subnets {
				w.reading.Carriers = append(w.reading.Carriers,
					Carrier{Place: subnetPlace(string(id)), Why: "the gateway " + c.id.Name() +
						" is in it and must reach pods"})
			}
		}
	}
}

// record takes down what a subnet's document has.
func record(in map[slot]string, id arm.ID, o *armtemplate.Object) {
	for _, p := range inventory.Properties {
		in[slot{id.Key(), p}] = propertyOf(o, p)
	}
}

// vnet judges a network that the deployment writes. From api-version 2023-09-01 on, a network
// without subnets keeps them, although what-if shows them as removed:
// Azure/arm-template-whatif#393, #439.
func (w *whatIf) vnet(c *whatIfChange) {
	properties := c.after.Object("properties")
	value := properties.Get("subnets")
	if _, list := value.([]any); value != nil && !list {
		w.note(subnetPlace(string(c.id)), true, "the subnets it would list are unknown: they "+
			"depend on the deployment itself")
		return
	}
	version := c.after.Text("apiVersion")
	if value == nil {
		if len(subnetsIn(c.before)) == 0 || plainVersion(version) && version >= subnetsKept {
			return
		}
		if !plainVersion(version) {
			w.note(subnetPlace(string(c.id)), true,
				"what-if shows its subnets as removed. Before api-version "+subnetsKept+
					" they are removed, and from it on they stay; the result does not show the "+
					"api-version")
			return
		}
	}
	after := subnetsIn(c.after)
	for _, s := range c.before.Object("properties").Objects("subnets") {
		name := s.Text("name")
		if name == "" {
			continue
		}
		id := c.id.Child("subnets", name)
		var now *armtemplate.Object
		for other, o := range after {
			if strings.EqualFold(other, name) {
				now = o
			}
		}
		switch {
		case now != nil:
			w.subnet(id, c, now, "what is written of its network")
		case value == nil:
			w.effect(Recreated, "", id, c, "", "its network is written at api-version "+version+
				" without subnets, which deletes them: use "+subnetsKept+" or later")
		default:
			w.effect(Recreated, "", id, c, "", "the deployment writes its network without it")
		}
	}
}

// subnet judges a subnet that the deployment writes, separately or in its network.
func (w *whatIf) subnet(id arm.ID, c *whatIfChange, now *armtemplate.Object, what string) {
	for _, p := range inventory.Properties {
		at, after, word := slot{id.Key(), p}, propertyOf(now, p), string(p)
		had, later := w.before[at], w.written[at]
		switch {
		case had == "" || arm.ID(had).Equal(arm.ID(after)):
		case after == unresolved:
			w.effect(MayLose, p, id, c, "", what+" names a "+word+" by an expression that what-if "+
				"could not resolve")
		case after == "" && c.id.Is(arm.TypeVNet) && later != "":
			w.effect(Flaps, p, id, c, later, "its network lists it without "+word+", and another "+
				"resource writes the subnet with one")
		case after == "":
			w.effect(Loses, p, id, c, "", what+" no longer has a "+word)
		default:
			w.effect(Another, p, id, c, after, what+" names another "+word)
		}
	}
}

// effect adds what happens to a property of a subnet, or to the subnet itself.
func (w *whatIf) effect(verb Verb, p inventory.Property, id arm.ID, c *whatIfChange, after,
	how string) {
	e := Effect{Verb: verb, What: subnetPlace(string(id)), By: Place{ID: c.id, Name: c.id.Name()},
		Property: other(p), After: after, How: how, Doubt: verb == MayLose}
	e.Before = w.before[slot{id.Key(), e.property()}]
	if e.Before != "" && verb != Recreated {
		e.Fix = fmt.Sprintf(`in the template, in the properties of %s: %q: {"id": %q}`, id.Name(),
			string(p), e.Before)
	}
	w.reading.Effects = append(w.reading.Effects, e)
}

// table judges a table that the deployment writes without routes to nodes that it has now.
func (w *whatIf) table(c *whatIfChange) {
	if list := c.after.Object("properties").Get("routes"); list != nil {
		if _, is := list.([]any); !is {
			w.note(subnetPlace(string(c.id)), true, "the routes it would have are unknown: they "+
				"depend on the deployment itself")
			return
		}
	}
	s, kept := inventory.NewSnapshot(), map[netip.Prefix]netip.Addr{}
	if err := addPlain(s, c.id, c.after); err != nil {
		w.note(subnetPlace(string(c.id)), true, "its routes were not understood: "+err.Error())
		return
	}
	if now := s.Table(c.id); now != nil {
		for _, r := range now.Routes() {
			kept[r.Prefix] = r.Hop
		}
	}
	if err := addPlain(s, c.id, c.before); err != nil {
		w.note(subnetPlace(string(c.id)), true, "its routes were not understood: "+err.Error())
		return
	}
	e := Effect{Verb: RoutesGone, What: subnetPlace(string(c.id)),
		How: "the deployment writes the whole table, and they are not in the template"}
	e.By = e.What
	for _, r := range s.Table(c.id).Routes() {
		if leadsToNode(r, w.cidrs) && kept[r.Prefix] != r.Hop {
			e.Routes = append(e.Routes, r)
		}
	}
	if len(e.Routes) > 0 {
		e.Fix = "refer to the table as existing, or write single routes as " +
			"Microsoft.Network/routeTables/routes"
		w.reading.Effects = append(w.reading.Effects, e)
	}
}
