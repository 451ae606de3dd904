package cli

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes the man pages. It is hidden: a release calls it, and installs what it wrote.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages of all commands into a folder",
		Example: "  routekeeper man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			b := ofBuild()
			header := &doc.GenManHeader{Section: "1", Manual: "routekeeper",
				Source: "routekeeper " + b.Version}
			if at, err := time.Parse(time.RFC3339, b.Date); err == nil {
				header.Date = &at
			}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
