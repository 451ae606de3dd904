package iac

import (
	"cmp"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// cluster judges a cluster whose network plugin the deployment changes.
func (w *whatIf) cluster(c *whatIfChange) {
	profile := func(o *armtemplate.Object) *armtemplate.Object {
		return o.Object("properties").Object("networkProfile")
	}
	before, after := profile(c.before), profile(c.after)
	if before == nil || after == nil {
		return
	}
	if why := refusal(before, after); why != "" {
		w.note(Place{ID: c.id, Name: c.id.Name()}, false, "AKS refuses this change: "+why)
		return
	}
	if !strings.EqualFold(before.Text("networkPlugin"), "kubenet") ||
		strings.EqualFold(after.Text("networkPlugin"), "kubenet") {
		return
	}
	e := Effect{Verb: Migrates, What: Place{ID: c.id, Name: c.id.Name()},
		How: "leaves kubenet: this starts the migration to overlay, which cannot be undone",
		Needs: migrationNeeds(c.after.Object("identity").Text("type"),
			c.after.Object("properties").Text("kubernetesVersion"),
			cmp.Or(after.Text("networkPolicy"), "none"))}
	if had, gets := before.Text("podCidr"), after.Text("podCidr"); had != "" && gets != "" &&
		had != gets {
		e.Needs = append([]string{fmt.Sprintf("its pod CIDR must stay %s, and becomes %s "+
			"(azure-aks-docs#172)", had, gets)}, e.Needs...)
	}
	e.Fix = finding.Command("routekeeper migrate plan %s", c.id.Name()).String()
	w.reading.Effects = append(w.reading.Effects, e)
}

// pools judges the pools in a cluster's document.
func (w *whatIf) pools(c *whatIfChange) {
	before := map[string]*armtemplate.Object{}
	list := func(o *armtemplate.Object, do func(name string, pool *armtemplate.Object)) {
		for _, pool := range o.Object("properties").Objects("agentPoolProfiles") {
			do(pool.Text("name"), pool)
		}
	}
	list(c.before, func(name string, pool *armtemplate.Object) {
		before[strings.ToLower(name)] = pool
	})
	list(c.after, func(name string, pool *armtemplate.Object) {
		w.poolSubnet(c.id, name, before[strings.ToLower(name)], pool)
	})
}

// poolSubnet notes a pool whose subnet the deployment changes. AKS refuses that with
// PropertyChangeNotAllowed (AKS#695), so the deployment fails and the pool stays where it is. A
// deployment that does not name the subnet does not change it.
func (w *whatIf) poolSubnet(id arm.ID, name string, before, after *armtemplate.Object) {
	had, gets := before.Text("vnetSubnetID"), after.Text("vnetSubnetID")
	switch {
	case had == "" || gets == "" || arm.ID(had).Equal(arm.ID(gets)):
	case strings.HasPrefix(gets, "["):
		w.note(Place{ID: id, Name: id.Name()}, true, "the subnet of pool "+name+" depends on the "+
			"deployment itself; if it is not "+arm.ID(had).Name()+", AKS refuses the change "+
			"(AKS#695)")
	default:
		w.note(Place{ID: id, Name: id.Name()}, false, "AKS refuses this change: pool "+name+
			" cannot move from subnet "+arm.ID(had).Name()+" to "+arm.ID(gets).Name()+
			" (AKS#695); add a pool in the other subnet, and delete this one when it is empty")
	}
}

// refusal says why AKS refuses a change of the network plugin, or "". A plugin changes only to
// overlay, which cannot be reverted (update-azure-cni).
func refusal(before, after *armtemplate.Object) string {
	had, gets := before.Text("networkPlugin"), after.Text("networkPlugin")
	overlay := func(o *armtemplate.Object) bool {
		return strings.EqualFold(o.Text("networkPluginMode"), "overlay")
	}
	switch {
	case had == "" || gets == "": // the result does not say
		return ""
	case overlay(after) && strings.EqualFold(gets, "kubenet"):
		return "overlay is a mode of networkPlugin azure, and the cluster has kubenet (AKS#5662)"
	case strings.EqualFold(had, gets):
		return ""
	case strings.EqualFold(gets, "kubenet"):
		return "no cluster can change to kubenet"
	case strings.EqualFold(had, "kubenet") && !overlay(after):
		return "from kubenet, networkPlugin changes to " + gets + " only with networkPluginMode " +
			"overlay"
	}
	return ""
}
