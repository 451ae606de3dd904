package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/generate"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/provision"
	"routekeeper.dev/routekeeper/internal/survey"
)

type generateOptions struct {
	cluster  createOptions // the options that describe the cluster
	host     string
	provider int
	paths    []string // of a config, whose keeper gets the permissions
	folder   string
}

// newGenerate makes iac generate.
func newGenerate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate {terraform | bicep | arm}",
		Short: "Write infrastructure code for a cluster, a keeper, or a keeper's rights",
		Long: `Writes commented code that you can apply. It describes the cluster that cluster
create would build with the same options or the same file, with network, route
tables, identity, role and role assignments. A later apply does not take a route
table off its subnet.

With --vnet-subnet-id, it reads the existing network. The code refers to what
exists and never declares it. The comment at its top says what it adds to the
network.

With --host, the code also deploys the keeper: identity, rights and workload.
  aks             in the cluster: a credential for its service account, and a
                  manifest to apply, as an output
  container-apps  an environment and an app of Azure Container Apps

If -f names a config (ClusterRoutes documents), it writes only the identity and
rights of a keeper, for the clusters, subnets and route tables in the config.`,
		Example: `  routekeeper iac generate terraform shop --blueprint kubenet \
    --subscription <id> --location westeurope --out shop
  routekeeper iac generate arm -f cluster.yaml --host aks --out shop
  routekeeper iac generate bicep -f routes.yaml --out keeper`,
		Args: noArgs,
		RunE: needsCommand,
	}
	cmd.AddCommand(newGenerateTerraform(a), newGenerateBicep(a), newGenerateARM(a))
	return cmd
}

// generator writes the same resources in each language.
type generator interface {
	Terraform() ([]generate.Output, error)
	Bicep() ([]generate.Output, error)
	ARM() ([]generate.Output, error)
}

func newGenerateTerraform(a *app) *cobra.Command {
	o := &generateOptions{}
	cmd := &cobra.Command{
		Use:   "terraform {NAME --blueprint B --subscription ID --location L | -f FILE}",
		Short: "Write Terraform configuration",
		Long: `Writes a Terraform configuration for the azurerm provider, as one file to
standard output or as several files into a folder. See routekeeper iac generate
--help for what it contains.`,
		Example: `  routekeeper iac generate terraform shop --blueprint kubenet \
    --application-gateway --subscription <id> --location westeurope --out shop
  routekeeper iac generate terraform -f cluster.yaml --provider-version 4
  routekeeper iac generate terraform -f routes.yaml --out keeper`,
	}
	generating(a, cmd, o, "terraform init", generator.Terraform)
	cmd.Flags().IntVar(&o.provider, "provider-version", 5, "azurerm's major `version`: 4 or 5")
	return cmd
}

func newGenerateBicep(a *app) *cobra.Command {
	o := &generateOptions{provider: 5}
	cmd := &cobra.Command{
		Use:   "bicep {NAME --blueprint B --subscription ID --location L | -f FILE} --out DIR",
		Short: "Write Bicep",
		Long: `Writes main.bicep and its modules into a folder. See routekeeper iac generate
--help for what they contain.`,
		Example: `  routekeeper iac generate bicep shop --blueprint overlay \
    --subscription <id> --location westeurope --out shop
  routekeeper iac generate bicep -f cluster.yaml --host container-apps \
    --out shop
  routekeeper iac generate bicep -f routes.yaml --out keeper`,
	}
	generating(a, cmd, o, "the az commands at the head of main.bicep", generator.Bicep)
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func newGenerateARM(a *app) *cobra.Command {
	o := &generateOptions{provider: 5}
	cmd := &cobra.Command{
		Use:   "arm {NAME --blueprint B --subscription ID --location L | -f FILE}",
		Short: "Write an ARM template",
		Long: `Writes an ARM template to standard output, or as main.json into a folder. A
cluster is deployed to a resource group, a keeper's rights to a subscription.
See routekeeper iac generate --help for what it contains.`,
		Example: `  routekeeper iac generate arm shop --blueprint pod-subnet \
    --subscription <id> --location westeurope > main.json
  routekeeper iac generate arm -f cluster.yaml --host aks --out shop
  routekeeper iac generate arm -f routes.yaml --out keeper`,
	}
	generating(a, cmd, o, "the az commands in its metadata", generator.ARM)
	return cmd
}

// generating gives a command its flags and its work: it writes code in one language, and says what
// to do next.
func generating(a *app, cmd *cobra.Command, o *generateOptions, next string,
	write func(generator) ([]generate.Output, error)) {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		g, err := a.generator(cmd, o, args)
		if err != nil {
			return err
		}
		files, err := write(g)
		if err != nil {
			return err
		}
		if o.folder == "" || o.folder == "-" {
			return printOutputs(a.out, files)
		}
		return writeOutputs(a, files, o, next)
	}
	describing(a, cmd, &o.cluster)
	f := cmd.Flags()
	ofCluster := []string{"host"} // flags that say what a cluster is
	f.VisitAll(func(f *pflag.Flag) {
		if f.Name != "location" {
			ofCluster = append(ofCluster, f.Name)
		}
	})
	var hosts []string
	for _, h := range generate.Hosts() {
		hosts = append(hosts, string(h))
	}
	f.StringVar(&o.host, "host", "", "also write code that runs the keeper on `HOST`: "+
		strings.Join(hosts, " or "))
	f.StringVar(&o.folder, "out", "", "write files into this folder (`DIR`)")
	f.BoolVar(&a.force, "force", false, "with --out: overwrite files that exist")
	_ = cmd.MarkFlagDirname("out")
	completeWith(cmd, "host", hosts)
	f.Lookup("file").Usage = "`FILE` that describes the cluster, or a keeper's config, or -"
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if files := o.cluster.source.files; slices.ContainsFunc(files, a.holdsConfig) {
			o.paths, o.cluster.source.files = files, nil
		}
		if len(o.paths) == 0 {
			return check(cmd, args)
		}
		if len(args) > 1 {
			return errors.New("expected one NAME at most: the prefix of all resource names")
		}
		for _, name := range ofCluster {
			if f.Changed(name) && name != "file" {
				return fmt.Errorf("--%s and a config exclude each other: the clusters of the "+
					"config are there", name)
			}
		}
		return nil
	}
}

// ofConfig matches the beginning of a document of a config, but not of a cluster's description.
var ofConfig = lazy.Regexp(`(?m)^[ \t{]*"?kind"?[ \t]*:[ \t]*["']?ClusterRoutes\b`)

// holdsConfig reports whether -f names a config: a folder, or a file of ClusterRoutes documents.
func (a *app) holdsConfig(path string) bool {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return true
	}
	text, err := a.readFile(path, input.Text)
	return err == nil && ofConfig().Match(text)
}

// generator makes the generator that the flags describe: of a cluster, or of rights.
func (a *app) generator(cmd *cobra.Command, o *generateOptions, args []string) (generator, error) {
	if len(o.paths) == 0 {
		return blueprint(cmd.Context(), a, o)
	}
	r := generate.Rights{Name: "routekeeper", Location: "westeurope", Provider: o.provider}
	if len(args) == 1 {
		r.Name = args[0]
	}
	if cmd.Flags().Changed("location") {
		r.Location = o.cluster.source.described.Spec.Location
	}
	configs, err := a.readConfig(o.paths)
	if err != nil {
		return nil, err
	}
	for _, c := range configs {
		r.Clusters = append(r.Clusters, managedCluster(c))
	}
	return r, nil
}

// blueprint returns the cluster that the flags or the file describe. An existing network is read.
func blueprint(ctx context.Context, a *app, o *generateOptions) (generate.Blueprint, error) {
	c, err := readCluster(a, &o.cluster)
	b := generate.Blueprint{Cluster: c, Provider: o.provider, Host: generate.Host(o.host)}
	if err != nil || c.Existing == nil {
		return b, err
	}
	progress := a.progress(ctx, "reading the existing network")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return b, err
	}
	b.Cluster, err = provision.FitToNetwork(ctx, client, c)
	return b, o.cluster.source.explain(err)
}

// managedCluster returns what a config needs permissions for. A config that only observes needs no
// permission to write.
func managedCluster(c v1alpha1.ClusterRoutes) generate.ManagedCluster {
	k := generate.ManagedCluster{
		Name: c.Metadata.Name, Cluster: survey.Places(c)[0], Table: arm.ID(c.Spec.RouteTableID),
		Guarded:   c.Spec.Guard.Mode == v1alpha1.GuardEnforce,
		FromNodes: c.Spec.Source == v1alpha1.SourceNodes,
		Firewall:  arm.ID(c.Spec.Egress.FirewallID), None: c.Clusterless(),
	}
	for _, g := range c.Spec.Guard.Subnets {
		if k.Guarded {
			linked := generate.GuardedSubnet{Subnet: arm.ID(g.SubnetID)}
			for _, property := range inventory.Properties {
				if id := plan.GuardedValue(g, property); id != "" {
					linked.Linked = append(linked.Linked, id)
				}
			}
			k.Subnets = append(k.Subnets, linked)
		}
	}
	for _, t := range c.Spec.Targets {
		if t.Policy != v1alpha1.PolicyObserve {
			k.Targets = append(k.Targets, arm.ID(t.RouteTableID))
		}
	}
	if c.Spec.Egress.Mode == v1alpha1.GuardEnforce {
		k.Targets = append(k.Targets, arm.ID(c.Spec.Egress.RouteTableID))
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

// writeOutputs writes all files into a folder, or none if one of them exists.
func writeOutputs(a *app, files []generate.Output, o *generateOptions, next string) error {
	var names []string
	for _, f := range files {
		path := filepath.Join(o.folder, filepath.FromSlash(f.Name))
		if err := mayWrite(path, a.force); err != nil {
			return fmt.Errorf("--out: %w", err)
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
	say(a.err, "wrote %s into %s; next: %s\n", strings.Join(names, ", "), o.folder, next)
	return nil
}
