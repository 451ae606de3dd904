package cli

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

type diffOptions struct {
	source, target string
	podCIDRs       []string
	nodeSubnets    []string
	policy         string
	maxRoutes      int
}

// policies are the values of --policy.
var policies = []string{string(v1alpha1.PolicySync), string(v1alpha1.PolicyUpsertOnly),
	string(v1alpha1.PolicyObserve)}

func newDiff(a *app) *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff --source FILE --target FILE --pod-cidr CIDR",
		Short: "Compare two saved route tables, and show what a sync would change",
		Long: `Compares two route tables in files, and shows what a sync would change in the
target. It makes no connection. It reads the JSON of ARM (az rest) and the
flattened JSON of az network route-table show.

A route belongs to the cluster if all of these hold; all other routes stay:
  - its next hop is the address of an appliance (with --node-subnet: an address
    in a node subnet)
  - its prefix is inside a pod CIDR and has the length of node routes
  - it has the name of an AKS node, or the source has it too

A sync deletes a route only with proof that its node is gone, and uses a next
hop only if a node has it. Files cannot prove that, so diff assumes that the
nodes are those in the source.

Exit code 0: nothing to change; 1: an error; 2: changes, or a blocking finding.`,
		Example: `  az network route-table show --ids <cluster's table> > a.json
  az network route-table show --ids <gateway's table> > b.json
  routekeeper sync diff --source a.json --target b.json --pod-cidr 10.244.0.0/16`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return runDiff(a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.source, "source", "", "the cluster's route table: a JSON `FILE`, - for "+
		"standard input")
	f.StringVar(&o.target, "target", "", "the route table to copy to: a JSON `FILE`, - for "+
		"standard input")
	f.StringSliceVar(&o.podCIDRs, "pod-cidr", nil,
		"a pod `CIDR` of the cluster (repeat for dual-stack)")
	f.StringSliceVar(&o.nodeSubnets, "node-subnet", nil,
		"an address prefix (`CIDR`) of a node subnet (repeatable)")
	f.StringVar(&o.policy, "policy", string(v1alpha1.PolicySync), "Sync, UpsertOnly or Observe")
	f.IntVar(&o.maxRoutes, "max-routes", inventory.DefaultRouteLimit,
		"how many routes the target can hold")
	for _, name := range []string{"source", "target", "pod-cidr"} {
		_ = cmd.MarkFlagRequired(name)
	}
	completeWith(cmd, "policy", policies)
	for _, name := range []string{"source", "target"} {
		_ = cmd.MarkFlagFilename(name, "json")
	}
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

func runDiff(a *app, o diffOptions) error {
	if err := checkDiff(o); err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	source, err := readTableFile(a, "--source", o.source)
	if err != nil {
		return err
	}
	target, err := readTableFile(a, "--target", o.target)
	if err != nil {
		return err
	}
	if source.ID.Equal(target.ID) {
		return fmt.Errorf("--target: %s is also the source (%s): routekeeper never writes to a "+
			"cluster's route table", target.ID.Short(), target.ID)
	}
	// Files do not describe the cluster, so the flags must.
	cluster := &inventory.Cluster{
		Document: arm.Document{ID: arm.ResourceID(source.ID.Subscription(),
			source.ID.ResourceGroup(), arm.TypeCluster, source.ID.Name())},
		Plugin: "kubenet", Principals: []string{"the file"},
	}
	for _, text := range o.podCIDRs {
		p, err := config.PodCIDR(text)
		if err != nil {
			return fmt.Errorf("--pod-cidr: %w", err)
		}
		cluster.PodCIDRs = append(cluster.PodCIDRs, p)
	}
	known := &plan.Remembered{Settled: map[netip.Prefix]plan.Settled{}}
	s := plan.Facts{Snapshot: inventory.NewSnapshot(), Memory: plan.Memory{cluster.ID.Key(): known},
		AnyHop: len(o.nodeSubnets) == 0}
	for _, text := range o.nodeSubnets {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--node-subnet: %q is not a prefix, expected one such as "+
				"10.240.0.0/16", text)
		}
		known.Subnets = append(known.Subnets, p.Masked())
	}
	s.Clusters[cluster.ID.Key()] = cluster
	s.Tables[source.ID.Key()] = source
	s.Tables[target.ID.Key()] = target
	doc := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: source.ID.Name()}}
	doc.Spec = v1alpha1.Spec{
		ClusterID:    string(cluster.ID),
		RouteTableID: string(source.ID),
		Guard:        v1alpha1.Guard{Mode: v1alpha1.GuardOff},
		Targets: []v1alpha1.Target{
			{RouteTableID: string(target.ID), Policy: v1alpha1.Policy(o.policy),
				MaxRoutes: o.maxRoutes}},
	}
	doc.SetDefaults()
	// the nodes to which the source's routes lead
	s.Writers[source.ID.Key()] = inventory.Writer{Names: cluster.Principals}
	nics := &inventory.NICs{Holder: map[netip.Addr]string{}, Nodes: map[netip.Addr]string{}}
	s.Learn(cluster.ID).NICs = nics
	for prefix, r := range plan.PodRoutes(s, &doc, source) {
		nics.Holder[r.Hop], known.Settled[prefix] = inventory.RouteNode(r.Name),
			plan.Settled{Hop: r.Hop}
		nics.Nodes[r.Hop] = strings.ToLower(inventory.RouteNode(r.Name))
	}
	if !plan.LeadsToNodes(s, &doc, source) {
		say(a.err, "routekeeper: %s holds no pod route inside %s; is --pod-cidr right?\n",
			source.ID.Short(), strings.Join(o.podCIDRs, " or "))
	}
	p := plan.Make(s, []v1alpha1.ClusterRoutes{doc})
	return attentionIf(len(p.Changes) > 0 || finding.Blocking(p.Findings),
		report.Planned(p).Write(w, format, style))
}

func checkDiff(o diffOptions) error {
	if len(o.podCIDRs) == 0 {
		return errors.New("--pod-cidr: empty, expected a prefix such as 10.244.0.0/16")
	}
	if o.source == "-" && o.target == "-" {
		return errors.New("--source and --target: standard input can be one of them, not both")
	}
	if err := oneOf("--policy", "value", o.policy, policies); err != nil {
		return err
	}
	if o.maxRoutes < 1 || o.maxRoutes > 1000 {
		return fmt.Errorf("--max-routes: %d is out of range, expected 1 to 1000", o.maxRoutes)
	}
	return nil
}

func readTableFile(a *app, flag, path string) (*inventory.RouteTable, error) {
	data, err := a.readFile(path, input.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if path == "-" {
		path = "standard input"
	}
	table, err := inventory.DecodeRouteTable(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, path, err)
	}
	return table, nil
}

// readFile reads a file up to a limit, or standard input for "-".
func (a *app) readFile(path string, most int64) ([]byte, error) {
	if path == "-" {
		return a.standardInput()
	}
	data, err := input.ReadFile(path, most)
	if err != nil {
		return nil, unread(path, err)
	}
	return data, nil
}

// standardInput returns all of standard input. It works more than once: doctor reads the config a
// second time after repairs.
func (a *app) standardInput() ([]byte, error) {
	if a.piped == nil {
		data, err := io.ReadAll(input.Limit(a.in, input.Large))
		if err != nil {
			return nil, err
		}
		a.piped = append([]byte{}, data...)
	}
	return a.piped, nil
}
