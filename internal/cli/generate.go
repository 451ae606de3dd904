package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/generate"
)

type generateOptions struct {
	generate.Order
	egress, space, pods     string
	networkOnly, keeperOnly bool
	force                   bool
	paths                   []string
	folder                  string
}

// newGenerate is iac generate.
func (a *app) newGenerate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate {terraform | bicep}",
		Short: "Write infrastructure code that keeps pod routes: a network with its cluster, and the keeper's rights",
		Long: `Writes commented code, ready to apply: a network with route tables that no later apply strips, an AKS cluster with an identity of its
own that has exactly the rights it needs, and routekeeper's own identity with the least rights that do, which pods use without a secret.

With --from-config it is routekeeper's identity and rights only, for the clusters, subnets and tables that a config names.`,
		Example: `  routekeeper iac generate terraform --name shop --out shop
  routekeeper iac generate terraform --from-config routes.yaml --out keeper
  routekeeper iac generate bicep --name shop --egress 10.100.0.4 --out shop`,
		Args: noArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(a.newGenerateTerraform(), a.newGenerateBicep())
	return cmd
}

func (a *app) newGenerateTerraform() *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "terraform [--out DIR]",
		Short: "Write Terraform configuration",
		Long: `Writes a Terraform configuration for the azurerm provider, as one file to standard output or as several into a folder. What it
stands for is said by routekeeper iac generate --help.`,
		Example: `  routekeeper iac generate terraform --name shop --location westeurope --out shop
  routekeeper iac generate terraform --provider-version 4 --network-only > network.tf
  routekeeper iac generate terraform --from-config routes.yaml --out keeper`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runGenerate(cmd, o, generate.Order.Terraform) },
	}
	o.flags(cmd)
	cmd.Flags().IntVar(&o.Provider, "provider-version", 5, "the azurerm provider's major version: 4 or 5")
	return cmd
}

func (a *app) newGenerateBicep() *cobra.Command {
	o := generateOptions{Order: generate.Order{Provider: 5}}
	cmd := &cobra.Command{
		Use:   "bicep --out DIR",
		Short: "Write Bicep",
		Long:  `Writes main.bicep and its modules into a folder. What it stands for is said by routekeeper iac generate --help.`,
		Example: `  routekeeper iac generate bicep --name shop --location westeurope --out shop
  routekeeper iac generate bicep --from-config routes.yaml --out keeper`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runGenerate(cmd, o, generate.Order.Bicep) },
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func (o *generateOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "what all names begin with (default aks, with --from-config routekeeper)")
	f.StringVar(&o.Location, "location", "westeurope", "the Azure region")
	f.StringVar(&o.Plugin, "plugin", "kubenet", "the cluster's network plugin: kubenet or overlay")
	f.StringVar(&o.egress, "egress", "", "lead 0.0.0.0/0 to the firewall at this `ADDRESS`")
	f.StringVar(&o.space, "address-space", "10.240.0.0/16", "the network's addresses (`CIDR`)")
	f.StringVar(&o.pods, "pod-cidr", "10.244.0.0/16", "the pods' addresses (`CIDR`)")
	f.BoolVar(&o.networkOnly, "network-only", false, "the network and its cluster, without the keeper")
	f.BoolVar(&o.keeperOnly, "keeper-only", false, "the keeper's identity and rights only; with --from-config, which implies it")
	f.StringArrayVar(&o.paths, "from-config", nil, "the keeper's rights for what this config `FILE`, folder, or - names (repeatable)")
	f.StringVar(&o.folder, "out", "", "write files into this folder (`DIR`)")
	f.BoolVar(&o.force, "force", false, "overwrite files that exist")
	cmd.MarkFlagsMutuallyExclusive("network-only", "keeper-only")
	for _, other := range []string{"network-only", "plugin", "egress", "address-space", "pod-cidr"} {
		cmd.MarkFlagsMutuallyExclusive("from-config", other)
	}
	_ = cmd.MarkFlagFilename("from-config", "yaml", "yml", "json")
	_ = cmd.MarkFlagDirname("out")
	_ = cmd.RegisterFlagCompletionFunc("plugin", cobra.FixedCompletions([]cobra.Completion{"kubenet", "overlay"}, cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) runGenerate(cmd *cobra.Command, o generateOptions, write func(generate.Order) ([]generate.Output, error)) error {
	order, err := a.order(o)
	if err != nil {
		return err
	}
	files, err := write(order)
	if err != nil {
		return err
	}
	if o.folder == "" || o.folder == "-" {
		return printOutputs(a.out, files)
	}
	return a.writeOutputs(cmd, files, o)
}

// order reads the flags.
func (a *app) order(o generateOptions) (generate.Order, error) {
	order := o.Order
	var err error
	for _, p := range []struct {
		flag, text string
		into       *netip.Prefix
	}{{"--address-space", o.space, &order.Space}, {"--pod-cidr", o.pods, &order.Pods}} {
		if *p.into, err = prefixOrLength(p.text); err != nil {
			return order, fmt.Errorf("%s: %w", p.flag, err)
		}
	}
	if o.egress != "" {
		if order.Egress, err = netip.ParseAddr(o.egress); err != nil {
			return order, fmt.Errorf("--egress: %q is not an address", o.egress)
		}
	}
	order.Network, order.Keeper = len(o.paths) == 0, !o.networkOnly && (o.Plugin == "kubenet" || o.keeperOnly)
	if len(o.paths) == 0 {
		if o.keeperOnly {
			return order, errors.New("--keeper-only: expected --from-config: it says which clusters and tables the rights are for")
		}
		if order.Name == "" {
			order.Name = "aks"
		}
		return order, nil
	}
	if order.Name == "" {
		order.Name = "routekeeper"
	}
	configs, err := a.readConfig(o.paths)
	if err != nil {
		return order, err
	}
	for _, c := range configs {
		order.Kept = append(order.Kept, kept(c))
	}
	return order, nil
}

// kept is what a config says of the rights it takes: where it only observes, there is nothing to write.
func kept(c v1alpha1.ClusterRoutes) generate.Kept {
	k := generate.Kept{Name: c.Metadata.Name, Cluster: arm.ID(c.Spec.ClusterID), Guarded: c.Spec.Guard.Mode == v1alpha1.GuardEnforce, Table: arm.ID(c.Spec.RouteTableID)}
	for _, g := range c.Spec.Guard.Subnets {
		if k.Guarded {
			k.Subnets = append(k.Subnets, generate.KeptSubnet{Subnet: arm.ID(g.SubnetID), Table: arm.ID(g.RouteTableID)})
		}
	}
	for _, t := range c.Spec.Targets {
		if t.Policy != v1alpha1.PolicyObserve {
			k.Targets = append(k.Targets, arm.ID(t.RouteTableID))
		}
	}
	return k
}

// printOutputs writes all files as one.
func printOutputs(w io.Writer, files []generate.Output) error {
	for i, f := range files {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if _, err := w.Write(f.Text); err != nil {
			return err
		}
	}
	return nil
}

// writeOutputs writes the files into a folder: all of them, or, where one is there already, none.
func (a *app) writeOutputs(cmd *cobra.Command, files []generate.Output, o generateOptions) error {
	var names []string
	for _, f := range files {
		path := filepath.Join(o.folder, filepath.FromSlash(f.Name))
		if _, err := os.Stat(path); err == nil && !o.force {
			return fmt.Errorf("--out: %s exists; --force overwrites it", path)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--out: %s: %w", path, reason(err))
		}
		names = append(names, f.Name)
	}
	for _, f := range files {
		path := filepath.Join(o.folder, filepath.FromSlash(f.Name))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, f.Text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("--out: %s cannot be written: %w", path, reason(err))
		}
	}
	next := "terraform init"
	if cmd.Name() == "bicep" {
		next = "az deployment sub what-if, as main.bicep says"
	}
	_, err := fmt.Fprintf(a.err, "wrote %s into %s; next: %s\n", strings.Join(names, ", "), o.folder, next)
	return err
}
