package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file of an archive, or a symbolic link.
type file struct {
	name string
	mode fs.FileMode
	raw  []byte
	link string
}

// archive returns the name of a program's archive for a platform, without its ending.
func (r *release) archive(of program, platform string) string {
	return fmt.Sprintf("%s_%s_%s", of.name, r.version, strings.ReplaceAll(platform, "/", "_"))
}

// ending returns the ending of a platform's archive.
func ending(platform string) string {
	if strings.HasPrefix(platform, "windows/") {
		return ".zip"
	}
	return ".tar.gz"
}

// pages has a program write its man pages and completions.
func (r *release) pages(ctx context.Context, of program, binary string) ([]file, error) {
	man := filepath.Join(r.work, "man", of.name)
	if out, err := exec.CommandContext(ctx, binary, "man", man).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("man: %w: %s", err, out)
	}
	files, err := filesOf(man, "man/man1")
	if err != nil {
		return nil, err
	}
	for shell, name := range map[string]string{"bash": of.name + ".bash", "zsh": "_" + of.name,
		"fish": of.name + ".fish", "powershell": of.name + ".ps1"} {
		out, err := exec.CommandContext(ctx, binary, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion %s: %w", shell, err)
		}
		files = append(files, file{name: "completions/" + name, mode: 0o644, raw: out})
	}
	return files, nil
}

// filesOf reads all files below a folder except code.
func filesOf(folder, as string) (files []file, err error) {
	err = filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(at, ".go") ||
			strings.HasPrefix(d.Name(), "go.") { // tests, and the files of their module
			return err
		}
		raw, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, at)
		files = append(files,
			file{name: path.Join(as, filepath.ToSlash(relative)), mode: 0o644, raw: raw})
		return err
	})
	return files, err
}

// writeArchive writes the archive of a program for a platform: the program, what belongs to it, and
// its pages.
func (r *release) writeArchive(of program, platform string, pages []file) error {
	program, err := os.ReadFile(r.binary(of, platform))
	if err != nil {
		return err
	}
	name := filepath.Base(r.binary(of, platform))
	files := append([]file{{name: name, mode: 0o755, raw: program}}, pages...)
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md"} {
		raw, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return err
		}
		files = append(files, file{name: name, mode: 0o644, raw: raw})
	}
	if of == mainProgram {
		deploy, err := filesOf(filepath.Join(r.source, "deploy"), "deploy")
		if err != nil {
			return err
		}
		files = append(files, deploy...)
		if ending(platform) == ".tar.gz" {
			files = append(files, file{name: "kubectl-routekeeper", link: name})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	if ending(platform) == ".zip" {
		err = r.zip(&out, files)
	} else {
		err = r.tarGz(&out, files)
	}
	if err != nil {
		return err
	}
	return r.write(r.archive(of, platform)+ending(platform), out.Bytes())
}

func (r *release) zip(out *bytes.Buffer, files []file) error {
	w := zip.NewWriter(out)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(f.mode)
		into, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := into.Write(f.raw); err != nil {
			return err
		}
	}
	return w.Close()
}

func (r *release) tarGz(out *bytes.Buffer, files []file) error {
	packed := gzip.NewWriter(out)
	if err := r.tar(packed, files); err != nil {
		return err
	}
	return packed.Close()
}

// tar writes files that belong to root and have the commit's time.
func (r *release) tar(out io.Writer, files []file) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.raw)),
			Typeflag: tar.TypeReg, ModTime: r.date, Format: tar.FormatPAX}
		switch {
		case f.link != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
		case f.mode.IsDir():
			h.Typeflag = tar.TypeDir
			if f.mode&fs.ModeSticky != 0 {
				h.Mode |= 0o1000
			}
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.raw); err != nil {
			return err
		}
	}
	return w.Close()
}
