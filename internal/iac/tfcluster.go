package iac

import (
	"cmp"
	"encoding/json"
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

// tfBecause says why Terraform deletes something.
type tfBecause struct {
	Reason string `json:"action_reason"`
	Change struct {
		// Paths are the attributes that force a replacement: names, and indices of lists.
		Paths [][]any `json:"replace_paths"`
	} `json:"change"`
}

// becauseOf reads the reasons from a change. It ignores unexpected values: the deletion itself
// matters.
func becauseOf(raw []byte) *tfBecause {
	b := &tfBecause{}
	_ = json.Unmarshal(raw, b)
	return b
}

// cluster judges a cluster. A deleted cluster is lost with everything that runs on it, whatever
// else the plan says.
func (j *judge) cluster(r *tfResource) {
	if !slices.Contains(r.Change.Actions, "delete") {
		return
	}
	v := r.before()
	e := Effect{Verb: Destroyed, What: r.place(), By: r.place(), How: "is destroyed"}
	e.What.ID, e.What.Name = v.ID, cmp.Or(v.Name, v.ID.Name())
	because := reasons[r.because.Reason]
	e.Fix = finding.Command("keep %s, or take it out of the state only: terraform state rm %s",
		r.Address, r.Address).String()
	if slices.Contains(r.Change.Actions, "create") {
		e.How = "is destroyed and created again"
		e.Fix = "keep what forces the replacement unchanged; lifecycle { prevent_destroy = true " +
			"} in " + r.Address + " stops such a plan"
		if forced := attributes(r.because.Change.Paths); forced != "" {
			because = strings.TrimPrefix(because+", and a change of "+forced+" forces it", ", and ")
			e.Fix = fmt.Sprintf("in %s: keep %s as it is; lifecycle { prevent_destroy = true } "+
				"stops such a plan", r.Address, forced)
		}
	}
	if r.Deposed != "" {
		because = "it was left over from an earlier replacement"
	}
	if because != "" {
		e.How += ": " + because
	}
	j.add(e)
}

// attributes writes paths like code does: network_profile[0].pod_cidr.
func attributes(paths [][]any) string {
	var all []string
	for _, path := range paths {
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
