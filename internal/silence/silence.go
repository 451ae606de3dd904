// Package silence keeps what people decided for a time: silenced findings and paused clusters, each
// with a reason. It is a small file next to the history, which the program of the keeper and
// commands read and write.
//
// It must not decide what a silence or a pause does: Mark marks findings, and the keeper asks
// Paused before it writes.
package silence

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Longest is how long a silence or a pause can last, so that nothing is silenced forever.
const Longest = 7 * 24 * time.Hour

// Forgotten is the age from which a pause is a finding.
const Forgotten = 24 * time.Hour

// endReported is how long the end of an entry is a finding.
const endReported = 24 * time.Hour

// Kind says what an entry does.
type Kind string

// Silence hides one finding from alerts, Pause stops the writes for one cluster.
const (
	Silence Kind = "silence"
	Pause   Kind = "pause"
)

// InSpec is the From of a pause that is in the config of its cluster. It has no ID, and ends with
// an edit of the config.
const InSpec = "spec.pause"

// Entry is a silence or a pause.
type Entry struct {
	ID      int    `json:"id"`
	Kind    Kind   `json:"kind"`
	Cluster string `json:"cluster,omitempty"`
	// Code, Resource and Subject identify the silenced finding, with Cluster.
	Code     finding.Code `json:"code,omitempty"`
	Resource string       `json:"resource,omitempty"`
	Subject  string       `json:"subject,omitempty"`
	// Severity and Evidence are those of the finding when it was silenced. A worse finding is not
	// silenced.
	Severity finding.Severity `json:"severity"`
	Evidence int              `json:"evidence"`
	Reason   string           `json:"reason"`
	By       string           `json:"by"` // who
	// the page and an address, or the command line of a host
	From  string    `json:"from"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Ended is set if a person ended it before its time.
	Ended *End `json:"ended,omitempty"`
}

// End is how a person ended an entry.
type End struct {
	By   string    `json:"by"`
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

// key returns the key of the silenced finding.
func (e Entry) key() string {
	return finding.Finding{Code: e.Code, Cluster: e.Cluster, Resource: e.Resource,
		Subject: e.Subject}.Key()
}

// Of returns an entry that silences a finding.
func Of(f finding.Finding) Entry {
	return Entry{Kind: Silence, Cluster: f.Cluster, Code: f.Code, Resource: f.Resource,
		Subject: f.Subject, Severity: f.Severity, Evidence: len(f.Evidence)}
}

// Can says why a finding cannot be silenced, or returns nil.
func Can(f finding.Finding) error {
	switch f.Code {
	case finding.Silenced, finding.Paused, finding.PauseForgotten, finding.SilenceEnded:
		return fmt.Errorf("%s says what a person did, and cannot be silenced", f.Code)
	}
	return nil
}

// These limit the entries in the file, and the length of a text, because people and pages write
// them.
const (
	mostEntries = 1000
	mostText    = 300
)

// check says why an entry cannot be added, or returns nil.
func (e Entry) check(now time.Time) error {
	length := e.Until.Sub(now)
	switch {
	case length <= 0 || length > Longest+time.Minute:
		return errors.New("the time is out of range, expected more than 0 and at most 7d")
	case strings.TrimSpace(e.Reason) == "":
		return errors.New("the reason is missing, expected one that others understand")
	case len(e.Reason) > mostText:
		return fmt.Errorf("the reason has %d bytes, expected at most %d", len(e.Reason), mostText)
	}
	return nil
}

// Store is the file. Several goroutines may use it.
type Store struct {
	path string
	log  *slog.Logger
	also func() []Entry // more entries, which are not in the file; nil for none

	mu   sync.Mutex
	last []Entry // from the last successful read
	seen stamp
	bad  bool // the last read failed
}

// Open returns the store of a file, which need not exist. A store of "" is empty and accepts
// nothing.
func Open(path string, log *slog.Logger) *Store {
	return &Store{path: path, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Also adds entries that are not in the file. It must be called before the store is used.
func (s *Store) Also(entries func() []Entry) { s.also = entries }

// Current returns the entries that have not ended, the oldest first.
func (s *Store) Current() []Entry {
	return slices.DeleteFunc(s.All(), func(e Entry) bool { return e.Ended != nil })
}

// All returns the entries that have not ended, and what a person ended within a day.
func (s *Store) All() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loadLocked()
	all := s.last
	if s.also != nil {
		all = slices.Concat(all, s.also())
	}
	return kept(all, time.Now())
}

// kept leaves out the entries whose time is over, or that a person ended long ago.
func kept(all []Entry, now time.Time) []Entry {
	return slices.DeleteFunc(slices.Clone(all), func(e Entry) bool {
		if e.Ended != nil {
			return now.Sub(e.Ended.At) >= endReported
		}
		return !now.Before(e.Until)
	})
}

// Paused says until when and why a cluster is paused, or returns "".
func (s *Store) Paused(cluster string) string {
	for _, e := range s.Current() {
		if e.Kind == Pause && e.Cluster == cluster {
			return fmt.Sprintf("until %s by %s: %s", e.Until.UTC().Format(time.RFC3339), e.By,
				e.Reason)
		}
	}
	return ""
}

// Mark marks the silenced findings, in a copy. A finding that is worse than when it was silenced is
// not marked.
func Mark(entries []Entry, findings []finding.Finding) []finding.Finding {
	silenced := map[string]Entry{}
	for _, e := range entries {
		if e.Kind == Silence {
			silenced[e.key()] = e
		}
	}
	if len(silenced) == 0 {
		return findings
	}
	out := slices.Clone(findings)
	for i, f := range out {
		e, is := silenced[f.Key()]
		if is && f.Severity <= e.Severity && len(f.Evidence) <= e.Evidence {
			out[i].Silenced = &finding.Silence{Until: e.Until.UTC().Format(time.RFC3339),
				Reason: e.Reason, By: e.By}
		}
	}
	return out
}

// Findings returns findings about the entries themselves, so that the history records who silenced
// or paused what, from where, and who ended it. A pause that was forgotten is a warning.
func Findings(entries []Entry, now time.Time) (found []finding.Finding) {
	for _, e := range entries {
		until := e.Until.UTC().Format(time.RFC3339)
		subject := fmt.Sprint(e.ID)
		if e.From == InSpec {
			subject = InSpec
		}
		if e.Ended != nil {
			found = append(found, e.endOf().About(subject))
			continue
		}
		if e.Kind == Silence {
			found = append(found, finding.New(finding.Silenced, e.Cluster, e.Resource,
				"%s is silenced until %s by %s: %s", e.Code, until, e.By, e.Reason).About(subject).
				With("from "+e.From, "since "+e.At.UTC().Format(time.RFC3339)).
				WithAdvice("this ends the silence").
				WithFix("routekeeper silence end %s%s", subject, finding.Config()))
			continue
		}
		found = append(found, e.adviseEnd(finding.New(finding.Paused, e.Cluster, "",
			"nothing is changed for %s until %s: %s paused it: %s", e.Cluster, until, e.By,
			e.Reason).About(subject).
			With("from "+e.From, "since "+e.At.UTC().Format(time.RFC3339))))
		if now.Sub(e.At) >= Forgotten {
			found = append(found, e.adviseEnd(ForgottenPause(e.Cluster, e.At, until)))
		}
	}
	return found
}

// adviseEnd adds to a finding how to end the pause.
func (e Entry) adviseEnd(f finding.Finding) finding.Finding {
	if e.From == InSpec {
		return f.WithAdvice("remove spec.pause from the config of %s to end the pause", e.Cluster)
	}
	return f.WithAdvice("this ends the pause").
		WithFix("routekeeper pause end %s%s", e.Cluster, finding.Config())
}

// endOf says who ended an entry.
func (e Entry) endOf() finding.Finding {
	what := "the pause of " + e.Cluster
	if e.Kind == Silence {
		what = "the silence of " + string(e.Code)
		if e.Cluster != "" {
			what += " on " + e.Cluster
		}
	}
	return finding.New(finding.SilenceEnded, e.Cluster, e.Resource,
		"%s ended %s at %s; %s began it: "+
			"%s", e.Ended.By, what, e.Ended.At.UTC().Format(time.RFC3339), e.By, e.Reason).
		With("from " + e.Ended.From)
}

// ForgottenPause returns the finding of a pause that has lasted for more than a day; cluster is ""
// if all are paused. Only then it says how to end the pause.
func ForgottenPause(cluster string, since time.Time, until string) finding.Finding {
	what := cluster
	if cluster == "" {
		what = "the keeper"
	}
	f := finding.New(finding.PauseForgotten, cluster, "",
		"%s has been paused since %s, until %s: nothing is repaired", what,
		since.UTC().Format(time.RFC3339), until)
	if cluster == "" {
		f = f.WithAdvice("this ends the pause").WithFix("routekeeper pause end%s", finding.Config())
	}
	return f
}
