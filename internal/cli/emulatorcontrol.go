package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

// breaks are the faults that emulator break injects into the calls of routekeeper's identity.
var breaks = map[string]struct {
	what  string
	fault emulator.Fault
}{
	"outage": {"every connection ends without an answer", emulator.Fault{Cut: "before"}},
	"hang":   {"no call gets an answer", emulator.Fault{Hold: "before"}},
	"throttle": {"every call is answered with 429",
		emulator.Fault{Status: 429, Code: "TooManyRequests", RetryAfter: 5}},
	"refuse": {"every PUT is refused with 403",
		emulator.Fault{Method: "PUT", Status: 403, Code: "AuthorizationFailed"}},
	"conflict": {"every PUT is answered with 409",
		emulator.Fault{Method: "PUT", Status: 409, Code: "AnotherOperationInProgress"}},
	"fail": {"every PUT is accepted, and fails",
		emulator.Fault{Method: "PUT", Fail: true, Code: "InternalServerError"}},
	"lost-answers": {"every PUT takes effect, and its answer is lost",
		emulator.Fault{Method: "PUT", Cut: "after"}},
	"stale": {"reads show what was before the last write", emulator.Fault{Stale: true}},
}

func newEmulatorList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List clusters, subnets, route tables and faults of a running emulator",
		Example: "  routekeeper --emulator .azure-local emulator list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			running, err := a.runningEmulator(cmd.Context())
			if err != nil {
				return err
			}
			return listEmulator(cmd.Context(), a, running)
		},
	}
	a.outputFlags(cmd, report.Text, report.Short, report.Markdown, report.JSON)
	return cmd
}

func newEmulatorScale(a *app) *cobra.Command {
	pool := ""
	cmd := &cobra.Command{
		Use:   "scale CLUSTER COUNT",
		Short: "Set the number of nodes of a cluster of a running emulator",
		Long: `Sets the number of nodes of a pool, as the autoscaler does. The cluster's cloud
provider then writes the routes of new nodes into the cluster's route table.`,
		Example:           "  routekeeper --emulator .azure-local emulator scale shop 5",
		ValidArgsFunction: a.complete(a.clusterNames, 1),
		Args:              exactly("CLUSTER and COUNT", 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			count, err := strconv.Atoi(args[1])
			if err != nil || count < 0 {
				return fmt.Errorf("COUNT: %q is not a number of nodes, expected one such as 5",
					args[1])
			}
			running, err := a.runningEmulator(cmd.Context())
			if err != nil {
				return err
			}
			cluster, err := running.cluster(args[0])
			if err != nil {
				return err
			}
			if pool == "" && len(cluster.Pools) > 0 {
				pool = cluster.Pools[0].Name
			}
			body := map[string]any{"cluster": cluster.ID, "pool": pool, "count": count}
			if err := running.control(cmd.Context(), http.MethodPost, "scale", body); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "scaled pool %s of cluster %s to %d nodes\n", pool,
				cluster.ID.Name(), count)
			return nil
		},
	}
	cmd.Flags().StringVar(&pool, "pool", "", "the `name` of the pool, the first one by default")
	return cmd
}

func newEmulatorStrip(a *app) *cobra.Command {
	everything := false
	cmd := &cobra.Command{
		Use:   "strip VNET/SUBNET...",
		Short: "Take the route table off subnets, as a redeploy does",
		Long: `Writes subnets without their route tables, as a redeploy of an infrastructure
pipeline does. It uses another identity than routekeeper.`,
		Example: `  routekeeper --emulator .azure-local emulator strip shop-vnet/nodes
  routekeeper --emulator .azure-local emulator strip nodes --everything`,
		Args:              atLeastOne("VNET/SUBNET"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			running, err := a.runningEmulator(cmd.Context())
			if err != nil {
				return err
			}
			var subnets []arm.ID
			for _, name := range args {
				subnet, err := running.subnet(name)
				if err != nil {
					return err
				}
				subnets = append(subnets, subnet)
			}
			for _, id := range subnets {
				written, err := running.others.Write(cmd.Context(), id,
					func(doc arm.Document) ([]byte, error) {
						return stripped(doc.Raw, everything)
					}, nil)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.out, "stripped %s\n", written.After.ID.Short())
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&everything, "everything", false, "also the NAT gateway and the network "+
		"security group")
	return cmd
}

// stripped returns a subnet's document without its route table, or without all properties that the
// guard knows. It returns nil if the subnet has none of them.
func stripped(subnet []byte, everything bool) (body []byte, err error) {
	properties := inventory.Properties[:1]
	if everything {
		properties = inventory.Properties
	}
	rest := subnet
	for _, p := range properties {
		if at := "properties." + string(p); gjson.GetBytes(rest, at+".id").Exists() {
			if rest, err = sjson.DeleteBytes(rest, at); err != nil {
				return nil, err
			}
			body = rest
		}
	}
	return body, nil
}

func newEmulatorBreak(a *app) *cobra.Command {
	count, path := -1, ""
	names := append(slices.Sorted(maps.Keys(breaks)), "none")
	var long strings.Builder
	long.WriteString("Injects a fault into the calls that routekeeper's identity makes. \"break " +
		"none\"\nends all faults.\n\nFaults:")
	for _, name := range names[:len(breaks)] {
		fmt.Fprintf(&long, "\n  %-14s %s", name, breaks[name].what)
	}
	cmd := &cobra.Command{
		Use:   "break FAULT|none",
		Short: "Make calls to a running emulator fail",
		Long:  long.String(),
		Example: `  routekeeper --emulator .azure-local emulator break throttle --count 20
  routekeeper --emulator .azure-local emulator break none`,
		Args:              exactly("FAULT", 1),
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, known := breaks[args[0]]
			if !known && args[0] != "none" {
				return fmt.Errorf("FAULT: %q is not known, expected %s or none", args[0],
					strings.Join(names[:len(breaks)], ", "))
			}
			running, err := a.runningEmulator(cmd.Context())
			if err != nil {
				return err
			}
			if !known {
				if err := running.control(cmd.Context(), http.MethodDelete, "faults",
					nil); err != nil {
					return err
				}
				fmt.Fprintln(a.out, "removed all faults")
				return nil
			}
			f := kind.fault
			f.Principal, f.Count, f.Path = emulator.DefaultPrincipal.Name, count, path
			if err := running.control(cmd.Context(), http.MethodPost, "faults", f); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s; to end this: %s\n", kind.what,
				finding.Command("routekeeper emulator break none"))
			return nil
		},
	}
	cmd.Flags().IntVar(&count, "count", -1, "how many calls fail, -1 for all")
	cmd.Flags().StringVar(&path, "path", "", "only calls whose path matches this regular "+
		"`expression`")
	return cmd
}

func exactly(what string, n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("expected %s", what)
		}
		return nil
	}
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("expected %s", what)
		}
		return nil
	}
}

// runningEmulator is an emulator that another process serves.
type runningEmulator struct {
	info   emulator.Info
	seen   *inventory.Snapshot
	others *azure.Client // as an infrastructure pipeline
}

func (a *app) runningEmulator(ctx context.Context) (*runningEmulator, error) {
	if a.emulatorDir == "" {
		return nil, errors.New("expected --emulator DIR, or the environment variable " +
			"ROUTEKEEPER_EMULATOR")
	}
	info, err := findLocal(ctx, a.emulatorDir)
	if err != nil {
		return nil, fmt.Errorf("--emulator: %w", err)
	}
	r := &runningEmulator{info: info}
	info.ClientID, info.ClientSecret = demo.Operator.ClientID, demo.Operator.Secret
	if r.others, err = connectEmulator(info, azure.Options{}); err != nil {
		return nil, err
	}
	var scopes []arm.ID
	for _, subscription := range info.Subscriptions {
		if _, elsewhere := info.Tenants[subscription]; !elsewhere {
			scopes = append(scopes, arm.SubscriptionID(subscription))
		}
	}
	r.seen, err = r.others.Survey(ctx, scopes...)
	return r, err
}

// cluster finds a cluster by its name or ID.
func (r *runningEmulator) cluster(name string) (*inventory.Cluster, error) {
	id, err := theOnly("cluster", name, clustersOf(r.seen))
	return r.seen.Cluster(id), err
}

// subnet finds a subnet by its name, by VNET/SUBNET or by its ID.
func (r *runningEmulator) subnet(name string) (arm.ID, error) {
	var all []arm.ID
	for _, key := range slices.Sorted(maps.Keys(r.seen.Subnets)) {
		all = append(all, r.seen.Subnets[key].ID)
	}
	return theOnly("subnet", name, all)
}

// theOnly returns the only resource that a name identifies: the name at the end of its ID,
// VNET/SUBNET, or the whole ID.
func theOnly(kind, name string, all []arm.ID) (arm.ID, error) {
	var names, found []string
	for _, id := range all {
		names = append(names, id.Short())
		if strings.EqualFold(id.Short(), name) || strings.EqualFold(id.Name(), name) ||
			id.Equal(arm.ID(name)) {
			found = append(found, string(id))
		}
	}
	switch near := trace.Near(name, names); {
	case len(found) == 1:
		return arm.ID(found[0]), nil
	case len(found) > 1:
		return "", fmt.Errorf("%s %q is ambiguous: %s", kind, name, strings.Join(found, ", "))
	case near != "":
		return "", fmt.Errorf("the emulator has no %s %q%s", kind, name, near)
	}
	return "", fmt.Errorf("the emulator has no %s %q; routekeeper emulator list shows what it has",
		kind, name)
}

func (r *runningEmulator) control(ctx context.Context, method, name string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = r.controlAnswer(ctx, method, name, raw)
	return err
}

func (r *runningEmulator) controlAnswer(ctx context.Context, method, name string,
	body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.info.HTTP+"/_emulator/"+name,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		var refusal struct{ Error string }
		if json.Unmarshal(answer, &refusal) == nil && refusal.Error != "" {
			return nil, errors.New(refusal.Error)
		}
		return nil, fmt.Errorf("the emulator answered %s", response.Status)
	}
	return answer, nil
}

// emulatorResource is a line of emulator list.
type emulatorResource struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	What string `json:"what"`
	ID   arm.ID `json:"id,omitempty"`
}

func listEmulator(ctx context.Context, a *app, r *runningEmulator) error {
	list := []emulatorResource{}
	for _, key := range slices.Sorted(maps.Keys(r.seen.Clusters)) {
		c := r.seen.Clusters[key]
		var pools []string
		for _, p := range c.Pools {
			pools = append(pools, fmt.Sprintf("%s %d", p.Name, p.Count))
		}
		list = append(list,
			emulatorResource{"cluster", c.ID.Name(), strings.Join(pools, ", "), c.ID})
	}
	for _, key := range slices.Sorted(maps.Keys(r.seen.Subnets)) {
		s := r.seen.Subnets[key]
		what := "no route table"
		if s.RouteTable != "" {
			what = s.RouteTable.Name()
		}
		list = append(list, emulatorResource{"subnet", s.ID.Short(), what, s.ID})
	}
	for _, key := range slices.Sorted(maps.Keys(r.seen.Tables)) {
		t := r.seen.Tables[key]
		list = append(list, emulatorResource{"route table", t.ID.Name(),
			finding.Count(len(t.Routes()), "route"), t.ID})
	}
	answer, err := r.controlAnswer(ctx, http.MethodGet, "faults", nil)
	if err != nil {
		return err
	}
	var faults []emulator.Fault
	if err := json.Unmarshal(answer, &faults); err != nil {
		return err
	}
	for _, f := range faults {
		list = append(list, emulatorResource{Kind: "fault", Name: breakName(f),
			What: finding.Count(f.Fired, "call") + " so far"})
	}
	table := report.Table{Header: []string{"kind", "name", "what"},
		Value: map[string]any{"resources": list}}
	for _, l := range list {
		table.Rows = append(table.Rows, []string{l.Kind, l.Name, l.What})
	}
	out, format, style, err := a.output()
	if err != nil {
		return err
	}
	return table.Write(out, format, style)
}

// breakName returns the name of a fault in emulator break.
func breakName(f emulator.Fault) string {
	for name, kind := range breaks {
		k := kind.fault
		if k.Method == f.Method && k.Status == f.Status && k.Cut == f.Cut && k.Hold == f.Hold &&
			k.Fail == f.Fail && k.Stale == f.Stale {
			return name
		}
	}
	return "of another kind"
}
