package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// pauseExtension is of the file that pauses the keeper of a config: the time at which it ends.
const pauseExtension = ".paused"

// longestPause keeps a pause from being forgotten.
const longestPause = 7 * 24 * time.Hour

func (a *app) newPause() *cobra.Command {
	var paths []string
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "pause -f FILE",
		Short: "Have a running keeper change nothing for a while",
		Long: `Has the keeper that runs with this config look and tell, and change nothing, until the time is over. What it would do is planned
meanwhile, and done afterwards where it is still to be done. A write under way is finished.

It is a file beside the config (routes.paused for routes.yaml, routekeeper.paused in a folder), read before each round's
changes; so it reaches keepers that see this folder, and outlives them. sync is not paused.`,
		Example: `  routekeeper pause -f routes.yaml --for 2h
  routekeeper resume -f routes.yaml`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if length <= 0 || length > longestPause {
				return fmt.Errorf("--for: %s is out of range, expected up to %s", length, longestPause)
			}
			file, err := pauseFile(paths)
			if err != nil {
				return err
			}
			until := time.Now().Add(length).Truncate(time.Second)
			// Whole or not at all: a keeper may read it at any time.
			if err := os.WriteFile(file+".new", []byte(until.UTC().Format(time.RFC3339)+"\n"), 0o644); err != nil {
				return err
			}
			if err := os.Rename(file+".new", file); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "Paused until %s.\n", until.Format(time.RFC3339))
			return err
		},
	}
	configFlag(cmd, &paths)
	cmd.Flags().DurationVar(&length, "for", time.Hour, "how long")
	return cmd
}

func (a *app) newResume() *cobra.Command {
	var paths []string
	cmd := &cobra.Command{
		Use:     "resume -f FILE",
		Short:   "End a pause",
		Long:    "Ends what pause began: from its next round on the keeper makes changes again.",
		Example: "  routekeeper resume -f routes.yaml",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := pauseFile(paths)
			if err != nil {
				return err
			}
			said := "Resumed."
			if err := os.Remove(file); errors.Is(err, fs.ErrNotExist) {
				said = "It was not paused."
			} else if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, said)
			return err
		},
	}
	configFlag(cmd, &paths)
	return cmd
}

// pauseFile is where the pause of a config stands: beside the first file, or in the folder.
func pauseFile(configs []string) (string, error) {
	first := configs[0]
	if first == "-" {
		return "", errors.New("-f: a config from standard input cannot be paused: there is no place beside it")
	}
	info, err := os.Stat(first)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return filepath.Join(first, "routekeeper"+pauseExtension), nil
	}
	return strings.TrimSuffix(first, filepath.Ext(first)) + pauseExtension, nil
}

// paused says until when the keeper of a config is paused, "" where it is not. What cannot be read pauses, because somebody wanted that.
func paused(configs []string) string {
	file, err := pauseFile(configs)
	if err != nil {
		return "" // standard input, or the config is gone
	}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return "until " + file + " can be read or is removed"
	}
	until, err := time.Parse(time.RFC3339, strings.TrimSpace(string(raw)))
	switch {
	case err != nil:
		return "until " + file + " says until when, or is removed"
	case time.Now().Before(until):
		return "until " + until.Format(time.RFC3339)
	}
	return ""
}
