package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/diagnose"
	"routekeeper.dev/routekeeper/internal/egress"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

type traceOptions struct {
	examineOptions
	all, firewall     bool
	protocol, learned string
	port              int
	portGiven         bool
}

func newTrace(a *app) *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use: "trace {FROM TO | --all | --egress} [--cluster NAME | --subscription ID | -f FILE | " +
			"--from-bundle FILE]",
		Short: "Follow a packet from one end to another, and its answer back",
		Long: `Follows a packet hop by hop, and then its answer. For each hop it shows the route
that is used and why, source NAT, and the decisions of network security groups.
At the end it says where the packet arrives, or where and why it is lost. trace
sends no packet: it evaluates what ARM shows. It cannot see what appliances and
gateways do with a packet.

FROM and TO are addresses or names:
  pod/NAMESPACE/NAME   a pod, also NAMESPACE/NAME
  node/NAME            a node
  vm/NAME              a virtual machine
  gateway/NAME         any address in the subnet of an Application Gateway
  subnet/VNET/SUBNET   any address in a subnet
FROM 168.63.129.16 is a probe of a load balancer.
Names of pods need data from Kubernetes: --kubeconfig, --from-nodes and
--from-pods, or a bundle with them.

Several clusters can have the same pod CIDR and the same node names. With
--cluster, trace searches names and addresses in that cluster first, and then in
the networks connected with it. Without --cluster, an ambiguous name or address
is an error.

--all traces from the pods of every node, from every node, and from every subnet
that must reach pods, to the pods of every other node. It shows what is broken,
by cause.

--egress compares the rules of the Azure Firewall behind the nodes' default route
with the destinations that AKS requires for the cluster's features, and names the
rule that decides about each. For another appliance it lists the destinations
that must be allowed. It also shows what the nodes' network security groups
decide about them, and which packets do not take the route that a config (-f)
declares.

ARM does not show the routes that a gateway has learned by BGP, but a running
machine in the network does. Save them with az network nic
show-effective-route-table --ids NIC -o json, and pass the file with --learned.

A packet to the internet needs a public address: trace says whether a NAT
gateway, public IP addresses, a load balancer or default outbound access gives it
one, or that it is dropped. It also says what the packet bypasses: a route or NAT
gateway that a config (-f) declares for the subnet or in spec.egress, or the
firewall of a cluster with outboundType userDefinedRouting.

Exit code 0: delivered, or leaves the visible network; 1: an error; 2: dropped
or bypassing in one of the directions, or a destination that a firewall does not
allow.`,
		Example: `  routekeeper trace 10.244.0.7 10.244.1.9 --cluster shop
  routekeeper trace gateway/shop-agw node/aks-np-12345678-vmss000000 \
    --protocol tcp --port 80 --cluster shop
  routekeeper trace shop/web-0 8.8.8.8 -f routes.yaml
  routekeeper trace shop/web-0 vm/jump --from-bundle shop.tgz -o json
  routekeeper trace --all --subscription <id>
  routekeeper trace --egress --cluster shop
  routekeeper trace --egress --from-bundle shop.tgz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.portGiven = cmd.Flags().Changed("port")
			return runTrace(cmd.Context(), a, o, args)
		},
	}
	examineFlags(a, cmd, &o.examineOptions, true)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case (o.all || o.firewall) && len(args) > 0:
			return fmt.Errorf("unexpected argument %q: --all and --egress take no ends", args[0])
		case !o.all && !o.firewall && len(args) != 2:
			return fmt.Errorf("expected two ends, FROM and TO, or --all or --egress; found %d",
				len(args))
		}
		return nil
	}
	cmd.ValidArgsFunction = a.complete(endNames, 2)
	f := cmd.Flags()
	f.Lookup("cluster").Usage = "trace in the network of this cluster (`NAME` or resource ID)"
	f.BoolVar(&o.all, "all", false, "trace all pairs of nodes, and from all subnets that must "+
		"reach pods")
	f.BoolVar(&o.firewall, "egress", false, "compare the rules of Azure Firewalls with what "+
		"AKS requires")
	cmd.MarkFlagsMutuallyExclusive("all", "egress")
	resolveFlag(cmd, &o.examineOptions)
	f.StringVar(&o.protocol, "protocol", "any", "protocol for network security groups: any, tcp, "+
		"udp or icmp")
	f.IntVar(&o.port, "port", 0, "destination port, with --protocol tcp or udp (default: any)")
	f.StringVar(&o.learned, "learned", "", "`FILE` (or -) with effective routes as az prints "+
		"them, for learned routes")
	completeWith(cmd, "protocol", []string{"any", "tcp", "udp", "icmp"})
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func runTrace(ctx context.Context, a *app, o traceOptions, args []string) error {
	options, err := packetOptions(a, o)
	if err != nil {
		return err
	}
	for i, text := range args { // a bad name is an error before any read
		if err := trace.CheckName(text); err != nil {
			return fmt.Errorf("%s: %w", []string{"FROM", "TO"}[i], err)
		}
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "looking at the network")
	defer progress.stop()
	o.withoutRights, o.egress = true, o.firewall
	e, err := a.examine(ctx, o.examineOptions, progress)
	if err != nil {
		return err
	}
	progress.stop()
	if o.cluster != "" && len(e.Clusters) == 1 {
		options.Cluster = e.Clusters[0]
	}
	options.Declared = verdict.Declared(plan.Facts{Snapshot: e.Snapshot}, e.Configs)
	if o.firewall {
		found := egressOf(e)
		return attentionIf(found.Lacking(), found.Write(w, format, style))
	}
	t := trace.New(e.Snapshot, options)
	if o.all {
		m := report.Matrix{Matrix: t.All(e.Clusters...), Trace: e.tracing}
		return attentionIf(m.Dropped > 0, m.Write(w, format, style))
	}
	ways, err := waysBetween(t, args[0], args[1])
	if err != nil {
		return err
	}
	return attentionIf(ways.Dropped() || ways.Bypassing(), ways.Write(w, format, style))
}

// egressOf compares the egress of the clusters with what AKS requires.
func egressOf(e *examination) report.Egress {
	found := report.Egress{Exits: []egress.Exit{}, Astray: []report.Astray{}, None: []string{},
		Groups: []trace.Filtered{}}
	taken := plan.TakenBy(e.Configs)
	for i := range e.Configs {
		for _, astray := range verdict.AstrayEgress(plan.Facts{Snapshot: e.Snapshot},
			&e.Configs[i], e.Configs, taken) {
			found.Astray = append(found.Astray, report.Astray{
				Cluster: e.Configs[i].Metadata.Name, Egress: astray})
		}
	}
	for _, id := range e.Clusters {
		cluster := e.Snapshot.Cluster(id)
		if cluster == nil || inventory.Clusterless(id) {
			continue
		}
		exits := egress.Of(e.Snapshot, cluster)
		if len(exits) == 0 {
			found.None = append(found.None, id.Name())
		}
		found.Exits = append(found.Exits, exits...)
		found.Groups = append(found.Groups, diagnose.Filtering(e.Snapshot, id)...)
	}
	return found
}

// tracing returns the command that traces one packet.
func (e *examination) tracing(from, to netip.Addr, cluster string) finding.CommandLine {
	command := finding.Command("routekeeper trace %s %s --cluster %s", from, to,
		e.Snapshot.Argument(arm.ID(cluster)))
	if e.bundle != "" {
		return finding.Command("%s --from-bundle %s", command, e.bundle)
	}
	return command
}

// packetOptions returns the options of package trace from the flags.
func packetOptions(a *app, o traceOptions) (trace.Options, error) {
	out := trace.Options{Protocol: strings.ToLower(o.protocol), Port: o.port}
	if out.Protocol == "any" {
		out.Protocol = ""
	}
	switch {
	case !slices.Contains([]string{"", "tcp", "udp", "icmp"}, out.Protocol):
		return out, fmt.Errorf("--protocol: %q is not known, expected any, tcp, udp or icmp",
			o.protocol)
	case o.port < 0 || o.port > 65535 || o.port == 0 && o.portGiven:
		return out, fmt.Errorf("--port: %d is not a port, expected 1 to 65535", o.port)
	case o.port != 0 && out.Protocol != "tcp" && out.Protocol != "udp":
		return out, errors.New("--port: only tcp and udp have ports: give --protocol tcp or udp")
	case o.learned == "":
		return out, nil
	}
	raw, err := a.readFile(o.learned, input.Text)
	if err != nil {
		return out, fmt.Errorf("--learned: %w", err)
	}
	if out.Learned, err = trace.DecodeLearned(raw); err != nil {
		return out, fmt.Errorf("--learned: %s: %w", o.learned, err)
	}
	return out, nil
}

// waysBetween traces a packet between two ends, and its answer.
func waysBetween(t *trace.Tracer, from, to string) (ways report.Ways, err error) {
	if ways.From, err = t.Resolve(from); err != nil {
		return ways, fmt.Errorf("FROM: %w", err)
	}
	if ways.To, err = t.Resolve(to); err != nil {
		return ways, fmt.Errorf("TO: %w", err)
	}
	ways.There, ways.Back = t.Ways(ways.From, ways.To)
	return ways, nil
}
