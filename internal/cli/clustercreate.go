package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/provision"
	"routekeeper.dev/routekeeper/internal/report"
)

type createOptions struct {
	source  clusterSource
	first   v1alpha1.Pool
	pools   []string
	gateway bool
	limits  v1alpha1.ApplicationGateway

	kubeconfig, config string
	adopt, yes, dryRun bool
}

func newClusterCreate(a *app) *cobra.Command {
	o := createOptions{}
	cmd := &cobra.Command{
		Use:   "create {NAME --blueprint B --subscription ID --location L | -f FILE} [--yes]",
		Short: "Build a cluster with its network, and write a config for its routes",
		Long: `Builds an AKS cluster with its own network: resource group, identity, route
tables, network and subnets, role, role assignments, Application Gateway and
cluster, in the order that Azure requires. It checks sizes first, and refuses a
network that cannot hold the nodes and pods before it creates anything.

With --vnet-subnet-id it builds into an existing network. Name the subnets for
pods and for the gateway too, or it creates them in that network. If a subnet
has a route table, that table is used unchanged.

It shows the plan and asks. You can run it again at any time, also after it was
killed: it keeps what is correct, does the rest, and a second run changes
nothing. With other options it changes what Azure can change, and names what
needs a new cluster. Everything it creates has the tag ` + build.OwnerTag + `.
It changes no resource that it did not create, unless you say --adopt.

Blueprints:
  kubenet            pods in --pod-cidr, a route for each node
  overlay            pods in --pod-cidr, no routes (Azure CNI Overlay)
  node-subnet        pods in the node subnet
  pod-subnet         pods in a separate subnet
  pod-subnet-static  the same, in blocks of 16 for each node

With -f, a document of kind Cluster describes the cluster instead of NAME and
flags (routekeeper init schema --kind Cluster).

Exit code 0: the cluster exists as described; 1: an error; 2: with --dry-run
there are changes to make, or you answered no.`,
		Example: `  routekeeper cluster create shop --blueprint kubenet --application-gateway \
    --subscription <id> --location westeurope
  routekeeper cluster create shop --blueprint pod-subnet --dry-run \
    --subscription <id> --location westeurope --address-space 10.240.0.0/12 \
    --pod-subnet 10.242.0.0/16 --node-subnet 10.243.0.0/16
  routekeeper cluster create -f cluster.yaml --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runClusterCreate(cmd.Context(), a, o)
		},
	}
	describing(a, cmd, &o)
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "write a kubeconfig for the cluster to this new "+
		"`file`")
	f.StringVar(&o.config, "config", "", "write a ClusterRoutes config to this `file`, if it "+
		"does not exist")
	a.timeoutFlag(cmd)
	f.BoolVar(&o.adopt, "adopt", false,
		"use and change existing resources that create did not make")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the plan and write nothing")
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// describing adds the flags that describe a cluster, with -f and NAME.
func describing(a *app, cmd *cobra.Command, o *createOptions) {
	o.limits.MinCapacity = new(int)
	f := cmd.Flags()
	c := &o.source.described.Spec
	f.StringVar(&c.Blueprint, "blueprint", "", "how pods get addresses: "+
		strings.Join(pluginNames(), ", "))
	f.StringVar(&c.Subscription, "subscription", "", "subscription `ID`")
	f.StringVarP(&c.ResourceGroup, "resource-group", "g", "", "resource `GROUP` (default NAME-rg)")
	f.StringVarP(&c.Location, "location", "l", "", "Azure `region`, such as westeurope")
	f.StringVar(&c.KubernetesVersion, "kubernetes-version", "",
		"Kubernetes `version` (default AKS's)")
	f.StringArrayVar(&c.AddressSpace, "address-space", nil,
		"address space of the network (`CIDR`, repeatable; default 10.224.0.0/16)")
	f.StringVar(&c.NodeSubnet, "node-subnet", "", "node subnet (`CIDR`; default calculated)")
	f.StringVar(&c.PodSubnet, "pod-subnet", "", "pod subnet (`CIDR`; default calculated)")
	f.StringVar(&c.GatewaySubnet, "gateway-subnet", "",
		"Application Gateway's subnet (`CIDR`; default calculated)")
	f.StringVar(&c.VNetSubnetID, "vnet-subnet-id", "",
		"build into the network of this node subnet (resource `ID`)")
	f.StringVar(&c.PodSubnetID, "pod-subnet-id", "",
		"existing subnet for pods, in the same network (resource `ID`)")
	f.StringVar(&c.AppGwSubnetID, "appgw-subnet-id", "",
		"existing subnet for the Application Gateway, in the same network (resource `ID`)")
	f.StringVar(&c.PodCIDR, "pod-cidr", "",
		"pod addresses of kubenet and overlay (`CIDR`; default 10.244.0.0/16)")
	f.StringVar(&c.ServiceCIDR, "service-cidr", "",
		"service addresses (`CIDR`; default 10.0.0.0/16)")
	f.StringVar(&o.first.VMSize, "node-vm-size", v1alpha1.DefaultVMSize,
		"`size` of the system pool's nodes")
	f.IntVar(&o.first.Count, "node-count", v1alpha1.DefaultNodes,
		"`number` of the system pool's nodes")
	f.IntVar(&o.first.MinCount, "min-count", 0, "minimum `number` of nodes, for the autoscaler")
	f.IntVar(&o.first.MaxCount, "max-count", 0, "maximum `number` of nodes, for the autoscaler")
	f.IntVar(&o.first.MaxPods, "max-pods", 0, "pods on a node (default depends on the blueprint)")
	f.StringSliceVar(&o.first.Zones, "zones", nil,
		"availability zones of the system pool, such as 1,2,3")
	f.StringArrayVar(&o.pools, "nodepool", nil, "further `POOL`, such as "+
		"name=user,count=3,max-pods=50 (also vm-size, min-count, max-count and zones=1 2; "+
		"repeatable)")
	f.StringVar(&c.NetworkPolicy, "network-policy", "", "policy `engine`: azure, calico or cilium")
	f.StringVar(&c.Egress, "egress", "", "`address` of a firewall for all egress traffic")
	f.BoolVar(&c.Private, "enable-private-cluster", false, "keep the API server off the internet")
	f.BoolVar(&c.BuiltInRoles, "built-in-roles", false,
		"use Network Contributor; a custom role needs the right to define roles")
	f.BoolVar(&o.gateway, "application-gateway", false,
		"build an Application Gateway, with AKS's add-on for it")
	f.IntVar(o.limits.MinCapacity, "gateway-min-capacity", 0,
		"minimum `number` of gateway instances")
	f.IntVar(&o.limits.MaxCapacity, "gateway-max-capacity", v1alpha1.DefaultGatewayCapacity,
		"maximum `number` of gateway instances")
	a.clusterSource(cmd, &o.source, "blueprint", "subscription", "location")
	completeWith(cmd, "blueprint", pluginNames())
}

func pluginNames() []string {
	var names []string
	for _, p := range capacity.Plugins() {
		names = append(names, string(p))
	}
	return names
}

// readCluster reads a cluster from the options or from the file.
func readCluster(a *app, o *createOptions) (build.Cluster, error) {
	s := &o.source
	if len(s.files) == 0 {
		o.first.Name = "system"
		s.described.Spec.Pools = []v1alpha1.Pool{o.first}
		for _, text := range o.pools {
			p, err := readPool(text, o.first)
			if err != nil {
				return build.Cluster{}, fmt.Errorf("--nodepool %s: %w", text, err)
			}
			s.described.Spec.Pools = append(s.described.Spec.Pools, p)
		}
		if !o.gateway && (*o.limits.MinCapacity != 0 ||
			o.limits.MaxCapacity != v1alpha1.DefaultGatewayCapacity) {
			return build.Cluster{}, errors.New("--gateway-min-capacity and " +
				"--gateway-max-capacity: expected --application-gateway with them")
		}
		if o.gateway {
			s.described.Spec.ApplicationGateway = &o.limits
		}
	}
	return readClusterSource(a, s, build.Read)
}

// readPool reads a pool of the form name=user,count=3.
func readPool(text string, first v1alpha1.Pool) (v1alpha1.Pool, error) {
	p := v1alpha1.Pool{VMSize: first.VMSize, Count: 1, MaxPods: first.MaxPods}
	numbers := map[string]*int{
		"count": &p.Count, "min-count": &p.MinCount, "max-count": &p.MaxCount,
		"max-pods": &p.MaxPods,
	}
	for _, part := range strings.Split(text, ",") {
		key, value, found := strings.Cut(part, "=")
		number := numbers[key]
		switch {
		case !found:
			return p, fmt.Errorf("%q is not key=value", part)
		case key == "name":
			p.Name = value
		case key == "vm-size":
			p.VMSize = value
		case key == "zones":
			p.Zones = strings.Fields(value)
		case number != nil:
			n, err := strconv.Atoi(value)
			if err != nil {
				return p, fmt.Errorf("%s: %q is not a number", key, value)
			}
			*number = n
		default:
			return p, fmt.Errorf("unknown key %q, expected name, count, vm-size, min-count, "+
				"max-count, max-pods or zones", key)
		}
	}
	return p, nil
}

func runClusterCreate(ctx context.Context, a *app, o createOptions) error {
	c, err := readCluster(a, &o)
	if err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	w, format, style, err := a.output()
	if err != nil {
		return err
	}
	progress := a.progress(ctx, "reading what exists")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	if c, err = provision.FitToNetwork(ctx, client, c); err != nil {
		return o.source.explain(err)
	}
	planned, err := provision.Preview(ctx, client, c, c.Steps(), o.adopt)
	if err != nil {
		return err
	}
	told := building(c, planned)
	if format == report.Text || o.dryRun {
		progress.stop()
		if err := told.Write(w, format, style); err != nil {
			return err
		}
	}
	if err := refused(planned); err != nil {
		return err
	}
	if note := unreached(c); note != "" && told.Pending() {
		progress.stop()
		say(a.err, "%s\n", note)
	}
	if err := mayBuild(ctx, a, client, c, planned); err != nil {
		return err
	}
	if told.Pending() {
		if o.dryRun {
			return a.unlessYes(false, nil)
		}
		if !o.yes {
			if err := a.unlessYes(a.confirm("Build this?")); err != nil {
				return err
			}
		}
		progress = a.progress(ctx, "building")
		made, failed := provision.Take(ctx, client, c, c.Steps(), o.adopt, buildObserver(progress))
		progress.stop()
		told = building(c, made)
		if failed != nil {
			if format == report.JSON {
				failed = errors.Join(told.Write(w, format, style), failed)
			}
			return fmt.Errorf("%w; what was created stays; run the same command again to continue",
				failed)
		}
	} else if o.dryRun {
		return nil
	}
	progress.stop()
	if told.Next, err = o.finish(ctx, client, c); err != nil {
		return err
	}
	if format == report.JSON {
		return told.Write(w, format, style)
	}
	for _, line := range told.Next {
		say(a.err, "%s\n", line)
	}
	return nil
}

// unreached says that a new network does not reach its firewall yet, or returns "".
func unreached(c build.Cluster) string {
	if c.Existing != nil || !c.Egress.IsValid() || inventory.Within(c.Space, c.Egress) {
		return ""
	}
	return fmt.Sprintf("note: nothing in the new network reaches the firewall %s until you peer "+
		"%s with the firewall's network, and AKS makes no nodes without egress: peer it while "+
		"the cluster is built, or build in a peered network with --vnet-subnet-id",
		c.Egress, c.VNetID().Name())
}

// refused returns the first step that a plan refuses, as an error.
func refused(planned []provision.Outcome) error {
	for _, s := range planned {
		if s.Verb == build.Refuse {
			return fmt.Errorf("nothing was written: %s %s: %s", s.What(), s.ID.Short(),
				s.Decision.Why)
		}
	}
	return nil
}

// kubeconfigHead is the first line of a kubeconfig that create wrote and may overwrite.
const kubeconfigHead = "# Written by routekeeper cluster create."

// checkFiles refuses to overwrite a kubeconfig that create did not write: it may name other
// clusters.
func (o createOptions) checkFiles() error {
	if o.kubeconfig == "" {
		return nil
	}
	text, err := input.ReadFile(o.kubeconfig, input.Text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--kubeconfig: %w", err)
	case !strings.HasPrefix(string(text), kubeconfigHead):
		return fmt.Errorf("--kubeconfig: %s exists, and would be overwritten: expected a new file",
			finding.Show(o.kubeconfig))
	}
	return nil
}

// writeNew writes a file if it does not exist. An existing file stays: a person may have edited it.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// finish writes the kubeconfig and the config, and says what to do next.
func (o createOptions) finish(ctx context.Context, client *azure.Client,
	c build.Cluster) (next []string, err error) {
	if o.kubeconfig != "" {
		text, err := client.Kubeconfig(ctx, c.ClusterID())
		if err == nil {
			err = os.WriteFile(o.kubeconfig, append([]byte(kubeconfigHead+"\n"), text...), 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("the cluster is built; --kubeconfig: %w", err)
		}
		next = append(next,
			finding.Command("kubectl --kubeconfig %s get nodes", o.kubeconfig).String())
	} else {
		login := finding.Command("az aks get-credentials --subscription %s -g %s -n %s",
			c.Subscription, c.Group, c.Name)
		next = append(next, login.String())
	}
	if o.config != "" && c.Blueprint == capacity.Kubenet {
		config := routesOf(c)
		text := report.ConfigYAML([]plan.Proposal{{
			Config: config, About: string(c.Blueprint), Table: "made with the cluster",
			TargetWhy: slices.Repeat([]string{"the Application Gateway sends to pods directly"},
				len(config.Spec.Targets)),
			SubnetWhy: slices.Repeat([]string{"the Application Gateway's subnet"},
				len(config.Spec.Guard.Subnets)),
		}}, "cluster "+c.Name, nil)
		if err := writeNew(o.config, text); err != nil {
			return nil, fmt.Errorf("the cluster is built; --config: %w", err)
		}
		next = append(next, finding.Command("routekeeper run -f %s", o.config).String())
	}
	verify := []string{c.Name}
	if o.config != "" && c.Blueprint == capacity.Kubenet {
		verify = append(verify, "-f", o.config)
	}
	if o.kubeconfig != "" {
		verify = append(verify, "--kubeconfig", o.kubeconfig)
	}
	return append(next,
		finding.Command("routekeeper cluster verify %s", finding.Words(verify...)).String()), nil
}

// routesOf returns the config for the pod routes of a cluster that create built.
func routesOf(c build.Cluster) v1alpha1.ClusterRoutes {
	config := v1alpha1.ClusterRoutes{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Metadata: v1alpha1.Metadata{
			Name: c.Name},
	}
	config.Spec = v1alpha1.Spec{ClusterID: string(c.ClusterID()),
		RouteTableID: string(c.NodeTableID())}
	if c.HasGatewayTable() {
		config.Spec.Targets = []v1alpha1.Target{{RouteTableID: string(c.GatewayTableID())}}
		config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{
			{SubnetID: string(c.GatewaySubnetID()), RouteTableID: string(c.GatewayTableID())},
		}
	}
	config.SetDefaults()
	return config
}

// buildObserver prints a line for each step.
func buildObserver(p *progress) provision.Observer {
	return provision.Observer{
		Begins: func(n, of int, s build.Step, verb build.Verb) {
			p.now(fmt.Sprintf("[%d/%d] %s %s %s", n, of, verb, s.What(), s.ID.Short()))
		},
		Waits: func(what string, since time.Duration) {
			p.now(fmt.Sprintf("waiting for %s", what))
			p.say(fmt.Sprintf("waiting for %s: %s so far", what,
				report.Duration(since.Truncate(time.Second))))
		},
		Ended: func(n, of int, o provision.Outcome) {
			switch {
			case o.Err != nil:
			case o.Verb == build.Keep:
				p.say(fmt.Sprintf("[%d/%d] %s %s is there", n, of, o.What(), o.ID.Short()))
			default:
				took := report.Duration(o.Elapsed.Truncate(100 * time.Millisecond))
				p.say(fmt.Sprintf("[%d/%d] %s %s %sd (%s)", n, of, o.What(), o.ID.Short(), o.Verb,
					took))
			}
		},
	}
}

func building(c build.Cluster, outcomes []provision.Outcome) report.Building {
	b := report.Building{Cluster: string(c.ClusterID())}
	for _, o := range outcomes {
		s := buildStep(o.ID, o.Verb, o.Step.Why, o.Done, o.Err)
		s.Seconds, s.Differences = o.Elapsed.Seconds(), o.Differences
		if o.Verb == build.Refuse && o.Err == nil {
			s.Error = o.Decision.Why
		}
		b.Steps = append(b.Steps, s)
	}
	return b
}

func buildStep(id arm.ID, verb build.Verb, note string, done bool, err error) report.BuildStep {
	s := report.BuildStep{Verb: string(verb), Kind: build.Word(id), Resource: string(id),
		Name: id.Short(), Note: note, State: "planned"}
	switch {
	case err != nil:
		s.State, s.Error = "failed", err.Error()
	case done:
		s.State = "done"
	case verb == build.Keep:
		s.State = "kept"
	}
	return s
}
