package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/survey"
)

type capacityOptions struct {
	subnet, podSubnet, podCIDR string
	plugin, surge              string
	maxPods, other, maxRoutes  int
	dualStack, formulas        bool
	need                       capacity.Need
	cluster, bundle            string
}

func newCapacity(a *app) *cobra.Command {
	var o capacityOptions
	cmd := &cobra.Command{
		Use: "capacity {--subnet CIDR | --need-nodes N | --need-pods N | --cluster NAME | " +
			"--from-bundle FILE}",
		Short: "Calculate how many nodes and pods fit, or how large subnets must be",
		Long: `With --subnet, capacity says how many nodes and pods fit, and what limits them.
With --need-nodes and --need-pods, it says how large the subnets must be. With
both, it says whether the nodes and pods fit. It always reserves room for an
upgrade (--surge). It makes no connection.

With --cluster, it reads a cluster and says how far each pool can grow while the
other pools keep their size, and whether the autoscaler's maximum fits.

Exit code 0: it fits with at least one of the plugins, or every autoscaler's
maximum fits; 1: an error; 2: it does not fit.`,
		Example: `  routekeeper cluster capacity --subnet 10.0.0.0/24
  routekeeper cluster capacity --subnet /22 --plugin overlay \
    --pod-cidr 10.244.0.0/16 --show-formulas
  routekeeper cluster capacity --need-nodes 50 --need-pods 1500 -o markdown
  routekeeper cluster capacity --cluster shop`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.cluster != "" || o.bundle != "" {
				return runGrowth(cmd.Context(), a, o)
			}
			return runCapacity(a, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.subnet, "subnet", "", "node subnet: a `CIDR`, or its length such as /24")
	f.StringVar(&o.podSubnet, "pod-subnet", "", "pod subnet (`CIDR` or length), for pod-subnet "+
		"and pod-subnet-static")
	f.StringVar(&o.podCIDR, "pod-cidr", "10.244.0.0/16",
		"pod `CIDR` (or its length), for kubenet and overlay")
	f.StringVar(&o.plugin, "plugin", "all",
		"kubenet, node-subnet, pod-subnet, pod-subnet-static, overlay, or all of them")
	f.IntVar(&o.maxPods, "max-pods", 0, "pods per node (default 30 with node-subnet, 250 with "+
		"overlay, otherwise 110)")
	f.StringVar(&o.surge, "surge", "1", "additional nodes during an upgrade: a number, or a "+
		"percentage of the nodes")
	f.IntVar(&o.other, "other", 0, "addresses of the node subnet that other resources use")
	f.IntVar(&o.maxRoutes, "max-routes", inventory.DefaultRouteLimit,
		"routes that a route table can hold, for kubenet")
	f.BoolVar(&o.dualStack, "dual-stack", false, "IPv4 and IPv6: two routes a node with kubenet")
	f.IntVar(&o.need.Nodes, "need-nodes", 0, "`N` nodes are needed")
	f.IntVar(&o.need.Pods, "need-pods", 0, "`N` pods are needed")
	f.StringVar(&o.cluster, "cluster", "", "calculate how far the pools of this cluster can grow "+
		"(`NAME` or resource ID)")
	f.StringVar(&o.bundle, "from-bundle", "", "read the cluster from this `FILE` of routekeeper "+
		"doctor collect")
	completeFlag(cmd, "cluster", a.complete(a.clusterNames, 1))
	_ = cmd.MarkFlagFilename("from-bundle", "tgz")
	f.BoolVar(&o.formulas, "show-formulas", false, "show how each limit was calculated")
	completeWith(cmd, "plugin", append([]string{"all"}, pluginNames()...))
	a.timeoutFlag(cmd)
	cmd.MarkFlagsOneRequired("subnet", "need-nodes", "need-pods", "cluster", "from-bundle")
	for _, other := range []string{"subnet", "need-nodes", "need-pods", "plugin", "pod-cidr",
		"pod-subnet", "max-pods", "other", "dual-stack", "show-formulas"} {
		cmd.MarkFlagsMutuallyExclusive("cluster", other)
		cmd.MarkFlagsMutuallyExclusive("from-bundle", other)
	}
	a.outputFlags(cmd, report.Text, report.Short, report.JSON, report.Markdown)
	return cmd
}

// setups makes a setup from the flags for each plugin.
func (o capacityOptions) setups() ([]capacity.Setup, error) {
	common := capacity.Setup{MaxPods: o.maxPods, Other: o.other, RouteLimit: o.maxRoutes,
		DualStack: o.dualStack}
	var err error
	for _, p := range []struct {
		flag, text string
		into       *netip.Prefix
	}{{"--subnet", o.subnet, &common.Subnet}, {"--pod-subnet", o.podSubnet, &common.PodSubnet}, {
		"--pod-cidr", o.podCIDR, &common.PodCIDR}} {
		if *p.into, err = prefixOrLength(p.text); err != nil {
			return nil, fmt.Errorf("%s: %w", p.flag, err)
		}
	}
	if common.Surge, err = capacity.ParseSurge(o.surge); err != nil {
		return nil, fmt.Errorf("--surge: %w", err)
	}
	switch {
	case o.maxPods != 0 && (o.maxPods < capacity.LeastMaxPods || o.maxPods > capacity.MostMaxPods):
		return nil, fmt.Errorf("--max-pods: %d is out of range, expected %d to %d", o.maxPods,
			capacity.LeastMaxPods, capacity.MostMaxPods)
	case o.other < 0:
		return nil, fmt.Errorf("--other: %d is out of range, expected 0 or more", o.other)
	case o.need.Nodes < 0:
		return nil, fmt.Errorf("--need-nodes: %d is out of range, expected 1 or more", o.need.Nodes)
	case o.need.Pods < 0:
		return nil, fmt.Errorf("--need-pods: %d is out of range, expected 1 or more", o.need.Pods)
	case o.subnet == "" && o.need.Nodes == 0 && o.need.Pods == 0:
		return nil, errors.New("--need-nodes, --need-pods: expected one of them to be 1 or more")
	case o.maxRoutes < 1 || o.maxRoutes > 1000:
		return nil, fmt.Errorf("--max-routes: %d is out of range, expected 1 to 1000", o.maxRoutes)
	}
	plugins := capacity.Plugins()
	if o.plugin != "all" {
		plugin, err := capacity.ParsePlugin(o.plugin)
		if err != nil {
			return nil, fmt.Errorf("--plugin: %w, or all", err)
		}
		plugins = []capacity.Plugin{plugin}
	}
	setups := make([]capacity.Setup, len(plugins))
	for i, p := range plugins {
		setups[i] = common
		setups[i].Plugin = p
	}
	return setups, nil
}

// prefixOrLength reads 10.0.0.0/24, or /24 if only the size matters.
func prefixOrLength(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	whole := text
	if strings.HasPrefix(text, "/") {
		whole = "0.0.0.0" + text
	}
	p, err := netip.ParsePrefix(whole)
	switch {
	case err != nil || !p.Addr().Is4():
		return p, fmt.Errorf("%q is neither an IPv4 prefix nor its length, expected one such as "+
			"10.0.0.0/24 or /24", text)
	case p != p.Masked():
		return p, fmt.Errorf("%s has host bits set, expected %s", text, p.Masked())
	case p.Bits() < 8 || p.Bits() > 29:
		return p, fmt.Errorf("%s is out of range, expected /8 to /29", text)
	}
	return p, nil
}

func runCapacity(a *app, o capacityOptions) error {
	setups, err := o.setups()
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	answer := report.Capacity{Formulas: o.formulas}
	needed, fits := o.need != (capacity.Need{}), false
	for _, s := range setups {
		if needed {
			sizes := s.SizesFor(o.need)
			answer.Needs = append(answer.Needs, sizes)
			fits = fits || o.subnet == "" && sizes.TooMuch == ""
		}
		if o.subnet != "" {
			fit := report.Fit{Fit: s.Fits()}
			enough := fit.Nodes > 0
			if needed {
				enough = fit.Meets(o.need)
				fit.Enough = &enough
			}
			fits = fits || enough
			answer.Fits = append(answer.Fits, fit)
		}
	}
	if o.podSubnet == "" && (o.plugin == "all" || strings.HasPrefix(o.plugin, "pod-subnet")) {
		answer.Note = "Without --pod-subnet, pod-subnet and pod-subnet-static count the nodes' " +
			"subnet only."
	}
	if err := answer.Write(w, format, style); err != nil {
		return err
	}
	if !fits {
		return attention
	}
	return nil
}

// runGrowth reports how far the pools of a cluster can grow.
func runGrowth(ctx context.Context, a *app, o capacityOptions) error {
	surge, err := capacity.ParseSurge(o.surge)
	if err != nil {
		return fmt.Errorf("--surge: %w", err)
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	s, cluster, err := clusterToGrow(ctx, a, o)
	if err != nil {
		return err
	}
	pools, unseen, err := diagnose.Pools(s, cluster, surge, o.maxRoutes)
	if err != nil {
		return err
	}
	growth := capacity.Grow(pools)
	if err := (report.Growth{Pools: growth, Unseen: unseen}).Write(w, format, style); err != nil {
		return err
	}
	short := func(g capacity.Growth) bool { return g.Enough != nil && !*g.Enough }
	if slices.ContainsFunc(growth, short) {
		return attention
	}
	return nil
}

// clusterToGrow reads the cluster: from a bundle, or from Azure by its ID.
func clusterToGrow(ctx context.Context, a *app, o capacityOptions) (*inventory.Snapshot,
	*inventory.Cluster, error) {
	if o.bundle != "" {
		e, err := openBundle(ctx,
			examineOptions{initOptions: initOptions{cluster: o.cluster}, bundle: o.bundle})
		if err != nil {
			return nil, nil, err
		}
		if names := e.names(); len(names) != 1 {
			return nil, nil, fmt.Errorf("--from-bundle: %s: several clusters are in it, name one "+
				"with --cluster: %s", o.bundle, strings.Join(names, ", "))
		}
		return e.Snapshot, e.Snapshot.Cluster(e.Clusters[0]), nil
	}
	in := initOptions{cluster: o.cluster}
	if err := in.check(); err != nil {
		return nil, nil, err
	}
	progress := a.progress(ctx, "reading the cluster")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, nil, err
	}
	scope, one, err := in.find(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	s, err := survey.Of(ctx, client, scope, oneOrNone(one))
	if err != nil {
		return nil, nil, err
	}
	return s, s.Cluster(one), nil
}
