package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

type traceOptions struct {
	initOptions
	protocol, learned string
	port              int
}

func (a *app) newTrace() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace FROM TO {--subscription ID | --cluster ID}",
		Short: "Follow a packet from one end to another, and its answer back",
		Long: `Follows a packet from one end to another, hop by hop: with the route that is taken in each subnet and why, source NAT where
the network plugin does it, what network security groups decide, and where and why it ends; and then the answer. Nothing is sent: it is
worked out from what ARM shows. What appliances and gateways do with a packet is their own.

FROM and TO are addresses or names: pod/NAMESPACE/NAME or NAMESPACE/NAME, node/NAME, gateway/NAME (any address of its subnet), vm/NAME,
subnet/VNET/SUBNET (any address of it). Pods have names only where Kubernetes was read.

Routes that a gateway has learned by BGP are in no document of ARM; a running machine in the network shows them. Save them with
az network nic show-effective-route-table --ids NIC -o json and give the file with --learned.

Exit code 0: delivered, or out of sight; 1: an error; 2: dropped, in one direction or the other.`,
		Example: `  routekeeper trace 10.244.0.7 10.244.1.9 --cluster /subscriptions/…/managedClusters/shop
  routekeeper trace gateway/shop-agw node/aks-np-12345678-vmss000000 --protocol tcp --port 80 --cluster /subscriptions/…/managedClusters/shop
  routekeeper trace 10.42.2.4 10.244.1.9 --subscription 11111111-1111-1111-1111-111111111111 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("expected two ends, FROM and TO, found %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runTrace(cmd.Context(), o, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "look at all networks of this subscription (`ID`)")
	f.StringVar(&o.cluster, "cluster", "", "look at this cluster and the networks around it (resource `ID`)")
	f.StringVar(&o.protocol, "protocol", "any", "what network security groups see: any, tcp, udp or icmp")
	f.IntVar(&o.port, "port", 0, "destination port, with --protocol tcp or udp (default: any)")
	f.StringVar(&o.learned, "learned", "", "routes that a gateway has learned: effective routes as az prints them (`FILE`, or -)")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"any", "tcp", "udp", "icmp"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsOneRequired("subscription", "cluster")
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// traceAnswer is what -o json says (docs/json.md).
type traceAnswer struct {
	From  trace.Endpoint `json:"from"`
	To    trace.Endpoint `json:"to"`
	There trace.Way      `json:"there"`
	Back  trace.Way      `json:"back"`
}

func (a *app) runTrace(ctx context.Context, o traceOptions, args []string) error {
	options, err := a.packets(o)
	if err != nil {
		return err
	}
	for i, name := range []string{"FROM", "TO"} { // what is no name at all needs no look around
		if err := trace.CheckName(args[i]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	scope, one, err := o.scope()
	if err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	s, err := a.lookAround(ctx, scope, one)
	if err != nil {
		return err
	}
	return traceWays(trace.New(s, options), args[0], args[1], w, format, style)
}

// packets are the options of package trace.
func (a *app) packets(o traceOptions) (trace.Options, error) {
	out := trace.Options{Protocol: strings.ToLower(o.protocol), Port: o.port}
	if out.Protocol == "any" {
		out.Protocol = ""
	}
	switch {
	case !slices.Contains([]string{"", "tcp", "udp", "icmp"}, out.Protocol):
		return out, fmt.Errorf("--protocol: %q is none, expected any, tcp, udp or icmp", o.protocol)
	case o.port < 0 || o.port > 65535:
		return out, fmt.Errorf("--port: %d is none, expected 1 to 65535", o.port)
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

// traceWays shows the ways between two ends.
func traceWays(t *trace.Tracer, fromText, toText string, w io.Writer, format report.Format, style report.Style) error {
	var answer traceAnswer
	var err error
	if answer.From, err = t.Resolve(fromText); err != nil {
		return fmt.Errorf("FROM: %w", err)
	}
	if answer.To, err = t.Resolve(toText); err != nil {
		return fmt.Errorf("TO: %w", err)
	}
	answer.There, answer.Back = t.Ways(answer.From, answer.To)
	if format == report.JSON {
		err = encodeLine(w, answer)
	} else {
		_, err = io.WriteString(w, wayText("there", answer.There, answer.From, answer.To, style)+"\n"+wayText("back", answer.Back, answer.To, answer.From, style))
	}
	if err != nil {
		return err
	}
	if answer.There.Verdict == trace.Dropped || answer.Back.Verdict == trace.Dropped {
		return attention
	}
	return nil
}

func encodeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// lookAround surveys a scope, telling a person that it takes a while.
func (a *app) lookAround(ctx context.Context, scope, one network.ID) (*network.Snapshot, error) {
	progress := a.progress(ctx, "looking at "+scope.Name())
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return nil, err
	}
	return surveyOne(ctx, client, scope, one)
}

func verdictPaint(v trace.Verdict, style report.Style) func(string) string {
	return map[trace.Verdict]func(string) string{trace.Delivered: style.Green, trace.Dropped: style.Red, trace.Leaves: style.Yellow, trace.Unknown: style.Yellow}[v]
}

func wayText(direction string, way trace.Way, from, to trace.Endpoint, style report.Style) string {
	named := func(a netip.Addr, e trace.Endpoint) string {
		if e.What == "" || a != e.Addr {
			return a.String()
		}
		return a.String() + " (" + e.What + ")"
	}
	text := style.Bold(fmt.Sprintf("%s: %s -> %s", direction, named(way.From, from), named(way.To, to))) + "\n"
	rows := make([][]string, len(way.Hops))
	for i, h := range way.Hops {
		rows[i] = []string{fmt.Sprintf("  %d. %s", i+1, h.At), h.What, style.Dim(h.Route)}
	}
	for i, line := range report.Columns(rows) {
		text += line + "\n"
		if h := way.Hops[i]; h.Because != "" {
			text += style.Dim("     route: "+h.Because) + "\n"
		}
		for _, r := range way.Hops[i].Filters {
			text += style.Dim("     "+map[bool]string{true: "in", false: "out"}[r.Inbound]+": "+r.Why) + "\n"
		}
	}
	text += "  " + verdictPaint(way.Verdict, style)(string(way.Verdict)) + ": " + way.Why + "\n"
	for _, u := range way.Unseen {
		text += style.Dim("  not seen: "+u) + "\n"
	}
	return text
}
