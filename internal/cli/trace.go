package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/network"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

func (a *app) newTrace() *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "trace FROM TO {--subscription ID | --cluster ID}",
		Short: "Follow a packet from one address to another, and its answer back",
		Long: `Follows a packet from one address (of a pod, a node, anything in a subnet) to another, hop by hop: with the route that is
taken in each subnet, source NAT where kubenet does it, and where and why it ends; and then the answer. Nothing is sent: it is worked out
from the route tables, networks and peerings as ARM shows them. Network security groups, what gateways have learned by BGP and
firewalls' rules are not looked at.

Exit code 0: delivered, or out of sight; 1: an error; 2: dropped, in one direction or the other.`,
		Example: `  routekeeper trace 10.244.0.7 10.244.1.9 --cluster /subscriptions/…/managedClusters/shop
  routekeeper trace 10.42.2.4 10.244.1.9 --subscription 11111111-1111-1111-1111-111111111111 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("expected two addresses, FROM and TO, found %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.runTrace(cmd.Context(), o, args[0], args[1]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.subscription, "subscription", "", "look at all networks of this subscription (`ID`)")
	f.StringVar(&o.cluster, "cluster", "", "look at this cluster and the networks around it (resource `ID`)")
	cmd.MarkFlagsOneRequired("subscription", "cluster")
	cmd.MarkFlagsMutuallyExclusive("subscription", "cluster")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// traceAnswer is what -o json says (docs/json.md).
type traceAnswer struct {
	There trace.Way `json:"there"`
	Back  trace.Way `json:"back"`
}

func (a *app) runTrace(ctx context.Context, o initOptions, fromText, toText string) error {
	from, err := netip.ParseAddr(fromText)
	if err != nil {
		return fmt.Errorf("FROM: %q is not an address, expected one such as 10.244.0.7", fromText)
	}
	to, err := netip.ParseAddr(toText)
	if err != nil {
		return fmt.Errorf("TO: %q is not an address, expected one such as 10.244.1.9", toText)
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
	var answer traceAnswer
	answer.There, answer.Back = trace.Ways(s, from, to, nil)
	if format == report.JSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		err = e.Encode(answer)
	} else {
		_, err = io.WriteString(w, wayText("there", answer.There, style)+"\n"+wayText("back", answer.Back, style))
	}
	if err != nil {
		return err
	}
	if answer.There.Verdict == trace.Dropped || answer.Back.Verdict == trace.Dropped {
		return attention
	}
	return nil
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

func wayText(direction string, way trace.Way, style report.Style) string {
	paint := map[trace.Verdict]func(string) string{trace.Delivered: style.Green, trace.Dropped: style.Red, trace.Leaves: style.Yellow, trace.Unknown: style.Yellow}[way.Verdict]
	text := style.Bold(fmt.Sprintf("%s: %s -> %s", direction, way.From, way.To)) + "\n"
	rows := make([][]string, len(way.Hops))
	for i, h := range way.Hops {
		rows[i] = []string{fmt.Sprintf("  %d. %s", i+1, h.At), h.What, style.Dim(h.Route)}
	}
	for _, line := range report.Columns(rows) {
		text += line + "\n"
	}
	return text + "  " + paint(string(way.Verdict)) + ": " + way.Why + "\n"
}
