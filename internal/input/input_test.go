package input

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimits: a reader ends with an error one byte after the limit, for files and for folders.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, fits := range map[int64]bool{4: false, 5: true, 6: true} {
		_, file := ReadFile(filepath.Join(dir, "a"), most)
		_, folder := fs.ReadFile(Folder(dir, most), "a")
		_, stream := io.ReadAll(Limit(strings.NewReader("12345"), most))
		for what, err := range map[string]error{"file": file, "folder": folder, "stream": stream} {
			if (err == nil) != fits {
				t.Errorf("%s: %d bytes allowed: %v", what, most, err)
			}
		}
	}
	if names, err := fs.Glob(Folder(dir, 5), "*"); err != nil || len(names) != 1 {
		t.Errorf("the folder lists %v, %v", names, err)
	}
	if err := CheckFiles(5, filepath.Join(dir, "none"), filepath.Join(dir, "a")); err != nil {
		t.Error(err)
	}
	if err := CheckFiles(5, dir); err == nil {
		t.Error("a folder is fine")
	}
}

// TestUntil: what reads can be interrupted.
func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := Until(ctx, strings.NewReader(strings.Repeat("x", 1000)))
	if n, err := r.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was interrupted", err)
	}
}
