package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
)

type emulatorOptions struct {
	dir, listen, listenHTTP string
	scenario, faults        string
	subscriptions, tenants  int
	persist, verbose        bool
	asOf                    string
	apiServer, etcd         string
	azure                   emulator.Options
}

// scenarios are the values of --scenario.
var scenarios = []string{"empty", "demo", "fleet"}

func newEmulator(a *app) *cobra.Command {
	var o emulatorOptions
	cmd := &cobra.Command{
		Use:   "emulator --dir DIR",
		Short: "Run a local Azure emulator: ARM with networks, route tables and AKS",
		Long: `Runs a local Azure emulator on loopback. It serves HTTPS, and plain HTTP on a
second port, which also takes control calls under /_emulator/ (scale a pool,
read the request log, inject faults). When both accept connections,
DIR/emulator.json says where they are and how to log in. DIR/ca.pem is the
certificate authority to trust.

Scenarios:
  demo    the network, cluster and route tables of routekeeper demo
  fleet   30 clusters, one of 50 and one of 390 nodes: four broken, one stopped,
          one that migrates, one with a network that cannot be read, and others
          with what blocks their migration off kubenet
  empty   subscriptions only

The commands list, scale, strip and break work on a running emulator. Name its
folder with --emulator.

With --kube-apiserver, each cluster gets its own real Kubernetes API server,
etcd, controllers and scheduler at its first call. Nodes and pods are simulated.
Without it, a small API server shows nodes and pods and refuses writes.`,
		Example: `  routekeeper emulator --dir .azure-local --scenario demo
  export ROUTEKEEPER_EMULATOR=.azure-local
  routekeeper sync -f routes.yaml --dry-run
  routekeeper emulator scale shop 5
  routekeeper emulator strip shop-vnet/nodes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runEmulator(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "folder for emulator.json and ca.pem (`DIR`)")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` for HTTPS")
	f.StringVar(&o.listenHTTP, "listen-http", "127.0.0.1:0",
		"`address` for plain HTTP and control calls")
	f.StringVar(&o.scenario, "scenario", "empty", "what exists at the start: empty, demo or fleet")
	f.StringVar(&o.faults, "faults", "", "faults to inject from the start: a YAML or JSON list "+
		"(`FILE`)")
	f.IntVar(&o.subscriptions, "subscriptions", 1, "number of subscriptions")
	f.IntVar(&o.tenants, "tenants", 1, "number of tenants that the subscriptions are spread over")
	f.StringVar(&o.asOf, "as-of", "",
		"answer as Azure did on a `date` such as 2023-06-01, with the defaults of that time")
	durationFlag(f, &o.azure.OperationTime, "operation-time", 500*time.Millisecond,
		"how long a long-running operation takes")
	durationFlag(f, &o.azure.RouteBatch, "route-batch", time.Second,
		"how long a cluster's cloud provider collects route changes (30s on Azure)")
	durationFlag(f, &o.azure.RouteCache, "route-cache", 5*time.Second,
		"how long the cloud provider caches its route table (2m on Azure)")
	f.BoolVar(&o.persist, "persist", false, "keep the state in DIR/state.db across restarts and "+
		"kills")
	durationFlag(f, &o.azure.AlertDelay, "alert-delay", 5*time.Minute,
		"time from a write to its activity log alerts (3m to 20m on Azure)")
	durationFlag(f, &o.azure.RoleDelay, "role-delay", 0,
		"time until a new role assignment takes effect (up to 60m on Azure)")
	f.StringVar(&o.apiServer, "kube-apiserver", "",
		"run this kube-apiserver for each cluster (`PATH`; kube-controller-manager, "+
			"kube-scheduler and etcd are in the same folder)")
	f.StringVar(&o.etcd, "etcd", "", "take etcd 3.6 or newer from this `PATH`, with "+
		"--kube-apiserver")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log every request")
	_ = cmd.MarkFlagFilename("kube-apiserver")
	_ = cmd.MarkFlagFilename("etcd")
	_ = cmd.MarkFlagRequired("dir")
	_ = cmd.MarkFlagDirname("dir")
	completeWith(cmd, "scenario", scenarios)
	cmd.AddCommand(newEmulatorList(a), newEmulatorScale(a), newEmulatorStrip(a),
		newEmulatorBreak(a))
	return cmd
}

func runEmulator(ctx context.Context, a *app, o emulatorOptions) error {
	if err := oneOf("--scenario", "scenario", o.scenario, scenarios); err != nil {
		return err
	}
	if o.subscriptions < 1 || o.subscriptions > 1000 {
		return fmt.Errorf("--subscriptions: %d is out of range, expected 1 to 1000",
			o.subscriptions)
	}
	if o.tenants < 1 || o.tenants > o.subscriptions {
		return fmt.Errorf(
			"--tenants: %d is out of range, expected 1 to the number of subscriptions", o.tenants)
	}
	for name, d := range map[string]time.Duration{"operation-time": o.azure.OperationTime,
		"route-batch": o.azure.RouteBatch, "route-cache": o.azure.RouteCache,
		"role-delay": o.azure.RoleDelay, "alert-delay": o.azure.AlertDelay} {
		if d < 0 {
			return fmt.Errorf("--%s: %s is out of range, expected 0 or more", name, d)
		}
	}
	for name, address := range map[string]string{"listen": o.listen, "listen-http": o.listenHTTP} {
		if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
			return fmt.Errorf("--%s: %q is not HOST:PORT, expected one such as 127.0.0.1:0", name,
				address)
		}
	}
	if info, err := os.Stat(o.dir); err == nil && !info.IsDir() {
		return fmt.Errorf("--dir: %s is a file, expected a folder", o.dir)
	}
	if o.etcd != "" && o.apiServer == "" {
		return errors.New("--etcd: expected --kube-apiserver with it")
	}
	options := o.azure
	if o.asOf != "" {
		var err error
		if options.AsOf, err = time.Parse(time.DateOnly, o.asOf); err != nil {
			return fmt.Errorf("--as-of: %q is not a date, expected one such as 2023-06-01", o.asOf)
		}
	}
	// As in most companies, the network belongs to another identity than the keeper's
	options.Principals = []emulator.Principal{emulator.DefaultPrincipal, demo.Operator}
	options.CheckClusterIdentity = true
	options.AddSubscriptions(o.subscriptions, o.tenants)
	options.Log = loggerFor(a.err, o.verbose)(a.err)
	if o.persist {
		options.StateFile = filepath.Join(o.dir, "state.db")
	}
	options.Probe = newSimulatedGateways(o.dir).probe
	e, err := emulator.New(options)
	if err != nil {
		return err
	}
	defer e.Close()
	if e.Restored() {
		fmt.Fprintf(a.out, "continues with the state in %s\n", options.StateFile)
	} else if o.scenario == "demo" {
		d, err := emulator.BuildDemo(e, demo.Operator)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "cluster %s\n", d.Cluster)
	} else if o.scenario == "fleet" {
		broken, err := emulator.BuildFleet(e, demo.Operator)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.out, "30 clusters, four of them broken:\n  "+strings.Join(broken, "\n  "))
	}
	if o.faults != "" {
		faults, err := emulator.ReadFaults(o.faults)
		if err != nil {
			return fmt.Errorf("--faults: %w", err)
		}
		for _, f := range faults {
			if _, err := e.Inject(f); err != nil {
				return fmt.Errorf("--faults: %w", err)
			}
		}
	}
	if o.apiServer != "" {
		k, err := playKubernetes(e, o, options.Log)
		if err != nil {
			return fmt.Errorf("--kube-apiserver: %w", err)
		}
		defer k.Close()
	}
	server, err := e.Start(o.dir, o.listen, o.listenHTTP)
	if err != nil {
		return err
	}
	if server.Open {
		say(a.err, "%s\n", "routekeeper: every machine that can reach this one can use this "+
			"emulator, its control calls included")
	}
	fmt.Fprintf(a.out, "serving %s and %s; emulator.json is in %s\n", server.Info.HTTPS,
		server.Info.HTTP, o.dir)
	return server.Wait(ctx)
}
