package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// WritePause writes until when: whole or not at all, because a keeper may read it at any time, and so that keepers of other users can,
// whatever the umask.
func WritePause(file string, until time.Time) error {
	if err := os.WriteFile(file+".new", []byte(until.UTC().Format(time.RFC3339)+"\n"), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(file+".new", 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Paused says until when the keeper of configs is paused, "" where it is not: while one of them is.
func Paused(configs []string) string {
	for _, config := range configs {
		if config == "-" {
			continue
		}
		if until := pausedBy(PauseFile(config)); until != "" {
			return until
		}
	}
	return ""
}

// pausedBy says until when a file pauses. What cannot be read pauses, because somebody wanted that.
func pausedBy(file string) string {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return "until " + file + " can be read or is removed"
	}
	until, err := time.Parse(time.RFC3339, strings.TrimSpace(string(raw)))
	switch {
	case err != nil:
		return "until " + file + " says until when, or is removed"
	case time.Now().Before(until):
		return "until " + until.Format(time.RFC3339) + " (" + file + ")"
	}
	return ""
}
