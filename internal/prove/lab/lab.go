// Package lab runs the trials of package prove in a throwaway resource group. The group holds route
// tables, a security group, a network with two subnets and a network interface. None of these costs
// anything.
//
// How it works. The group has a random name, and a tag with this name. It is made only if no group
// has the name, and deleted only if it has the tag and contains nothing else. The tag is written
// together with the group. So if the program is killed, the next run finds the group and deletes
// it. Every call is sent once and recorded, without anything that identifies a tenant, a
// subscription or a person. Every call, every trial and the whole run have a time limit. If a trial
// fails, its facts stay untested, and the other trials continue.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/prove"
)

// Settings configure a run.
type Settings struct {
	Subscription, Location string
	Trials                 []prove.Trial
	// LogWait is the maximum time to wait for the activity log.
	LogWait time.Duration
	// Process identifies this process, and knows whether another one has ended.
	Process Process
	// Recording receives the recorded calls, one per line.
	Recording io.Writer
}

// Observer receives the progress.
type Observer struct {
	Begins func(number, of int, t prove.Trial)
	Ended  func(number, of int, t prove.Trial, took time.Duration, err error)
}

// Outcome is the outcome of a run.
type Outcome struct {
	Group    arm.ID // "" if none was made
	Observed prove.Observed
	// Deleted is true if the group is proven to be gone. Calls is the number of calls.
	Deleted bool
	Calls   int
}

// Time limits.
const (
	callWithin    = time.Minute
	trialWithin   = 6 * time.Minute
	settleWithin  = 4 * time.Minute
	cleanUpWithin = 15 * time.Minute
)

// Most returns the maximum time of a run: its trials, and the deletion of what they made.
func Most(trials []prove.Trial, logWait time.Duration) time.Duration {
	takes, log := prove.Takes(trials, logWait)
	return (4*takes + 5*time.Minute + cleanUpWithin + log).Round(time.Minute)
}

// lab is one run.
type lab struct {
	Settings
	client *azure.Client
	record *recorder
	group  arm.ID
	made   bool // this run made the group

	mu      sync.Mutex // guards what concurrent calls note
	calls   int
	writes  []written
	seen    prove.Observed
	counter int // makes values that were never written before
	who     [2]string
}

// written is an accepted PUT of a subnet or a table.
type written struct {
	id          arm.ID
	correlation string
	at          time.Time
	shown       time.Duration // time until the log showed it, 0 if it has not
}

// trials are the functions of the trials by name.
var trials = map[string]func(*trial){
	prove.TrialSetup:            (*trial).setUp,
	"subnet-writes":             (*trial).subnetWrites,
	"table-writes":              (*trial).tableWrites,
	"shared-etags":              (*trial).sharedETags,
	"strip-and-repair":          (*trial).strip,
	"unknown-fields":            (*trial).unknownFields,
	"reads-after-writes":        (*trial).readsAfterWrites,
	"large-tables":              (*trial).largeTables,
	"writers-at-once":           (*trial).writersAtOnce,
	"overlapping-table-writes":  (*trial).tableOverlap,
	"overlapping-subnet-writes": (*trial).subnetOverlap,
	"interface":                 (*trial).networkInterface,
	"table-in-use":              (*trial).tableInUse,
	"network-writes":            (*trial).networkWrites,
	"rights":                    (*trial).rights,
	prove.TrialActivity:         (*trial).activityLog,
	prove.TrialCleanUp:          (*trial).cleanUp,
}

// Run makes the trials one after the other. It always deletes the group, even if the context ends.
// The error says why it could not make or delete the group.
func Run(ctx context.Context, client *azure.Client, s Settings, tell Observer) (Outcome, error) {
	l := &lab{Settings: s, client: client, record: newRecorder(s.Recording, s.Subscription)}
	l.seen = prove.Observed{Failed: map[string]string{}, Facts: map[string]prove.Judgement{},
		Rights: prove.Rights{Used: map[string]prove.Answer{}, Unread: notRead}}
	var failed error
	if l.who[0], l.who[1], failed = client.Who(ctx); failed != nil {
		return Outcome{}, failed
	}
	within, cancel := context.WithTimeout(ctx, Most(s.Trials, s.LogWait)-cleanUpWithin)
	defer cancel()
	for i, t := range s.Trials {
		limit, of := trialWithin, within
		switch {
		case t.Name == prove.TrialCleanUp:
			limit, of = cleanUpWithin, context.WithoutCancel(ctx)
		case failed != nil:
			l.seen.Failed[t.Name] = failed.Error()
			continue
		case within.Err() != nil:
			l.seen.Failed[t.Name] = ended(ctx).Error()
			continue
		case t.Name == prove.TrialActivity:
			limit += s.LogWait
		}
		tell.Begins(i+1, len(s.Trials), t)
		began := time.Now()
		err := l.try(of, t, limit)
		if err != nil && ctx.Err() != nil && t.Name != prove.TrialCleanUp {
			err = ended(ctx)
		}
		tell.Ended(i+1, len(s.Trials), t, time.Since(began), err)
		if err != nil {
			l.seen.Failed[t.Name] = err.Error()
		}
		if err != nil && (t.Name == prove.TrialSetup || t.Name == prove.TrialCleanUp) {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", t.Name, err))
		}
	}
	out := Outcome{Observed: l.seen, Calls: l.calls}
	if l.made {
		out.Group = l.group
		_, kept := l.seen.Failed[prove.TrialCleanUp]
		out.Deleted = !kept
	}
	return out, errors.Join(failed, l.record.err)
}

// ended returns why the remaining trials are skipped.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return errors.New("the time was up")
}

func (l *lab) try(ctx context.Context, t prove.Trial, limit time.Duration) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	run := trial{caller{lab: l, ctx: within}}
	trials[t.Name](&run)
	err := run.err
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it did not end within %s: %w", limit, err)
	}
	return err
}
