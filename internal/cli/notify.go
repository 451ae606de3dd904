package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/notify"
	"routekeeper.dev/routekeeper/internal/report"
)

func newNotify(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Send word of errors to Slack, Teams and webhooks",
		Long: `run and controller send word of new and resolved errors, repairs, conflicts and
decisions to the places of the Notify document in the config. See
docs/notifications.md.`,
		Example: "  routekeeper notify test -f routes.yaml",
	}
	cmd.AddCommand(newNotifyTest(a))
	return cmd
}

func newNotifyTest(a *app) *cobra.Command {
	var paths []string
	cmd := &cobra.Command{
		Use:   "test -f FILE",
		Short: "Send one message to each configured place",
		Long: `Sends one test message to each place of the Notify document, once, and says what
happened. It reads the same files and environment variables as a keeper. It does
not print their contents.

Exit code 0: each place took the message; 1: one did not, or an error.`,
		Example: `  routekeeper notify test -f routes.yaml
  SLACK_URL=https://hooks.slack.com/… routekeeper notify test -f notify.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNotifyTest(cmd.Context(), a, paths)
		},
	}
	configFlag(cmd, &paths)
	a.outputFlags(cmd, report.Text, report.JSON)
	return cmd
}

// readNotify reads the Notify document that -f names, nil if there is none.
func readNotify(a *app, flag string, paths []string) (*v1alpha1.Notify, error) {
	files, err := a.readFiles(flag, paths)
	if err != nil {
		return nil, err
	}
	return config.ReadNotify(files...)
}

// tried is what happened to a test message.
type tried struct {
	Name  string             `json:"name"`
	Type  v1alpha1.PlaceType `json:"type"`
	Sent  bool               `json:"sent"`
	Error string             `json:"error,omitempty"`
}

func runNotifyTest(ctx context.Context, a *app, paths []string) error {
	spec, err := readNotify(a, "-f", paths)
	if err != nil {
		return err
	}
	if spec == nil {
		return errors.New("-f: found no Notify document: docs/notifications.md has an example")
	}
	w, format, _, err := a.stream()
	if err != nil {
		return err
	}
	n := notify.New(notify.Options{Secret: daemon.Secret})
	var all []tried
	failed := 0
	for _, p := range spec.Spec.Places {
		if warning := input.Exposed(p.URLFile); warning != "" {
			say(a.err, "%s\n", warning)
		}
		t := tried{Name: p.Name, Type: p.Type, Sent: true}
		if err := n.Try(ctx, p, spec.Spec.Page); err != nil {
			t.Sent, t.Error = false, err.Error()
			failed++
		}
		all = append(all, t)
	}
	if format == report.JSON {
		err = json.NewEncoder(w).Encode(map[string]any{"places": all})
	} else {
		for _, t := range all {
			what := "sent"
			if !t.Sent {
				what = "not sent: " + report.Plain(t.Error)
			}
			_, e := fmt.Fprintf(w, "%s (%s): %s\n", t.Name, t.Type, what)
			err = cmp.Or(err, e)
		}
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d places did not take the message", failed, len(all))
	}
	return err
}
