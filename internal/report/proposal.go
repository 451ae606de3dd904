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
			continue
		}
		c := p.Config
		fmt.Fprintf(&b, "---\n# %s\n", plain(p.About))
		if p.Table != "" && len(p.Config.Spec.Targets) == 0 && len(unseen) == 0 {
			b.WriteString("# NOTE: no other route table seems to need the pod routes. If one " +
				"does, add it to targets.\n")
		}
		for _, note := range p.Notes {
			fmt.Fprintf(&b, "# NOTE: %s.\n", plain(note))
		}
		fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\nspec:\n  clusterID: %s\n",
			c.APIVersion, c.Kind, scalar(c.Metadata.Name), scalar(c.Spec.ClusterID))
		routes := c.Spec.RouteTableID != "" || len(c.Spec.Targets) > 0 || p.Table != "" ||
			len(c.Spec.Guard.Subnets) == 0
		switch {
		case p.ReadsNodes():
			b.WriteString("  source: Nodes                 # where the pod routes are read: the " +
				"cluster's nodes (docs/nodes.md)\n")
		case routes:
			b.WriteString("  source: RouteTable            # where the pod routes are read: the " +
				"cluster's route table\n")
			if c.Spec.RouteTableID != "" {
				fmt.Fprintf(&b, "  # The cluster's route table, which is only read: %s.\n  "+
					"routeTableID: %s\n", plain(p.Table), scalar(c.Spec.RouteTableID))
			} else {
				b.WriteString("  routeTableID: \"\"              # the cluster's route table; " +
					"empty: found at every start\n")
			}
		}
		writeGuard(&b, p)
		writeEgress(&b, p)
		if routes {
			writeTargets(&b, p)
		}
	}
	return b.String()
}

// writeGuard writes what is guarded.
func writeGuard(b *strings.Builder, p plan.Proposal) {
	guard := p.Config.Spec.Guard
	fmt.Fprintf(b, "  guard:\n    mode: %s               # Observe reports what a subnet has "+
		"lost, Enforce puts it back, Off does not check\n", guard.Mode)
	fmt.Fprintf(b, "    onOtherTable: %s        # what to do if a subnet has another one: Report "+
		"or Replace\n", guard.OnOtherTable)
	if p.GuardsGroups() {
		fmt.Fprintf(b, "    securityGroups: %s     # Enforce also puts back a lost network "+
			"security group, if its rules let the cluster's packets pass\n", guard.SecurityGroups)
	}
	if len(guard.Subnets) > 0 {
		b.WriteString("    subnets:                    # what subnets have now and must keep: a " +
			"redeploy takes it away\n")
	}
	for _, g := range p.Guarded() {
		fmt.Fprintf(b, "      # %s.\n      - subnetID: %s\n", plain(UpperFirst(g.Why)),
			scalar(g.Subnet))
		for _, field := range g.Fields {
			fmt.Fprintf(b, "        %s: %s\n", field[0], scalar(field[1]))
		}
	}
}

// writeEgress writes the routes by which the cluster's packets leave its network.
func writeEgress(b *strings.Builder, p plan.Proposal) {
	e := p.Config.Spec.Egress
	if e.RouteTableID == "" {
		return
	}
	fmt.Fprintf(b, "  egress:                       # the routes by which packets leave the "+
		"network (docs/guard.md)\n    # %s.\n    routeTableID: %s\n", plain(UpperFirst(p.EgressWhy)),
		scalar(e.RouteTableID))
	if !plan.WatchesOwn(p.Config) {
		fmt.Fprintf(b, "    mode: %s               # Observe reports a route that is missing or "+
			"leads elsewhere, Enforce puts it back\n", e.Mode)
	}
	if e.FirewallID != "" {
		fmt.Fprintf(b, "    # Nothing is written to an address that this %s does not have.\n    "+
			"firewallID: %s\n", p.Appliance(), scalar(e.FirewallID))
	}
	b.WriteString("    routes:\n")
	for _, r := range e.Routes {
		fmt.Fprintf(b, "      - name: %s\n        addressPrefix: %s\n", scalar(r.Name),
			scalar(r.AddressPrefix))
		if r.NextHopIPAddress == "" {
			fmt.Fprintf(b, "        nextHopType: %s\n", r.NextHopType)
			continue
		}
		fmt.Fprintf(b, "        nextHopIPAddress: %s\n", scalar(r.NextHopIPAddress))
	}
}

// writeTargets writes the tables that get the pod routes.
func writeTargets(b *strings.Builder, p plan.Proposal) {
	spec := p.Config.Spec
	if len(spec.Targets) == 0 {
		b.WriteString("  targets: []                   # route tables to copy the pod routes to\n")
	} else {
		b.WriteString("  targets:                      # route tables to copy the pod routes to\n")
	}
	for i, t := range spec.Targets {
		fmt.Fprintf(b, "    # %s.\n    - routeTableID: %s\n      policy: %s           # Observe "+
			"(only reports), Sync, or UpsertOnly (never deletes)\n",
			plain(UpperFirst(p.TargetWhy[i])), scalar(t.RouteTableID), t.Policy)
	}
	fmt.Fprintf(b, "  onRemoval: %s               # what happens to the copies once the cluster "+
		"or this document is gone: Keep or Prune\n", spec.OnRemoval)
}

// scalar writes a string as YAML on one line, quoted if necessary.
func scalar(s string) string {
	if plain(s) != s {
		quoted, _ := json.Marshal(s) // strings always marshal
		return string(SafeJSON(quoted))
	}
	out, _ := yaml.Marshal(s)
	return strings.TrimSpace(string(out))
}
