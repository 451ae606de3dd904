package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/prove"
	"routekeeper.dev/routekeeper/internal/prove/lab"
	"routekeeper.dev/routekeeper/internal/report"
)

// cleanProofs deletes what earlier runs have left, even if one of them may still be running.
func cleanProofs(
	ctx context.Context, a *app, o proveOptions, w io.Writer, format report.Format,
) error {
	progress := a.progress(ctx, "reading what earlier runs left behind")
	defer progress.stop()
	client, err := a.connect(ctx, progress.logger())
	if err != nil {
		return err
	}
	left, err := lab.Leftovers(ctx, client, o.subscription, thisProcess())
	if err != nil {
		return err
	}
	progress.stop()
	for _, l := range left {
		if !l.Stale {
			say(a.err, "%s: another run may be using it until %s\n", l.Group, report.Plain(l.Until))
		}
	}
	if len(left) > 0 && !o.yes {
		for _, l := range left {
			say(a.err, "deletes %s\n", l.Group)
		}
		switch yes, err := a.ask("Delete this?"); {
		case err != nil:
			return fmt.Errorf("nothing was deleted: %w", err)
		case !yes:
			say(a.err, "nothing was deleted\n")
			return attention
		}
	}
	progress = a.progress(ctx, "deleting")
	defer progress.stop()
	err = removeLeftovers(ctx, client, left, progress, true)
	progress.stop()
	if format == report.JSON {
		return errors.Join(report.WriteJSON(w, struct {
			Leftovers []prove.Leftover `json:"leftovers"`
		}{left}), err)
	}
	for _, l := range left {
		if l.Deleted {
			fmt.Fprintf(w, "deleted %s: Azure answers 404 for it\n",
				report.Plain(string(l.Group)))
		}
	}
	if len(left) == 0 {
		fmt.Fprintln(w, "nothing is left of earlier runs")
	}
	return err
}

// removeLeftovers deletes the groups of runs that have ended, or all of them, and notes how that
// went.
func removeLeftovers(ctx context.Context, client *azure.Client, left []prove.Leftover, p *progress,
	all bool) error {
	var failed []error
	for i := range left {
		l := &left[i]
		if !l.Stale && !all {
			continue
		}
		p.now("deleting " + string(l.Group))
		if err := lab.Remove(ctx, client, l.Group); err != nil {
			l.Error = err.Error()
			failed = append(failed, err)
			continue
		}
		l.Deleted = true
		p.say("deleted " + string(l.Group))
	}
	return errors.Join(failed...)
}

// thisProcess identifies this process by a hash of the host name and by its number. So a run on the
// same host knows whether the process of a group has ended. For other hosts it waits until the
// group's time limit.
func thisProcess() lab.Process {
	name, _ := os.Hostname() // without a name, all hosts are one
	sum := sha256.Sum256([]byte(name))
	host := hex.EncodeToString(sum[:6])
	return lab.Process{
		Self: host + "-" + strconv.Itoa(os.Getpid()),
		Ended: func(by string) bool {
			at, number, found := strings.Cut(by, "-")
			pid, err := strconv.Atoi(number)
			return found && err == nil && at == host && pid > 0 && pid != os.Getpid() &&
				!mayRun(pid)
		},
	}
}

// mayRun reports whether a process may be running. If it cannot know, it returns true.
func mayRun(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false // Windows says so
	}
	defer func() { _ = p.Release() }()
	if runtime.GOOS == "windows" {
		return true
	}
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// proveRole returns a custom role with exactly the keeper's rights and the rights that the tests
// need.
func proveRole(subscription string) map[string]any {
	return map[string]any{
		"Name": "routekeeper-prove",
		"Description": "The keeper's generated rights, and those for routekeeper prove's " +
			"own group.",
		"Actions":          prove.Role(),
		"AssignableScopes": []string{"/subscriptions/" + subscription},
	}
}
