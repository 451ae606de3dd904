package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/licenses"
	"routekeeper.dev/routekeeper/internal/report"
)

// What a release was built from. The linker sets them: -X with this package's path.
var releaseVersion, releaseCommit, releaseDate string

// origin says what this program was built from, and with what.
type origin struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"` // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  routekeeper version
  routekeeper version -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			w, format, _, err := a.stream()
			if err != nil {
				return err
			}
			if format == report.JSON {
				return report.WriteJSON(w, ofBuild())
			}
			_, err = io.WriteString(w, versionLine())
			return err
		},
	}
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

func versionLine() string {
	b := ofBuild()
	from := ""
	if b.Commit != "" {
		from = fmt.Sprintf("commit %s, %s, ", b.Commit, cmp.Or(b.Date, "without a date"))
	}
	return fmt.Sprintf("routekeeper %s (%s%s, %s)\n", b.Version, from, b.Go, b.Platform)
}

// ofBuild returns what the linker set, or what the go command recorded.
func ofBuild() origin {
	b := origin{releaseVersion, releaseCommit, releaseDate, runtime.Version(),
		runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if b.Version != "" || !ok {
		b.Version = cmp.Or(b.Version, "unknown")
		return b
	}
	b.Version = cmp.Or(info.Main.Version, "(devel)")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	return b
}

func version() string { return ofBuild().Version }

func newLicenses(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "licenses",
		Short: "Print the licences of the modules in this program",
		Long: `Prints the licences and notices of the Go modules that are linked into this
program. routekeeper itself is under the Apache License 2.0.`,
		Example: "  routekeeper version licenses",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.out, licenses.Text)
			return err
		},
	}
	return cmd
}
