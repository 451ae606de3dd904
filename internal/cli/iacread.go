package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac"
	"routekeeper.dev/routekeeper/internal/input"
)

// readIaC reads a file or folder until the context ends: standard input may never end, and much
// code takes long.
func readIaC(ctx context.Context, a *app, name, source string,
	deployed iac.TemplateOptions) ([]iac.Part, error) {
	var parts []iac.Part
	done := make(chan error, 1)
	go func() {
		var err error
		parts, err = readCode(a.in, name, source, deployed)
		done <- err
	}()
	select {
	case err := <-done:
		return parts, err
	case <-ctx.Done():
		return nil, errors.New("interrupted")
	}
}

// readCode reads a file, or what a folder has of each kind. If the .tf files of a plan are
// available, it adds file and line.
func readCode(in io.Reader, name, source string, deployed iac.TemplateOptions) ([]iac.Part, error) {
	if name == "-" {
		r, err := iac.Read("", input.Limit(in, input.Large), deployed)
		return []iac.Part{{Name: name, Reading: r}}, locate(r, err, source, source)
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it does not exist")
	}
	if err != nil {
		return nil, reason(err)
	}
	if info.IsDir() {
		return readFolder(name, deployed)
	}
	f, err := input.Open(name, input.Large)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	r, err := iac.Read(name, f, deployed)
	return []iac.Part{{Name: name, Reading: r}},
		locate(r, err, source, cmp.Or(source, filepath.Dir(name)))
}

// readFolder reads the code of every kind below a folder.
func readFolder(name string, deployed iac.TemplateOptions) ([]iac.Part, error) {
	dir, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	root, inside := rootOf(dir)
	parts, err := iac.ReadFolder(input.Folder(root, input.Text), inside, deployed)
	if err != nil {
		return nil, shownErr(root, err)
	}
	for i := range parts {
		if parts[i].Name == inside {
			parts[i].Name = name
		} else {
			parts[i].Name = shownFrom(root, parts[i].Name)
		}
		relative(parts[i].Reading)
	}
	return parts, nil
}

// locate adds file and line. It ignores errors in files that only happen to be next to a plan.
func locate(r *iac.Reading, err error, asked, dir string) error {
	if err != nil || dir == "" || r.Format != iac.TerraformPlan {
		return err
	}
	s, err := readSource(dir)
	if err == nil && s.Empty() && asked != "" {
		err = fmt.Errorf("there are no .tf files in %s", dir)
	}
	if err != nil {
		if asked == "" {
			return nil
		}
		return fmt.Errorf("--source: %w", err)
	}
	r.Locate(s)
	r.Warn(s)
	relative(r)
	return nil
}

// shownFrom returns a path below a root, relative to the current folder.
func shownFrom(root, name string) string {
	name = filepath.Join(root, filepath.FromSlash(name))
	here, err := filepath.Abs(".")
	if err != nil {
		return name
	}
	return relativeTo(here, name)
}

// readSource reads the configuration in a folder; modules may be anywhere on the same disk.
func readSource(dir string) (*iac.Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, inside := rootOf(dir)
	s, err := iac.ReadSource(input.Folder(root, input.Text), inside)
	return s, shownErr(root, err)
}

// shownErr names the file of an error relative to the current folder.
func shownErr(root string, err error) error {
	var path *fs.PathError
	var bad *iac.SyntaxError
	switch {
	case errors.As(err, &path):
		return fmt.Errorf("%s: %w", shownFrom(root, path.Path), path.Err)
	case errors.As(err, &bad):
		return &iac.SyntaxError{File: shownFrom(root, bad.File), Line: bad.Line,
			Summary: bad.Summary}
	}
	return err
}

// rootOf splits an absolute path into the root of the disk and the rest, as fs.FS expects it.
func rootOf(dir string) (root, inside string) {
	root = filepath.VolumeName(dir) + string(filepath.Separator)
	if inside = filepath.ToSlash(strings.TrimPrefix(dir, root)); inside == "" {
		inside = "."
	}
	return root, inside
}

// relative names files relative to the working directory, as other tools and code scanning do.
func relative(r *iac.Reading) {
	here, err := filepath.Abs(".")
	if err != nil {
		return
	}
	root, _ := rootOf(here)
	r.Rename(func(file string) string {
		return relativeTo(here, filepath.Join(root, filepath.FromSlash(file)))
	})
}

func relativeTo(here, path string) string {
	if short, err := filepath.Rel(here, path); err == nil {
		return filepath.ToSlash(short)
	}
	return path
}
