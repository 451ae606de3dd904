package silence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"routekeeper.dev/routekeeper/internal/input"
)

// Extension is the file extension of stores. It is not that of a config: both can be in a folder.
const Extension = ".silences"

// stamp identifies one state of the file.
type stamp struct {
	size int64
	time int64
}

// document is the content of the file. Next is the next entry's ID: IDs are not used again.
type document struct {
	Next    int     `json:"next"`
	Entries []Entry `json:"entries"`
}

// loadLocked reads the file if it has changed. If it cannot be read, the last content stays valid,
// so that a machine without resources ends no pause and no silence.
func (s *Store) loadLocked() {
	if s.path == "" {
		return
	}
	info, err := os.Stat(s.path)
	now := stamp{-1, 0}
	if err == nil {
		now = stamp{info.Size(), info.ModTime().UnixNano()}
	}
	if err == nil && now == s.seen && !s.bad {
		return
	}
	doc, err := s.read()
	if err != nil {
		if !s.bad {
			s.log.Warn("silences and pauses cannot be read; the last ones stay valid",
				"file", s.path, "error", err.Error())
		}
		s.bad = true
		return
	}
	s.last, s.seen, s.bad = doc.Entries, now, false
}

func (s *Store) read() (document, error) {
	doc := document{Next: 1}
	raw, err := input.ReadFile(s.path, input.Text)
	if errors.Is(err, fs.ErrNotExist) {
		return doc, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	return doc, err
}

// Add adds entries, and replaces those about the same finding or cluster.
func (s *Store) Add(entries ...Entry) error {
	now := time.Now()
	for _, e := range entries {
		if err := e.check(now); err != nil {
			return err
		}
	}
	return s.change(func(doc *document) error {
		for _, e := range entries {
			doc.Entries = slices.DeleteFunc(doc.Entries, func(old Entry) bool {
				return old.Kind == e.Kind && old.key() == e.key()
			})
			e.ID, e.At = doc.Next, now.UTC().Truncate(time.Second)
			e.Until = e.Until.UTC().Truncate(time.Second)
			doc.Next++
			doc.Entries = append(doc.Entries, e)
		}
		if len(doc.Entries) > mostEntries {
			return fmt.Errorf("there are more than %d silences and pauses, expected fewer",
				mostEntries)
		}
		return nil
	})
}

// End ends the entries for which end is true, and returns them. The file says for a day who ended
// them, from where.
func (s *Store) End(by, from string, end func(Entry) bool) (ended []Entry, err error) {
	err = s.change(func(doc *document) error {
		for i, e := range doc.Entries {
			if e.Ended == nil && end(e) {
				doc.Entries[i].Ended = &End{By: by, From: from,
					At: time.Now().UTC().Truncate(time.Second)}
				ended = append(ended, e)
			}
		}
		return nil
	})
	return ended, err
}

// change changes the file. It drops what ended long ago, and replaces the file as a whole, because
// others may read it at any time.
func (s *Store) change(edit func(*document) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" {
		return errors.New("there is no file for silences and pauses: the keeper runs without a " +
			"history")
	}
	unlock, err := lock(s.path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	doc, err := s.read()
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", s.path, err)
	}
	doc.Entries = kept(doc.Entries, time.Now())
	if err := edit(&doc); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	if err := input.WriteWhole(s.path, append(raw, '\n')); err != nil {
		return err
	}
	s.seen = stamp{} // read it again
	s.loadLocked()
	return nil
}

// lockFor is how long a change waits for the change of another program, which takes milliseconds.
const lockFor = 10 * time.Second

// lock keeps other programs from changing the file until unlock is called. The lock ends with the
// program, however the program ends. The lock's file stays, because removing it would let two
// programs lock two files of the same name.
func lock(path string) (unlock func(), err error) {
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), lockFor)
	defer cancel()
	if _, err := l.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("another program holds %s", path)
		}
		return nil, err
	}
	return func() { l.Close() }, nil
}
