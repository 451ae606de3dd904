package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/input"
)

// clusterSource is where a command gets its cluster from: NAME and flags, or a file.
type clusterSource struct {
	described v1alpha1.Cluster // by NAME and flags
	files     []string         // that -f names: one or none

	read *config.Cluster // the file, once it is read
}

// clusterSource adds -f and NAME to a command. The flags that the command has at this point
// describe the cluster. So they exclude -f, and without -f the required ones must be given.
func (a *app) clusterSource(cmd *cobra.Command, s *clusterSource, required ...string) {
	var describing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { describing = append(describing, f.Name) })
	cmd.Flags().StringArrayVarP(&s.files, "file", "f", nil,
		"`FILE` that describes the cluster, or -")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		given := cmd.Flags().Changed
		switch {
		case len(args) > 1 || len(args) == 0 && !given("file"):
			return errors.New("expected the name of one cluster, or -f with a file that " +
				"describes it")
		case len(args) == 1:
			s.described.Metadata.Name = args[0]
		}
		if !given("file") {
			for _, name := range required {
				if !given(name) {
					return fmt.Errorf("expected --%s, or -f FILE", name)
				}
			}
			return nil
		}
		if len(s.files) != 1 {
			return fmt.Errorf("-f: expected one file, found %d", len(s.files))
		}
		for _, name := range describing {
			if given(name) {
				return fmt.Errorf("--%s and -f exclude each other: with -f the file describes "+
					"the cluster", name)
			}
		}
		return nil
	}
}

// readClusterSource reads the cluster. Its errors name the flag, or the position and field in the
// file.
func readClusterSource(a *app, s *clusterSource,
	read func(v1alpha1.Cluster) (build.Cluster, error)) (build.Cluster, error) {
	if len(s.files) == 0 {
		c, err := read(s.described)
		return c, s.explain(err)
	}
	file, err := clusterFile(a, s.files[0])
	if err != nil {
		return build.Cluster{}, err
	}
	in, err := config.ReadCluster(file)
	if err != nil {
		return build.Cluster{}, err
	}
	if name := s.described.Metadata.Name; name != "" && name != in.Metadata.Name {
		return build.Cluster{}, fmt.Errorf("NAME: %q is not the name in the file; %w", name,
			in.Fault("metadata.name", fmt.Sprintf("it is %q", in.Metadata.Name)))
	}
	s.read = in
	c, err := read(in.Cluster)
	return c, s.explain(err)
}

// explain adds the flag to an error, or the position in the file.
func (s *clusterSource) explain(err error) error {
	var e *build.Error
	switch {
	case !errors.As(err, &e):
		return err
	case s.read == nil:
		return fmt.Errorf("%s: %s", flagOf(e.Field), e.Problem(flagOf))
	}
	return s.read.Fault(pathOf(e.Field), e.Problem(pathOf))
}

// clusterFile reads a file that describes a cluster, but not more than config accepts.
func clusterFile(a *app, path string) (config.File, error) {
	f := config.File{Name: path}
	in := a.in
	if path == "-" {
		f.Name = "standard input"
	} else {
		opened, err := input.Open(path, input.Text)
		if err != nil {
			return f, fmt.Errorf("-f: %w", unread(path, err))
		}
		defer opened.Close()
		in = opened
	}
	var err error
	if f.Data, err = io.ReadAll(io.LimitReader(in, config.MostClusterBytes+1)); err != nil {
		return f, fmt.Errorf("-f: %w", unread(path, err))
	}
	return f, nil
}

// pathOf returns the path of a field in a file.
func pathOf(f build.Field) string {
	if f == "name" {
		return "metadata.name"
	}
	return "spec." + string(f)
}

// otherFlags maps fields to their flags, where the names differ.
var otherFlags = map[string]string{
	"name": "NAME", "podCIDR": "--pod-cidr", "serviceCIDR": "--service-cidr",
	"private": "--enable-private-cluster", "pools": "--nodepool",
	"vnetSubnetID": "--vnet-subnet-id", "podSubnetID": "--pod-subnet-id",
	"appgwSubnetID": "--appgw-subnet-id",
	"pools[0].name": "--nodepool", "pools[0].vmSize": "--node-vm-size",
	"pools[0].count": "--node-count", "pools[0].minCount": "--min-count",
	"pools[0].maxCount": "--max-count", "pools[0].maxPods": "--max-pods",
	"pools[0].zones":                 "--zones",
	"applicationGateway.minCapacity": "--gateway-min-capacity",
	"applicationGateway.maxCapacity": "--gateway-max-capacity",
}

// flagOf returns the flag for a field: --node-subnet for nodeSubnet.
func flagOf(f build.Field) string {
	field := string(f)
	if name, is := otherFlags[field]; is {
		return name
	}
	field, _, list := strings.Cut(field, "[")
	if list && field == "pools" {
		return otherFlags[field]
	}
	var b strings.Builder
	b.WriteString("--")
	for _, r := range field {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}
