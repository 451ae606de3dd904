package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"routekeeper.dev/routekeeper/internal/plan"
)

// ConfigYAML writes proposed configs as commented YAML documents that a user can edit. unseen says
// what could not be read, a line each.
func ConfigYAML(proposals []plan.Proposal, from string, unseen []string) string {
	var b strings.Builder
	if !slices.ContainsFunc(proposals, plan.Proposal.Enforces) {
		fmt.Fprintf(&b, "# ClusterRoutes for %s, proposed by routekeeper init.\n", plain(from))
		b.WriteString(`# Everything in it is on Observe: "routekeeper sync" and "routekeeper run" show and record what they
# would do, and change nothing. Read it, correct it, and continue when you agree with what you see:
#   routekeeper promote NAME -f routes.yaml
`)
	} else {
		fmt.Fprintf(&b, "# ClusterRoutes for %s. It enforces: routekeeper run -f FILE keeps it "+
			"in sync.\n", plain(from))
	}
	b.WriteString("# A Notify document sends word of errors and repairs to Slack, Teams or a " +
		"webhook: docs/notifications.md\n")
	for _, line := range unseen {
		fmt.Fprintf(&b, "# NOTE: could not be read, so there may be more targets: %s\n",
			plain(line))
	}
	for _, p := range proposals {
		if p.Skip != "" {
			fmt.Fprintf(&b, "---\n# %s\n# Not configured: %s.\n", plain(p.About), plain(p.Skip))
			if p.Offer != nil {
				offered(&b, p)
			}
			continue
		}
		c := p.Config
		fmt.Fprintf(&b, "---\n# %s\n", plain(p.About))
		if len(p.Config.Spec.Targets) == 0 && len(unseen) == 0 {
			b.WriteString("# NOTE: no other route table seems to need the pod routes. If one " +
				"does, add it to targets.\n")
		}
		for _, note := range p.Notes {
			fmt.Fprintf(&b, "# NOTE: %s.\n", plain(note))
		}
		fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\nspec:\n  clusterID: %s\n",
			c.APIVersion, c.Kind, scalar(c.Metadata.Name), scalar(c.Spec.ClusterID))
		b.WriteString("  source: RouteTable            # where the pod routes are read: the " +
			"cluster's route table\n")
		if c.Spec.RouteTableID != "" {
			fmt.Fprintf(&b, "  # The cluster's route table, which is only read: %s.\n  "+
				"routeTableID: %s\n", plain(p.Table), scalar(c.Spec.RouteTableID))
		} else {
			b.WriteString("  routeTableID: \"\"              # the cluster's route table; empty: " +
				"found at every start\n")
		}
		fmt.Fprintf(&b, "  guard:\n    mode: %s               # Observe reports a lost "+
			"association, Enforce repairs it, Off does not check\n", c.Spec.Guard.Mode)
		fmt.Fprintf(&b, "    onOtherTable: %s        # what to do if a node subnet has another "+
			"table: Report or Replace\n", c.Spec.Guard.OnOtherTable)
		if len(c.Spec.Guard.Subnets) > 0 {
			b.WriteString("    subnets:                    # more associations to guard: the " +
				"same redeploy removes them too\n")
		}
		for i, s := range c.Spec.Guard.Subnets {
			fmt.Fprintf(&b, "      # %s.\n      - subnetID: %s\n        routeTableID: %s\n",
				plain(p.SubnetWhy[i]), scalar(s.SubnetID), scalar(s.RouteTableID))
		}
		if len(c.Spec.Targets) == 0 {
			b.WriteString("  targets: []                   # route tables to copy the pod routes " +
				"to\n")
		} else {
			b.WriteString("  targets:                      # route tables to copy the pod routes " +
				"to\n")
		}
		for i, t := range c.Spec.Targets {
			fmt.Fprintf(&b, "    # %s.\n    - routeTableID: %s\n      policy: %s           # "+
				"Observe (only reports), Sync, or UpsertOnly (never deletes)\n",
				plain(upperFirst(p.TargetWhy[i])), scalar(t.RouteTableID), t.Policy)
		}
		fmt.Fprintf(&b, "  onRemoval: %s               # what happens to the copies once the "+
			"cluster or this document is gone: Keep or Prune\n", c.Spec.OnRemoval)
	}
	return b.String()
}

// offered writes the offer of a proposal as comments. Without their marks, the lines are a
// document.
func offered(b *strings.Builder, p plan.Proposal) {
	c := p.Offer
	fmt.Fprintf(b, "#apiVersion: %s\n#kind: %s\n#metadata:\n#  name: %s\n#spec:\n"+
		"#  clusterID: %s\n#  source: %s\n#  targets:\n", c.APIVersion, c.Kind,
		scalar(c.Metadata.Name), scalar(c.Spec.ClusterID), c.Spec.Source)
	for _, t := range c.Spec.Targets {
		fmt.Fprintf(b, "#    - routeTableID: %s\n#      policy: %s\n", scalar(t.RouteTableID),
			t.Policy)
	}
}

// scalar writes a string as YAML on one line, quoted if necessary.
func scalar(s string) string {
	if plain(s) != s {
		quoted, _ := json.Marshal(s) // strings always marshal
		return string(SafeJSON(quoted))
	}
	out, err := yaml.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return strings.TrimSpace(string(out))
}
