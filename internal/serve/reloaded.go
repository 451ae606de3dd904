package serve

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/openfiles"
)

// reloaded is the content of files. They are read again when they change. If the new content is
// invalid, the old one stays in use.
type reloaded[T any] struct {
	what  string // for the log
	files []string
	load  func() (T, error)
	log   *slog.Logger
	open  *openfiles.Watch

	mu      sync.Mutex
	current T
	read    []time.Time // modification times of the files when they were read
	checked time.Time
}

// checkEvery is the shortest time between two checks of the files.
const checkEvery = time.Second

// newReloaded reads files for the first time.
func newReloaded[T any](what string, log *slog.Logger, open *openfiles.Watch,
	load func() (T, error), files ...string) (r *reloaded[T], err error) {
	r = &reloaded[T]{what: what, files: files, load: load, log: log, open: open}
	r.read = r.changed()
	r.current, err = load()
	return r, err
}

func (r *reloaded[T]) changed() []time.Time {
	at := make([]time.Time, len(r.files))
	for i, name := range r.files {
		if info, err := os.Stat(name); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// get returns the content.
func (r *reloaded[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < checkEvery {
		return r.current
	}
	r.checked = time.Now()
	at := r.changed()
	if slices.Equal(at, r.read) {
		return r.current
	}
	next, err := r.load()
	switch {
	case r.open.Note(err): // the next calls try again
	case err != nil: // one of the files may be about to be written
		r.log.Error(r.what+" has changed and cannot be used; the old one stays in use", "error",
			err.Error())
	default:
		r.current, r.read = next, at
		r.log.Info(r.what+" was reloaded", "file", r.files[0])
	}
	return r.current
}
