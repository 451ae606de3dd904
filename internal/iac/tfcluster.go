package iac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
)

// reasons explain the values of Terraform's action_reason that say more than the plan's actions
// (plan representation in developer.hashicorp.com/terraform/internals/json-format).
var reasons = map[string]string{
	"replace_by_request":                "-replace asks for it",
	"replace_because_tainted":           "it is tainted",
	"replace_by_triggers":               "its replace_triggered_by asks for it",
	"delete_because_no_resource_config": "its resource block is gone",
	"delete_because_no_module":          "its module block is gone",
	"delete_because_wrong_repetition":   "its block's count or for_each changed",
	"delete_because_count_index":        "its index is beyond count",
	"delete_because_each_key":           "its key is not in for_each",
	"delete_because_no_move_target":     "its moved block has no target",
}

// cluster judges a cluster. A deleted cluster is lost with everything that runs on it, whatever
// else the plan says.
func (j *judge) cluster(r *tfResource) {
	if !slices.Contains(r.Change.Actions, "delete") {
		j.migrates(r)
		return
	}
	v := r.before()
	e := Effect{Verb: Destroyed, What: r.place(), By: r.place(), How: "is destroyed"}
	e.What.ID, e.What.Name = v.ID, cmp.Or(v.Name, v.ID.Name())
	because := reasons[r.Reason]
	e.Fix = fmt.Sprintf("keep %s, or take it out of the state only: %s", r.Address,
		finding.Command("terraform state rm %s", r.Address))
	if slices.Contains(r.Change.Actions, "create") {
		e.How = "is destroyed and created again"
		e.Fix = "keep what forces the replacement unchanged; lifecycle { prevent_destroy = true " +
			"} in " + r.Address + " stops such a plan"
		if forced := r.forced(); forced != "" {
			because = strings.TrimPrefix(because+", and a change of "+forced+" forces it", ", and ")
			e.Fix = fmt.Sprintf("in %s: keep %s as it is; lifecycle { prevent_destroy = true } "+
				"stops such a plan", r.Address, forced)
		}
	}
	if replaces := slices.Contains(r.Change.Actions, "create"); replaces && leavesKubenet(r) {
		e.How += ", although AKS would migrate it in place"
		e.Fix = offKubenet(r)
		// what the state has stays in force, so nothing forces the replacement
		e.Repair = &Repair{Address: r.Address, Ignore: "network_profile"}
	}
	if r.Deposed != "" {
		because = "it was left over from an earlier replacement"
	}
	if because != "" {
		e.How += ": " + because
	}
	j.add(e)
}

// pool notes a pool that alone is replaced. The cluster and its routes lose nothing, but the pool's
// nodes disappear all at once. A pool that is created before the old one is deleted is no problem.
func (j *judge) pool(r *tfResource) {
	if !r.replaces() || r.Change.Actions[0] != "delete" {
		return
	}
	text := "the pool is deleted and created again"
	if forced := r.forced(); forced != "" {
		text += ", because a change of " + forced + " forces it"
	}
	j.notes = append(j.notes, Note{Place: r.place(), Text: text + ": its nodes go all at once; " +
		"create a second pool first, or set temporary_name_for_rotation"})
}

// forced returns the attributes that force a replacement, as code writes them:
// network_profile[0].pod_cidr.
func (r *tfResource) forced() string {
	var all []string
	for _, path := range r.Change.Forced {
		text := ""
		for _, step := range path {
			switch s := step.(type) {
			case string:
				text += "." + s
			default:
				text += fmt.Sprintf("[%v]", s)
			}
		}
		if text = strings.TrimPrefix(text, "."); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " and ")
}

// profile returns a cluster's network profile, empty if there is none.
func (v *tfValues) profile() tfProfile {
	if len(v.Profile) == 0 {
		return tfProfile{}
	}
	return v.Profile[0]
}

// leavesKubenet reports whether a change takes a cluster from kubenet to overlay.
func leavesKubenet(r *tfResource) bool {
	before, after := r.before().profile(), r.after().profile()
	return strings.EqualFold(before.Plugin, "kubenet") &&
		strings.EqualFold(after.Plugin, "azure") &&
		strings.EqualFold(after.Mode, "overlay")
}

// offKubenet says how a cluster leaves kubenet if the provider would replace it: azurerm 4.x
// replaces it (azurerm#31683), 5.2 updates it in place. In both, a changed or removed pod_cidr
// replaces it (azurerm, pull request 30959).
func offKubenet(r *tfResource) string {
	fix := "plan with azurerm 5.2 or newer, which updates the cluster in place"
	if strings.Contains(r.forced(), "pod_cidr") {
		fix += ", and keep pod_cidr as it is, because changing or removing it always replaces " +
			"the cluster"
	}
	return fix + "; or migrate with az aks update, with lifecycle { ignore_changes = " +
		"[network_profile] } in " + r.Address
}

// migrates judges a cluster that leaves kubenet in place.
func (j *judge) migrates(r *tfResource) {
	if !r.updates() || !leavesKubenet(r) {
		return
	}
	before, after := r.before(), r.after()
	e := Effect{Verb: Migrates, What: r.place(), By: r.place(),
		How: "leaves kubenet: this starts the migration to overlay, which cannot be undone"}
	e.What.ID, e.What.Name = before.ID, cmp.Or(before.Name, before.ID.Name())
	identity := ""
	for _, i := range after.Identity {
		identity = i.Type
	}
	e.Needs = migrationNeeds(identity, after.Version, cmp.Or(after.profile().Policy, "none"))
	e.Fix = finding.Command("routekeeper migrate plan %s", e.What.Name).String()
	j.add(e)
}

// migrationNeeds returns the conditions of AKS for the migration (update-azure-cni) that values do
// not fulfil or that they do not show.
func migrationNeeds(identity, version, policy string) []string {
	var needs []string
	if !strings.Contains(strings.ToLower(identity), "userassigned") {
		needs = append(needs, "it needs a user-assigned identity, and has "+
			cmp.Or(identity, "a service principal"))
	}
	parts := strings.Split(version, ".")
	if minor := 0; len(parts) > 1 {
		if _, err := fmt.Sscan(parts[1], &minor); err == nil && parts[0] == "1" && minor < 27 {
			needs = append(needs, "it needs Kubernetes 1.27 or later, and has "+version)
		}
	}
	if !strings.EqualFold(policy, "none") {
		needs = append(needs, "it needs to have no network policy engine, and has "+policy)
	}
	return append(needs, "it needs that no subnet outside the cluster has its route table, that "+
		"nothing in its node resource group is locked, and that its pod CIDR overlaps nothing")
}
