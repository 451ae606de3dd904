package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/silence"
)

// longestPause keeps people from forgetting a pause.
const longestPause = silence.Longest

func newPause(a *app) *cobra.Command {
	var paths []string
	var length time.Duration
	var o silenceOptions
	var who choice
	cmd := &cobra.Command{
		Use:   "pause [CLUSTER… | --all | --selector LABELS]",
		Short: "Stop a running keeper from making changes for a while",
		Long: `During a pause, the keeper that runs with this config checks and reports, but
makes no changes. Afterwards it makes the changes that are still needed. A write
in flight is finished.

The pause is a file next to the config (routes.paused for routes.yaml,
routekeeper.paused in a folder). A keeper reads it before it makes changes, so
the pause affects all keepers that see this folder, also after a restart. sync
and run --once ignore it.

Name the config as the keeper does. A keeper with several files or folders is
paused while one of them is paused. A keeper with a folder is paused by the name
of the folder. Without -f, pause uses the config of the only history in the
current folder.

With names of clusters, --all or --selector, only those clusters are paused, one
by one, for the given reason. The keeper reads this from a file next to its
history (routes.silences), and the history records it.`,
		Example: `  routekeeper pause --for 2h
  routekeeper pause shop -f routes.yaml --for 1d --reason "firewall work"
  routekeeper pause -f routes.yaml --selector ring=1 --for 2h
  routekeeper pause end -f routes.yaml`,
		Args: who.takeArguments,
		RunE: func(*cobra.Command, []string) error {
			if length <= 0 || length > longestPause {
				return fmt.Errorf("--for: %s is out of range, expected more than 0 and at most 7d",
					(*duration)(&length))
			}
			clusters, err := who.inConfig(a, paths)
			if err != nil {
				return err
			}
			if o.configs = paths; len(clusters) > 0 {
				return pauseClusters(a, o, clusters, length)
			}
			if o.reason != "" || o.history != "" {
				return errors.New("--reason and --history: expected names of clusters with them")
			}
			paths, files, err := pauseFiles(paths)
			if err != nil {
				return err
			}
			until := time.Now().Add(length).Truncate(time.Second)
			for i, file := range files {
				if err := daemon.WritePause(file, until); err != nil {
					return err
				}
				fmt.Fprintf(a.out, "Paused until %s: a keeper that runs with -f %s makes no "+
					"changes while %s says so.\n",
					until.Format(time.RFC3339), paths[i], file)
			}
			return nil
		},
	}
	optionalConfigFlag(cmd, &paths)
	who.flags(cmd)
	durationFlag(cmd.Flags(), &length, "for", time.Hour, "how long")
	o.flags(cmd)
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for others to read (with CLUSTER)")
	cmd.AddCommand(newPauseEnd(a))
	return cmd
}

func newPauseEnd(a *app) *cobra.Command {
	var paths []string
	var o silenceOptions
	var who choice
	cmd := &cobra.Command{
		Use:   "end [CLUSTER… | --all | --selector LABELS]",
		Short: "End a pause",
		Long: `Ends a pause of the keeper, or of the named clusters. The keeper makes changes
again from its next check on.`,
		Example: "  routekeeper pause end -f routes.yaml\n  routekeeper pause end shop -f routes.yaml",
		Args:    who.takeArguments,
		RunE: func(*cobra.Command, []string) error {
			clusters := who.names // they may have left the config
			if len(clusters) == 0 {
				var err error
				if clusters, err = who.inConfig(a, paths); err != nil {
					return err
				}
			}
			if o.configs = paths; len(clusters) > 0 {
				return resumeClusters(a, o, clusters, len(who.names) > 0)
			}
			paths, files, err := pauseFiles(paths)
			if err != nil {
				return err
			}
			for i, file := range files {
				switch err := os.Remove(file); {
				case errors.Is(err, fs.ErrNotExist):
					fmt.Fprintf(a.out, "Not paused: %s does not exist.\n", file)
				case err != nil:
					return err
				default:
					fmt.Fprintf(a.out, "Resumed: a keeper that runs with -f %s makes changes "+
						"again.\n", paths[i])
				}
			}
			return nil
		},
	}
	optionalConfigFlag(cmd, &paths)
	who.flags(cmd)
	o.flags(cmd)
	return cmd
}

// optionalConfigFlag adds -f to a command that can find the config itself, if the folder has only
// one history.
func optionalConfigFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVarP(paths, "file", "f", nil,
		"config `FILE` or folder that the keeper runs with (repeatable)")
	markConfig(cmd)
}

// pauseFiles returns the pause files of configs. Without configs it uses the one whose history is
// in the current folder.
func pauseFiles(named []string) (configs, files []string, err error) {
	if configs, err = configsOrHere(named); err != nil {
		return nil, nil, err
	}
	for _, config := range configs {
		if config == "-" {
			return nil, nil, errors.New("-f: a config from standard input cannot be paused: the " +
				"pause is a file next to the config")
		}
		if _, err := os.Stat(config); err != nil {
			return nil, nil, fmt.Errorf("-f: %w", unread(config, err))
		}
		files = append(files, daemon.PauseFile(config))
	}
	return configs, files, nil
}

// configsOrHere returns the paths of -f, or without -f the config of configHere.
func configsOrHere(paths []string) ([]string, error) {
	if len(paths) > 0 {
		return paths, nil
	}
	here, err := configHere()
	return []string{here}, err
}

// configHere returns the config that a keeper ran with in the current folder: the one next to a
// history.
func configHere() (string, error) {
	path, err := historyHere()
	if err != nil {
		return "", fmt.Errorf("-f is missing: %w", err)
	}
	name := strings.TrimSuffix(path, history.Extension)
	var found []string
	if name == "routekeeper" { // the history of a folder has this name
		found = append(found, ".")
	}
	for _, extension := range []string{".yaml", ".yml", ".json"} {
		if _, err := os.Stat(name + extension); err == nil {
			found = append(found, name+extension)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("-f is missing: %s can belong to %s", path,
			cmp.Or(strings.Join(found, " or "), "no config in this folder"))
	}
	return found[0], nil
}
