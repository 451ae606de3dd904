package daemon

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// pauseExtension is of the file that pauses the keeper of a config: the time at which it ends.
const pauseExtension = ".paused"

// PauseFile is where the pause of a config stands: beside a file, or in the folder.
func PauseFile(config string) string {
	if info, err := os.Stat(config); err == nil && info.IsDir() {
		return filepath.Join(config, "routekeeper"+pauseExtension)
	}
	return strings.TrimSuffix(config, filepath.Ext(config)) + pauseExtension
}

// WritePause writes until when: whole or not at all, because a keeper may read it at any time, and
// so that keepers of other users can, whatever the umask.
func WritePause(file string, until time.Time) error {
	text := until.UTC().Format(time.RFC3339) + "\n"
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(file+".new", 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// pauses are the pause files of a keeper's configs.
type pauses struct {
	files []string
	log   *slog.Logger

	mu   sync.Mutex
	last map[string]pause // what a file said when it was last looked at with success
}

// pause is what a file says: nothing, or until when the keeper is paused.
type pause struct {
	there   bool
	until   time.Time // zero: until the file says until when, or is removed
	unknown bool      // the last attempt to look at the file failed
}

// newPauses are the pauses of the configs that -f names.
func newPauses(configs []string, log *slog.Logger) *pauses {
	p := &pauses{log: log, last: map[string]pause{}}
	for _, config := range configs {
		if config != "-" {
			p.files = append(p.files, PauseFile(config))
		}
	}
	return p
}

// Paused says until when the keeper of these configs is paused, "" where it is not.
func Paused(configs []string) string {
	return newPauses(configs, slog.New(slog.DiscardHandler)).until()
}

// until says until when the keeper is paused, "" where it is not: while one of the files says so.
func (p *pauses) until() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, file := range p.files {
		if until := p.look(file).words(file, time.Now()); until != "" {
			return until
		}
	}
	return ""
}

// look reads a pause file. Only a file that is there and can be read is a pause: where it cannot be
// looked at, for lack of file descriptors or because of a disk, the last answer goes on to count.
// So whoever uses up this machine's resources pauses no keeper, and ends no pause.
func (p *pauses) look(file string) pause {
	raw, err := os.ReadFile(file)
	switch {
	case err == nil:
		until, err := time.Parse(time.RFC3339, strings.TrimSpace(string(raw)))
		if err != nil {
			until = time.Time{}
		}
		p.last[file] = pause{there: true, until: until}
	case errors.Is(err, fs.ErrNotExist):
		p.last[file] = pause{}
	default:
		last := p.last[file]
		if !last.unknown {
			p.log.Warn("the pause file cannot be read; what it last said goes on to count",
				"file", file, "paused", last.words(file, time.Now()) != "", "error", err.Error())
		}
		last.unknown = true
		p.last[file] = last
	}
	return p.last[file]
}

// words say until when a file pauses the keeper, "" where it does not.
func (p pause) words(file string, now time.Time) string {
	switch {
	case !p.there:
		return ""
	case p.until.IsZero():
		return "until " + file + " says until when, or is removed"
	case now.Before(p.until):
		return "until " + p.until.Format(time.RFC3339) + " (" + file + ")"
	}
	return ""
}
