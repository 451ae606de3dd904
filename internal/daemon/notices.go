package daemon

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/notify"
)

// notices are the messages of a daemon to people.
type notices struct {
	to     *notify.Notifier
	dryRun bool
}

// newNotices reads who gets messages. News that the history has from before is not sent again.
func newNotices(o Options) (*notices, error) {
	n := &notices{dryRun: o.DryRun, to: notify.New(notify.Options{Secret: Secret, Log: o.Log})}
	if err := n.configure(o); err != nil {
		return nil, err
	}
	if o.HistoryFile == "" {
		return n, nil
	}
	// a history that cannot be read is new, or Open reports the error
	if r, err := history.Read(o.HistoryFile); err == nil {
		defer r.Close()
		if now, err := r.Now(); err == nil {
			n.to.Known(slices.Collect(maps.Values(now.Verdicts)), now.Findings)
		}
	}
	return n, nil
}

func (n *notices) configure(o Options) error {
	if o.Notify == nil {
		return nil
	}
	config, err := o.Notify()
	if err != nil {
		return err
	}
	if config == nil {
		config = &v1alpha1.Notify{}
	}
	for _, p := range config.Spec.Places {
		if warning := input.Exposed(p.URLFile); warning != "" {
			o.Log.Warn(warning)
		}
	}
	n.to.Configure(config.Spec)
	return nil
}

// Secret reads the URL of a destination. Its errors name the file or the variable, never the
// content.
func Secret(p v1alpha1.Place) (string, error) {
	if p.URLEnv != "" {
		if url := os.Getenv(p.URLEnv); url != "" {
			return url, nil
		}
		return "", fmt.Errorf("the environment variable %s is not set, expected the URL", p.URLEnv)
	}
	raw, err := input.ReadFile(p.URLFile, input.Small)
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return "", fmt.Errorf("%s cannot be read: %w", p.URLFile, path.Err)
	}
	return string(raw), err
}

// check sends people the news of a check. On a dry run it sends nothing.
func (n *notices) check(r keeper.Result) {
	if !n.dryRun {
		n.to.Check(r.Started.Add(r.Elapsed), r.Managed, r.Verdicts, r.Findings, r.Changes)
	}
}

// counts passes the counts to the metrics.
func (n *notices) counts(count func(place, outcome string, n int64)) {
	all := n.to.Counts()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		count(name, "sent", all[name].Sent)
		count(name, "failed", all[name].Failed)
		count(name, "dropped", all[name].Dropped)
	}
}
