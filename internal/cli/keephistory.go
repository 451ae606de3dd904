package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// keepOptions are the flags of a command that keeps a history.
type keepOptions struct {
	path    string
	age     string
	maxSize int // MiB
}

// noHistory is the value of --history that turns the history off.
const noHistory = "off"

// usualHistory is the default retention: a bit more than a year, in a file that fits on any disk.
var usualHistory = keepOptions{age: "400d", maxSize: 200}

func (o *keepOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.path, "history", "", "keep the history in `FILE`, \""+noHistory+"\" for none "+
		"(default next to the config: routes.history.db for routes.yaml)")
	f.StringVar(&o.age, "history-age", usualHistory.age,
		"remove older checks from the history; 0 for never")
	f.IntVar(&o.maxSize, "history-size", usualHistory.maxSize,
		"remove the oldest checks if the history is larger (`MiB`); 0 for never")
	_ = cmd.MarkFlagFilename("history", "db")
}

// open opens the history of a config. It returns nil, which records nothing, if the history is off,
// or if the config comes from standard input and --history is not set.
func (o *keepOptions) open(configs []string, log *slog.Logger) (*history.Log, error) {
	options, err := o.options()
	path := o.file(configs)
	if err != nil || path == "" {
		return nil, err
	}
	options.Log = log
	return history.Open(path, options), nil
}

// preview gives what the history remembers to a keeper that writes nothing, not even the history.
// So it plans what the real keeper would do.
func (o *keepOptions) preview(configs []string, options keeper.Options) keeper.Options {
	options.DryRun = true
	if path := o.file(configs); path != "" {
		options.Store = history.Recalled(path)
	}
	return options
}

// options makes the options of the history from the flags.
func (o *keepOptions) options() (history.Options, error) {
	age, err := parseAge(o.age)
	switch {
	case err != nil:
		return history.Options{}, fmt.Errorf("--history-age: %w", err)
	case o.maxSize < 0:
		return history.Options{}, fmt.Errorf("--history-size: %d is out of range, "+
			"expected 0 or more", o.maxSize)
	}
	return history.Options{Age: age, Size: int64(o.maxSize) << 20}, nil
}

// file returns the file with the history of a config, or "".
func (o *keepOptions) file(configs []string) string {
	switch o.path {
	case "":
		if len(configs) == 0 {
			return ""
		}
		return historyNextTo(configs)
	case noHistory:
		return ""
	}
	return o.path
}

// parseAge reads a duration that may have days: 90d, 36h, 30m; 0.
func parseAge(text string) (time.Duration, error) {
	if d, err := parseDuration(text); err == nil && d >= 0 && d <= 36500*24*time.Hour {
		return d, nil
	}
	return 0, errors.New(strconv.Quote(text) +
		" is not a duration, expected one such as 90d or 36h")
}
