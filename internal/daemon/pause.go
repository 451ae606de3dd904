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

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/openfiles"
	"routekeeper.dev/routekeeper/internal/silence"
)

// pauseExtension is the extension of a pause file, which contains the end of the pause.
const pauseExtension = ".paused"

// PauseFile returns the pause file of a config: next to a file, or in the folder.
func PauseFile(config string) string {
	if info, err := os.Stat(config); err == nil && info.IsDir() {
		return filepath.Join(config, "routekeeper"+pauseExtension)
	}
	return strings.TrimSuffix(config, filepath.Ext(config)) + pauseExtension
}

// WritePause writes a pause file, which keepers of other users may read at any time.
func WritePause(file string, until time.Time) error {
	return input.WriteWhole(file, []byte(until.UTC().Format(time.RFC3339)+"\n"))
}

// pauses are the pause files of a keeper's configs.
type pauses struct {
	files []string
	log   *slog.Logger
	// shortage receives the error of a file that cannot be read, and reports whether there are too
	// many open files.
	shortage func(error) bool

	mu   sync.Mutex
	last map[string]pause // by file, from the last successful read
}

// pause is the content of a pause file.
type pause struct {
	there   bool
	until   time.Time // zero: until the file holds a time, or is removed
	unknown bool      // the last attempt to read the file failed
}

// newPauses makes the pauses of the configs that -f names.
func newPauses(configs []string, log *slog.Logger) *pauses {
	p := &pauses{log: log, shortage: openfiles.Is, last: map[string]pause{}}
	for _, config := range configs {
		if config != "-" {
			p.files = append(p.files, PauseFile(config))
		}
	}
	return p
}

// Paused says until when the keeper of these configs is paused, or returns "".
func Paused(configs []string) string {
	return newPauses(configs, slog.New(slog.DiscardHandler)).until()
}

// until says until when the keeper is paused, or returns "". One pause file is enough.
func (p *pauses) until() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, file := range p.files {
		if until := p.read(file).words(file, time.Now()); until != "" {
			return until
		}
	}
	return ""
}

// forgotten reports the pauses that have lasted for more than a day.
func (p *pauses) forgotten(now time.Time) (found []finding.Finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, file := range p.files {
		until := p.read(file).words(file, now)
		info, err := os.Stat(file)
		if until != "" && err == nil && now.Sub(info.ModTime()) >= silence.Forgotten {
			found = append(found,
				silence.ForgottenPause("", info.ModTime(), strings.TrimPrefix(until, "until ")))
		}
	}
	return found
}

// read reads a pause file. Only a file that exists and can be read is a pause. If the file cannot
// be read, for lack of file descriptors or because of a disk, the last content stays valid. So a
// machine without resources neither starts nor ends a pause.
func (p *pauses) read(file string) pause {
	raw, err := input.ReadFile(file, input.Small)
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
		p.shortage(err)
		last := p.last[file]
		if !last.unknown {
			p.log.Warn("the pause file cannot be read; its last content stays valid",
				"file", file, "paused", last.words(file, time.Now()) != "", "error", err.Error())
		}
		last.unknown = true
		p.last[file] = last
	}
	return p.last[file]
}

// words says until when a file pauses the keeper, or returns "".
func (p pause) words(file string, now time.Time) string {
	switch {
	case !p.there:
		return ""
	case p.until.IsZero():
		return "until " + file + " holds a time, or is removed"
	case now.Before(p.until):
		return "until " + p.until.Format(time.RFC3339) + " (" + file + ")"
	}
	return ""
}
