package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/config"
)

// TestPromoteWrites: the file is replaced as a whole, with its mode. A file that was changed
// meanwhile, or has become a link, stays, and no temporary file is left.
func TestPromoteWrites(t *testing.T) {
	name := filepath.Join(t.TempDir(), "routes.yaml")
	e := editedFile{config.File{Name: name, Data: []byte("before")}, []byte("after")}
	elsewhere := filepath.Join(t.TempDir(), "real.yaml")
	for what, test := range map[string]struct {
		make func() error
		want string // part of the error; "": it is written
	}{
		"plain": {func() error { return os.WriteFile(name, []byte("before"), 0o600) }, ""},
		"changed": {func() error { return os.WriteFile(name, []byte("by another"), 0o600) },
			"was changed in the meantime"},
		"gone": {func() error { return nil }, "no such file"},
		"a link": {func() error {
			if err := os.WriteFile(elsewhere, []byte("before"), 0o600); err != nil {
				return err
			}
			return os.Symlink(elsewhere, name)
		}, "is a link"},
	} {
		os.Remove(name)
		if err := test.make(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(name)
		err := e.write()
		after, _ := os.ReadFile(name)
		switch {
		case test.want == "" && (err != nil || string(after) != "after"):
			t.Errorf("%s: %v, %q", what, err, after)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
			string(after) != string(before)):
			t.Errorf("%s: %v, want %q; %q", what, err, test.want, after)
		}
		if info, err := os.Stat(name); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", what, info.Mode())
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".routekeeper-*")); len(
			left) > 0 {
			t.Errorf("%s: %v is left", what, left)
		}
	}
}

// TestPromoteStops: of several files, none is written after the first that cannot be.
func TestPromoteStops(t *testing.T) {
	dir, p := t.TempDir(), &promotion{}
	for _, name := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.written = append(p.written,
			editedFile{config.File{Name: path, Data: []byte("before")}, []byte("after")})
	}
	p.written[1].file.Data = []byte("something else")
	if done, err := p.write(); done != 1 || err == nil {
		t.Errorf("%d files written, %v", done, err)
	}
	for i, want := range []string{"after", "before", "before"} {
		if now, _ := os.ReadFile(p.written[i].file.Name); string(now) != want {
			t.Errorf("%s: %s, want %s", p.written[i].file.Name, now, want)
		}
	}
}
