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

	"routekeeper.dev/routekeeper/internal/finding"
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
		Use:   "trace {FROM TO | --all} [--cluster ID | --subscription ID | -f FILE | --from-bundle FILE]",
		Short: "Follow a packet from one end to another, and its answer back",
		Long: `Follows a packet from one end to another, hop by hop: with the route that is taken in each subnet and why, source NAT where
the network plugin does it, what network security groups decide, and where and why it ends; and then the answer. Nothing is sent: it is
worked out from what ARM shows. What appliances and gateways do with a packet is their own.

FROM and TO are addresses or names: pod/NAMESPACE/NAME or NAMESPACE/NAME, node/NAME, gateway/NAME (any address of its subnet), vm/NAME,
subnet/VNET/SUBNET (any address of it). Pods have names only where Kubernetes was read: --from-nodes and --from-pods, or a bundle with them.

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
	f.BoolVar(&o.all, "all", false, "trace all pairs of nodes, and from all subnets that are to reach pods")
	f.StringVar(&o.protocol, "protocol", "any", "what network security groups see: any, tcp, udp or icmp")
	f.IntVar(&o.port, "port", 0, "destination port, with --protocol tcp or udp (default: any)")
	f.StringVar(&o.learned, "learned", "", "routes that a gateway has learned: effective routes as az prints them (`FILE`, or -)")
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions([]string{"any", "tcp", "udp", "icmp"}, cobra.ShellCompDirectiveNoFileComp))
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
	e, err := a.examine(ctx, o.examineOptions, progress)
	if err != nil {
		return err
	}
	progress.stop()
	t := trace.New(e.Snapshot, options)
	if o.all {
		return traceAll(t.All(e.Clusters...), w, format, style)
	}
	return traceWays(t, args[0], args[1], w, format, style)
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

// traceAll shows what is broken among all pairs.
func traceAll(m trace.Matrix, w io.Writer, format report.Format, style report.Style) error {
	var err error
	if format == report.JSON {
		err = encodeLine(w, m)
	} else {
		_, err = io.WriteString(w, matrixText(m, style))
	}
	if err == nil && m.Dropped > 0 {
		return attention
	}
	return err
}

// matrixText is a sentence and then the causes, worst first, with the ends as far as they fit a line.
func matrixText(m trace.Matrix, style report.Style) string {
	text, paint := fmt.Sprintf("all of %s are delivered", report.Count(m.Pairs, "pair")), style.Green
	if m.Delivered < m.Pairs {
		text, paint = fmt.Sprintf("of %s %d are delivered, %d dropped, %d unknown", report.Count(m.Pairs, "pair"), m.Delivered, m.Dropped, m.Unknown), style.Bold
	}
	if m.Pairs == 0 {
		text, paint = "no node's pods are known: there is nothing to trace", style.Bold
	}
	text = paint(text) + "\n"
	for _, b := range m.Broken {
		direction := ""
		if b.Answer {
			direction = ", the answer"
		}
		text += fmt.Sprintf("\n%s %s, %s%s: %s\n", verdictPaint(b.Verdict, style)(string(b.Verdict)), report.Count(b.Pairs, "pair"), b.Kind, direction, report.Plain(b.Why))
		text += fmt.Sprintf("  from %s to the pods of %s\n", report.Plain(some(b.From)), report.Plain(some(b.To)))
		text += style.Dim("  see: "+finding.Command("routekeeper trace %s %s", b.Example[0], b.Example[1]).String()) + "\n"
	}
	for _, u := range m.Unseen {
		text += style.Dim("not seen: "+u) + "\n"
	}
	return text
}

// some lists a few names, and how many more there are.
func some(names []string) string {
	if len(names) <= 4 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
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
	text += "  " + verdictPaint(way.Verdict, style)(string(way.Verdict)) + ": " + report.Plain(way.Why) + "\n"
	for _, u := range way.Unseen {
		text += style.Dim("  not seen: "+u) + "\n"
	}
	return text
}
