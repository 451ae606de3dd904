package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

type traceOptions struct {
	examineOptions
	all               bool
	protocol, learned string
	port              int
}

func (a *app) newTrace() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace {FROM TO | --all} [--cluster NAME | --subscription ID | -f FILE | --from-bundle FILE]",
		Short: "Follow a packet from one end to another, and its answer back",
		Long: `Follows a packet from one end to another, hop by hop: with the route that is taken in each subnet and why, source NAT where
the network plugin does it, what network security groups decide, and where and why it ends; and then the answer. Nothing is sent: it is
worked out from what ARM shows. What appliances and gateways do with a packet is their own.

FROM and TO are addresses or names: pod/NAMESPACE/NAME or NAMESPACE/NAME, node/NAME, gateway/NAME (any address of its subnet), vm/NAME,
subnet/VNET/SUBNET (any address of it). Pods have names only where Kubernetes was read: --from-nodes and --from-pods, or a bundle with them.

Several clusters can have the same pod CIDR, and nodes of the same names. With --cluster, names and addresses are those
of that cluster and of the networks that it is connected with, its own first. Without it, what is in several places is an error.

--all follows a packet from the pods of every node, from every node and from every subnet that is to reach pods, to the pods of every other
node, and shows what is broken, by cause.

Routes that a gateway has learned by BGP are in no document of ARM; a running machine in the network shows them. Save them with
az network nic show-effective-route-table --ids NIC -o json and give the file with --learned.

Exit code 0: delivered, or out of sight; 1: an error; 2: dropped, in one direction or the other.`,
		Example: `  routekeeper trace 10.244.0.7 10.244.1.9 --cluster /subscriptions/…/managedClusters/shop
  routekeeper trace gateway/shop-agw node/aks-np-12345678-vmss000000 --protocol tcp --port 80 --cluster /subscriptions/…/managedClusters/shop
  routekeeper trace shop/web-0 vm/jump --from-bundle shop.tgz -o json
  routekeeper trace --all --subscription 11111111-1111-1111-1111-111111111111`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.runTrace(cmd.Context(), o, args) },
	}
	examineFlags(cmd, &o.examineOptions, true)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case o.all && len(args) > 0:
			return fmt.Errorf("unexpected argument %q: --all takes no ends", args[0])
		case !o.all && len(args) != 2:
			return fmt.Errorf("expected two ends, FROM and TO, or --all; found %d", len(args))
		}
		return nil
	}
	f := cmd.Flags()
	f.Lookup("cluster").Usage = "look at this cluster, and as it sees the network (`NAME` or resource ID)"
	f.BoolVar(&o.all, "all", false, "trace all pairs of nodes, and from all subnets that are to reach pods")
	f.StringVar(&o.protocol, "protocol", "any", "what network security groups see: any, tcp, udp or icmp")
	f.IntVar(&o.port, "port", 0, "destination port, with --protocol tcp or udp (default: any)")
	f.StringVar(&o.learned, "learned", "", "routes that a gateway has learned: effective routes as az prints them (`FILE`, or -)")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"any", "tcp", "udp", "icmp"}, cobra.ShellCompDirectiveNoFileComp))
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func (a *app) runTrace(ctx context.Context, o traceOptions, args []string) error {
	options, err := a.packets(o)
	if err != nil {
		return err
	}
	for i, text := range args { // what is no name at all needs no look around
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
	o.rightless = true
	if !strings.HasPrefix(o.cluster, "/") { // a name will do, as for a diagnosis
		o.name, o.cluster = o.cluster, ""
	}
	e, err := a.examine(ctx, o.examineOptions, progress)
	if err != nil {
		return err
	}
	progress.stop()
	if (o.name != "" || o.cluster != "") && len(e.Clusters) == 1 {
		options.Cluster = e.Clusters[0]
	}
	t := trace.New(e.Snapshot, options)
	if o.all {
		m := report.Matrix{Matrix: t.All(e.Clusters...)}
		return dropped(m.Dropped > 0, m.Write(w, format, style))
	}
	ways, err := waysBetween(t, args[0], args[1])
	if err != nil {
		return err
	}
	return dropped(ways.Dropped(), ways.Write(w, format, style))
}

// dropped is the exit code of a trace that was written, or could not be.
func dropped(any bool, err error) error {
	if err == nil && any {
		return attention
	}
	return err
}

// packets are the options of package trace.
func (a *app) packets(o traceOptions) (trace.Options, error) {
	out := trace.Options{Protocol: strings.ToLower(o.protocol), Port: o.port}
	if out.Protocol == "any" {
		out.Protocol = ""
	}
	switch {
	case !slices.Contains([]string{"", "tcp", "udp", "icmp"}, out.Protocol):
		return out, fmt.Errorf("--protocol: %q is not known, expected any, tcp, udp or icmp", o.protocol)
	case o.port < 0 || o.port > 65535:
		return out, fmt.Errorf("--port: %d is not a port, expected 1 to 65535", o.port)
	case o.port != 0 && out.Protocol != "tcp" && out.Protocol != "udp":
		return out, errors.New("--port: only tcp and udp have ports: give --protocol tcp or udp")
	case o.learned == "":
		return out, nil
	}
	raw, err := a.readFile(o.learned)
	if err == nil {
		out.Learned, err = trace.DecodeLearned(raw)
	}
	if err != nil {
		return out, fmt.Errorf("--learned %s: %w", o.learned, err)
	}
	return out, nil
}

// waysBetween follows a packet between two ends, and its answer.
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
