package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/history"
)

// keepOptions are the flags of a command that keeps a history.
type keepOptions struct {
	path  string
	age   string
	sizes int // MiB
}

// noHistory is the value of --history that keeps none.
const noHistory = "off"

// usualHistory is kept where no flag says otherwise: a year and what it takes to look back on it, in a file that fits on any disk.
var usualHistory = keepOptions{age: "400d", sizes: 200}

func (o *keepOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.path, "history", "", "keep the history in `FILE`, \""+noHistory+"\" for none "+
		"(default next to the config: routes.history.db for routes.yaml)")
	f.StringVar(&o.age, "history-age", usualHistory.age, "remove older checks from the history; 0 for never")
	f.IntVar(&o.sizes, "history-size", usualHistory.sizes, "remove the oldest checks if the history is larger (`MiB`); 0 for never")
	_ = cmd.MarkFlagFilename("history", "db")
}

// open opens the history of a config. Nil, which keeps nothing: for a dry run, where it is off, and where the config comes from standard
// input and no file is named.
func (o *keepOptions) open(configs []string, dryRun bool, log *slog.Logger) (*history.Log, error) {
	options, err := o.options()
	path := o.file(configs)
	if err != nil || path == "" || dryRun {
		return nil, err
	}
	options.Log = log
	return history.Open(path, options), nil
}

// options are what the flags say about the history, but for its log.
func (o *keepOptions) options() (history.Options, error) {
	age, err := parseAge(o.age)
	switch {
	case err != nil:
		return history.Options{}, fmt.Errorf("--history-age: %w", err)
	case o.sizes < 0:
		return history.Options{}, fmt.Errorf("--history-size: %d is less than nothing", o.sizes)
	}
	return history.Options{Age: age, Size: int64(o.sizes) << 20}, nil
}

// file is where the history of a config is, "" where none is kept.
func (o *keepOptions) file(configs []string) string {
	switch o.path {
	case "":
		if len(configs) == 0 {
			return ""
		}
		return historyBeside(configs)
	case noHistory:
		return ""
	}
	return o.path
}

// parseAge reads a span of time, also in days: 90d, 36h, 30m; 0.
func parseAge(text string) (time.Duration, error) {
	if d, err := parseDuration(text); err == nil && d >= 0 && d <= 36500*24*time.Hour {
		return d, nil
	}
	return 0, errors.New(strconv.Quote(text) + " is no span of time, expected one such as 90d or 36h")
}
