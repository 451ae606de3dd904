package iac

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Known is what is known in addition to the files: subnets that carry pods or reach them, and the
// network in Azure.
type Known struct {
	Carriers []Carrier
	// Tables are route tables that hold pod routes, with the reason: a subnet with one of them
	// counts as a carrier.
	Tables map[string]string
	// Live is the real network, nil if it was not read.
	Live *inventory.Snapshot
	// Refused says which policies refuse a write that gives a subnet this value of a property;
	// value is "" if the write removes it.
	Refused func(subnet arm.ID, p inventory.Property, value arm.ID) []string
}

// refused says which policies refuse what an effect certainly does to a subnet, also for a moment.
// A delete is no such write.
func (k Known) refused(e Effect) []string {
	if k.Refused == nil || e.Verb != Loses && e.Verb != Another && e.Verb != Flaps {
		return nil
	}
	id := e.What.ID
	for _, c := range k.Carriers {
		if (id == "" || partly(id)) && c.ID != "" && c.isSubnet(e.What) {
			id = c.ID
		}
	}
	if id == "" || partly(id) {
		return nil
	}
	if e.Verb == Flaps {
		e.After = ""
	}
	return k.Refused(id, e.property(), arm.ID(e.After))
}

// guards reports whether a config requires the NAT gateway or security group that a subnet may
// lose.
func (k Known) guards(e Effect) bool {
	return e.Property != "" && slices.ContainsFunc(k.Carriers, func(c Carrier) bool {
		return c.Must != nil && c.needs(e.Property) && c.isSubnet(e.What)
	})
}

// Findings says what is wrong. On a subnet that is known to carry pods, a loss is an error and a
// possible loss a warning. On any other subnet, a loss is a warning and a possible loss a note.
func (r *Reading) Findings(known Known) []finding.Finding {
	known.Carriers = slices.Concat(known.Carriers, r.Carriers)
	var out []finding.Finding
	for _, e := range slices.Concat(r.Effects, r.Open) {
		if e = known.decide(e); e.Verb == "" {
			continue
		}
		out = append(out, known.finding(e)...)
	}
	for _, e := range r.Associations {
		if e = known.replaces(e); e.Verb != "" {
			out = append(out, known.finding(e)...)
		}
	}
	for _, n := range r.Notes {
		out = append(out, n.finding())
	}
	return finding.Sort(out)
}

func (n Note) finding() finding.Finding {
	code := finding.IaCNote
	if n.Unknown {
		code = finding.IaCUnknown
	}
	message := n.Text
	if who := cmp.Or(n.Address, n.Name); who != "" {
		message = who + ": " + message
	}
	return finding.New(code, "", n.resource(), "%s",
		message).About(strings.TrimSpace(n.Address+" "+n.Text)).At(n.File, n.Line)
}

// decide uses the real network to decide what a file leaves open. An effect without a verb does not
// happen. Only a possible loss can be refuted: by a subnet without a table, or a table without pod
// routes. A possible loss of a NAT gateway or security group has to be confirmed: by the code, a
// config, or the real network. A doubtful one stays possible.
func (k Known) decide(e Effect) Effect {
	guarded := k.guards(e)
	if e.Verb == MayLose && guarded && !e.Doubt {
		e.Verb = Loses
	}
	e = k.real(e)
	if e.Verb == MayLose && e.Property != "" && e.Before == "" && !guarded {
		e.Verb = ""
	}
	return e
}

// real adds what the real network shows.
func (k Known) real(e Effect) Effect {
	if k.Live == nil {
		return e
	}
	if subnet := k.Live.Subnet(k.find(e.What)); subnet != nil {
		has := subnet.Has(e.property())
		asked := showCommand(e.What, e.property())
		e.What.ID = subnet.ID
		e.Fix = strings.ReplaceAll(e.Fix, asked, showCommand(e.What, e.property()))
		switch {
		case e.Verb == MayLose && has == "":
			e.Verb = ""
		case e.Verb == MayLose && !e.Doubt:
			e.Verb = Loses
		}
		if e.Verb != "" && has != "" {
			e.stated, e.Before = e.Before, string(has)
		}
	}
	table := k.Live.Table(e.What.ID)
	if table == nil {
		return e
	}
	for _, id := range table.Subnets {
		e.Users = append(e.Users, Place{ID: id, Name: id.Name(), VNet: id.Parent().Name()})
	}
	if e.Verb == MayLoseRoutes {
		e.Verb = ""
		for _, route := range table.Routes() {
			if leadsToNode(route, k.podCIDRs()) {
				e.Verb, e.Routes = RoutesGone, append(e.Routes, route)
			}
		}
	}
	return e
}

// replaces decides whether code gives a subnet a wrong table, NAT gateway or security group. The
// right one is what a config requires or, if none does, what the subnet has in Azure.
func (k Known) replaces(e Effect) Effect {
	e.Verb = ""
	var has arm.ID
	for _, c := range k.Carriers {
		if c.isSubnet(e.What) {
			has = cmp.Or(has, c.Must[e.property()])
		}
	}
	if k.Live != nil {
		if subnet := k.Live.Subnet(k.find(e.What)); subnet != nil {
			e.What.ID, has = subnet.ID, cmp.Or(has, subnet.Has(e.property()))
		}
	}
	if has == "" || !another(has, arm.ID(e.After)) {
		return e
	}
	e.Verb, e.Before = Another, string(has)
	e.Fix = fmt.Sprintf("in %s: name %s", e.By.Address, has)
	return e
}

// another reports whether code names another resource. Code names a resource in many ways: if parts
// of its ID are unknown, only the names are compared.
func another(has, named arm.ID) bool {
	if id, err := arm.ParseID(string(named)); err == nil && !partly(id) {
		return !id.Equal(has)
	}
	return !partly(arm.ID(named.Name())) && !strings.EqualFold(has.Name(), named.Name())
}

// find returns a subnet's ID. If the code has none, it is the ID of the only subnet with this name
// in a network with its network's name, in Azure and among the carriers: the subnet that a config
// guards may be in a subscription that was not read.
func (k Known) find(p Place) arm.ID {
	if p.ID != "" && !partly(p.ID) || p.Name == "" || p.VNet == "" {
		return p.ID
	}
	var found []arm.ID
	for _, c := range k.Carriers {
		if c.ID != "" && !partly(c.ID) && c.isSubnet(p) {
			found = append(found, c.ID)
		}
	}
	for _, s := range k.Live.Subnets {
		if strings.EqualFold(s.ID.Name(), p.Name) &&
			strings.EqualFold(s.ID.Parent().Name(), p.VNet) {
			found = append(found, s.ID)
		}
	}
	if found = inventory.SortIDs(found); len(found) != 1 {
		return ""
	}
	return found[0]
}

// carries says why the loss of a property harms: the subnet is known to carry pods or to reach
// them, or a config says that it must have the property. "" if none is known. If everything in the
// subnet is destroyed, only what the user names counts, and nothing if its cluster is destroyed.
func (k Known) carries(e Effect) string {
	for _, c := range k.Carriers {
		if c.isSubnet(e.What) && (e.Verb == Recreated || c.needs(e.property())) &&
			(e.Left == "" || e.Part && c.Named) {
			return c.Why
		}
	}
	if e.Left != "" {
		return ""
	}
	return cmp.Or(k.Tables[arm.ID(e.Before).Key()], k.Tables[arm.ID(e.stated).Key()])
}

// isSubnet reports whether carrier and place are one subnet: by ID if both have one, otherwise by
// the names that they have.
func (c Carrier) isSubnet(p Place) bool {
	if c.ID != "" && p.ID != "" && partly(c.ID) == partly(p.ID) {
		return c.ID.Equal(p.ID)
	}
	if c.Address != "" && c.Address == p.Address && c.Name == "" {
		return true
	}
	return c.Name != "" && strings.EqualFold(c.Name, p.Name) &&
		(c.VNet == "" || p.VNet == "" || strings.EqualFold(c.VNet, p.VNet))
}

// partly reports whether parts of an ID are unknown: a template without a known subscription has
// words in braces there.
func partly(id arm.ID) bool { return strings.Contains(string(id), "{") }

// resource returns the ID, "" if parts of it are unknown.
func (p Place) resource() string {
	if partly(p.ID) {
		return ""
	}
	return string(p.ID)
}

func (k Known) finding(e Effect) []finding.Finding {
	if e.Verb == Destroyed {
		f := finding.New(finding.IaCDestroys, "", e.What.resource(), "cluster %s %s",
			cmp.Or(e.What.Name, e.What.Address), e.How)
		return []finding.Finding{e.complete(f, "")}
	}
	if e.Verb == Migrates {
		f := finding.New(finding.IaCMigrates, "", e.What.resource(), "cluster %s %s",
			cmp.Or(e.What.Name, e.What.Address), e.How).With(e.Needs...)
		return []finding.Finding{e.complete(f, "")}
	}
	why := k.carries(e)
	if e.Left != "" && why == "" {
		text := e.How + "; not assessed further, because " + e.Left +
			", which is in it, is destroyed as well"
		return []finding.Finding{Note{Place: e.What, Text: text}.finding()}
	}
	if e.Verb == MayLoseRoutes || e.Verb == RoutesGone {
		return []finding.Finding{k.routes(e)}
	}
	code, message := finding.IaCStrips, ""
	subnet, before, after := e.What.subnetName(), shortName(e.Before), shortName(e.After)
	name := e.property().Name()
	table := "its " + name
	if before != "" {
		table += " " + before
	}
	switch e.Verb {
	case Loses:
		message = fmt.Sprintf("subnet %s loses %s: %s", subnet, table, e.How)
	case MayLose:
		code, message = finding.IaCMayStrip, fmt.Sprintf("subnet %s may lose %s: %s", subnet, table,
			e.How)
	case Another:
		code, message = finding.IaCAnotherTable, fmt.Sprintf("subnet %s gets %s in place of %s: %s",
			subnet, cmp.Or(after, "another "+name), table, e.How)
	case Flaps:
		code, message = finding.IaCFlaps, fmt.Sprintf("subnet %s is without %s for a moment: %s",
			subnet, table, e.How)
	case Recreated:
		if why == "" && e.Before == "" {
			return nil
		}
		with := "while its network stays"
		if e.WithNetwork {
			with = "with its network"
		}
		code, message = finding.IaCRecreates, fmt.Sprintf("subnet %s is deleted %s: %s", subnet,
			with, e.How)
	case Useless:
		code, message = finding.IaCUseless, fmt.Sprintf("%s: %s", cmp.Or(e.By.Address, subnet),
			e.How)
	default:
		return nil
	}
	f := finding.New(code, "", e.What.resource(), "%s", message)
	if why == "" && e.Verb != Useless || e.Verb == Recreated && e.Doubt {
		f.Severity--
	}
	return []finding.Finding{e.complete(f, why).With(k.refused(e)...)}
}

// routes makes the finding for a table that loses routes.
func (k Known) routes(e Effect) finding.Finding {
	why := k.Tables[e.What.ID.Key()]
	for _, user := range e.Users {
		if carries := k.carries(Effect{What: user}); carries != "" {
			why = "subnet " + user.subnetName() + " has it: " + carries
		}
	}
	if e.Verb == MayLoseRoutes {
		f := finding.New(finding.IaCMayRoutes, "", e.What.resource(),
			"route table %s may lose pod routes: %s", e.What.Name, e.How)
		if why == "" {
			f.Severity--
		}
		return e.complete(f, why)
	}
	n := fmt.Sprintf("%d pod routes", len(e.Routes))
	if len(e.Routes) == 1 {
		n = "a pod route"
	}
	f := finding.New(finding.IaCRoutes, "", e.What.resource(), "route table %s loses %s: %s",
		e.What.Name, n, e.How)
	for i, r := range e.Routes {
		if i == maxRoutesShown {
			f = f.With(fmt.Sprintf("and %d more", len(e.Routes)-i))
			break
		}
		f = f.With(fmt.Sprintf("%s -> %s (%s)", r.Prefix, r.Hop, r.Name))
	}
	return e.complete(f, why)
}

const maxRoutesShown = 10

var isCommand = lazy.Regexp(`^(az|terraform|routekeeper|kubectl) `)

// complete adds to a finding the place in the code, the reason why it matters, and the repair.
func (e Effect) complete(f finding.Finding, why string) finding.Finding {
	// Only a command can be pasted; names in code and in words are not quoted for a shell.
	if isCommand().MatchString(e.Fix) {
		f.Fix = e.Fix
	} else {
		f.Advice = e.Fix
	}
	by := e.By
	if by.Address != "" {
		f = f.About(by.Address).With("by " + by.Address)
		// several of them can be in one resource
		if name := e.What.subnetName(); f.Resource == "" && name != by.Address {
			f = f.About(by.Address + " " + name)
		}
	}
	if e.Property != "" {
		f = f.About(strings.TrimSpace(f.Subject + " " + string(e.Property)))
	}
	if why != "" {
		f = f.With(why)
	}
	if by.File == "" {
		by = e.What
	}
	return f.At(by.File, by.Line)
}

func (p Place) subnetName() string {
	switch {
	case p.VNet != "" && p.Name != "":
		return p.VNet + "/" + p.Name
	case p.Name != "":
		return p.Name
	}
	return p.Address
}

// shortName returns the name of a table, given as a name or an ID.
func shortName(table string) string { return arm.ID(table).Name() }

// podCIDRs returns the pod CIDRs of the real clusters, and AKS's default.
func (k Known) podCIDRs() []netip.Prefix {
	cidrs := []netip.Prefix{defaultPodCIDR}
	for _, c := range k.Live.Clusters {
		cidrs = append(cidrs, c.PodCIDRs...)
	}
	return cidrs
}
