package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  routekeeper version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.out, versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("routekeeper %s (%s, %s/%s)\n", version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}

// version is the module's version as the go command recorded it, with the commit where there is
// one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "(devel)" {
			v += " " + s.Value
		}
	}
	return v
}
