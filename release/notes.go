package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// notesFolder has the text of a release in its folder. It is no file of the release.
const notesFolder = "notes"

// writeNotes writes the section of the changelog about this version; of a snapshot, about what is
// not released.
func (r *release) writeNotes() error {
	raw, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	title := r.version
	if strings.Contains(r.version, "-snapshot.") {
		title = "Unreleased"
	}
	_, text, found := strings.Cut(string(raw), "\n## "+title+"\n")
	if !found {
		return fmt.Errorf("CHANGELOG.md: expected a section ## %s", title)
	}
	if next := regexp.MustCompile(`(?m)^## `).FindStringIndex(text); next != nil {
		text = text[:next[0]]
	}
	if err := os.Mkdir(filepath.Join(r.dist, notesFolder), 0o755); err != nil {
		return err
	}
	return r.write(filepath.Join(notesFolder, "notes.md"), []byte(strings.TrimSpace(text)+"\n"))
}
