package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/iac"
)

func (a *app) newIaCGenerate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Write infrastructure code for a kubenet network whose routes stay",
		Long: `Writes complete, commented code: a network for a kubenet cluster with a route table that is brought, a gateway's subnet with its own table, the
cluster with its identity and just the role that it needs, and the keeper's own role and identity.`,
		Example: `  routekeeper iac generate bicep infra/ --name shop`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(a.newIaCGenerateBicep())
	return cmd
}

// generatedName is what all names that are made of it take: the strictest is that of a cluster's DNS prefix.
var generatedName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,29}$`)

func (a *app) newIaCGenerateBicep() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "bicep DIR",
		Short: "Write main.bicep and its module into a folder",
		Long: `Writes main.bicep and nodes.bicep into a folder. Files that are there already are not touched: then nothing is written. They were not compiled
where this program was built: az bicep build says what your compiler thinks of them.`,
		Example: `  routekeeper iac generate bicep infra/ --name shop
  az deployment group what-if -g shop-rg -f infra/main.bicep -p firstDeployment=true`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("expected the folder to write to")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if !generatedName.MatchString(name) {
				return fmt.Errorf("--name: expected small letters, digits and dashes, 30 at most, found %q", name)
			}
			return a.writeNew(args[0], iac.GenerateBicep(iac.Network{Name: name}))
		},
	}
	cmd.Flags().StringVar(&name, "name", "shop", "the `PREFIX` of all names")
	return cmd
}

// writeNew writes files into a folder, unless one of them is there.
func (a *app) writeNew(dir string, files []iac.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return reason(err)
	}
	for _, f := range files {
		if path := filepath.Join(dir, f.Name); fileThere(path) {
			return fmt.Errorf("%s is there already: nothing was written", path)
		}
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return fmt.Errorf("%s: %w", path, reason(err))
		}
		fmt.Fprintf(a.err, "%s written\n", path)
	}
	return nil
}

func fileThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
