package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// platforms are the systems that a release is built for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64",
	"windows/amd64", "windows/arm64"}

// program is a program of a release. It has archives and an image of its own.
type program struct {
	name   string
	source string // its package
	image  string // the folder of its OCI layout
}

var (
	mainProgram       = program{"routekeeper", ".", "image"}
	controllerProgram = program{"routekeeper-controller", "./cmd/routekeeper-controller",
		"image-controller"}
	programs = []program{mainProgram, controllerProgram}
)

// release is one release, or a snapshot.
type release struct {
	source, dist string
	at           addresses
	platforms    []string

	tag     string // v1.2.3
	version string // 1.2.3
	commit  string
	date    time.Time // of the commit

	work string // a temporary folder
}

// semver is what a tag must be: a version of Go modules, without build metadata, which images
// cannot have.
var semver = regexp.MustCompile(
	`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-` + part + `(\.` + part + `)*)?$`)

// part is one part of a pre-release: a number without leading zeros, or a word.
const part = `(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)`

// identify finds out what is released: the given version, the version of the commit's tag, or a
// snapshot of the commit.
func (r *release) identify(ctx context.Context, tag string) error {
	about, err := r.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(about, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("git log: %q", about)
	}
	r.commit, r.date = commit, time.Unix(at, 0).UTC()
	changed, err := r.git(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return err
	}
	if tag == "" {
		// It fails if there is no tag.
		tag, _ = r.git(ctx, "describe", "--tags", "--exact-match", "--match", "v*")
	} else if changed != "" {
		return fmt.Errorf("version %s: the source has changes that are not committed:\n%s", tag,
			changed)
	}
	if tag == "" || changed != "" {
		tag = snapshotTag(r.date, commit)
	}
	if !semver.MatchString(tag) {
		return fmt.Errorf("version %q: expected a semantic version, such as v1.2.3", tag)
	}
	r.tag, r.version = tag, strings.TrimPrefix(tag, "v")
	return nil
}

// snapshotTag returns the version of a commit without a tag. The hash has git describe's "g" in
// front: a part that is only digits must not begin with 0, and a hash can be such a part.
func snapshotTag(date time.Time, commit string) string {
	return "v0.0.0-snapshot." + date.Format("20060102150405") + ".g" + commit[:12]
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.source}, args...)...).
		Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build makes the release in its folder, which it empties first.
func (r *release) build(ctx context.Context) (err error) {
	if r.work, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := os.RemoveAll(r.dist); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dist, 0o755); err != nil {
		return err
	}
	for _, of := range programs {
		if err := r.buildProgram(ctx, of); err != nil {
			return err
		}
	}
	for _, write := range []func() error{r.writeNotes, r.writeChart, r.writeFormula,
		r.writeChecksums} {
		if err := write(); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%s: routekeeper %s (%s)\n", r.dist, r.tag, r.commit)
	return nil
}

// buildProgram makes the archives, SBOMs and images of a program.
func (r *release) buildProgram(ctx context.Context, of program) error {
	host := runtime.GOOS + "/" + runtime.GOARCH
	for _, p := range append([]string{host}, r.platforms...) {
		if err := r.compile(ctx, of, p); err != nil {
			return err
		}
	}
	pages, err := r.pages(ctx, of, r.binary(of, host))
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		if err := r.writeArchive(of, p, pages); err != nil {
			return err
		}
		bom, err := r.sbom(of, p, nil)
		if err != nil {
			return err
		}
		if err := r.write(r.archive(of, p)+".cdx.json", bom); err != nil {
			return err
		}
	}
	return r.writeImage(of)
}

// binary returns where a program is built for a platform.
func (r *release) binary(of program, platform string) string {
	name := of.name
	if strings.HasPrefix(platform, "windows/") {
		name += ".exe"
	}
	return filepath.Join(r.work, strings.ReplaceAll(platform, "/", "_"), name)
}

// compile builds a program for a platform, once.
func (r *release) compile(ctx context.Context, of program, platform string) error {
	if _, err := os.Stat(r.binary(of, platform)); err == nil {
		return nil
	}
	const at = "routekeeper.dev/routekeeper/internal/cli."
	system, processor, _ := strings.Cut(platform, "/")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", "-s -w -buildid="+
			" -X "+at+"releaseVersion="+r.tag+
			" -X "+at+"releaseCommit="+r.commit+
			" -X "+at+"releaseDate="+r.date.Format(time.RFC3339),
		"-o", r.binary(of, platform), of.source)
	c.Dir, c.Stderr = r.source, os.Stderr
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+processor)
	if err := c.Run(); err != nil {
		return fmt.Errorf("building %s for %s: %w", of.name, platform, err)
	}
	return nil
}

// built returns what the go command recorded in a program about how it was built.
func (r *release) built(of program, platform string) (*buildinfo.BuildInfo, error) {
	return buildinfo.ReadFile(r.binary(of, platform))
}

// write writes a file of the release.
func (r *release) write(name string, raw []byte) error {
	return os.WriteFile(filepath.Join(r.dist, name), raw, 0o644)
}

// writeChart writes the chart as a package, and the plain manifests.
func (r *release) writeChart() error {
	c, err := readChart(r.source, r.version, r.at.image(controllerProgram), r.date)
	if err != nil {
		return err
	}
	if r.at.known() {
		c.Metadata.Home, c.Metadata.Sources = r.at.home(), []string{r.at.home()}
	}
	if _, err := chartutil.Save(c, r.dist); err != nil {
		return err
	}
	if !r.at.known() {
		return nil // the manifests need an image
	}
	out, err := os.Create(filepath.Join(r.dist, "routekeeper.yaml"))
	if err != nil {
		return err
	}
	if err := writeManifests(out, c); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// writeChecksums writes the SHA-256 of each file, as sha256sum -c reads it.
func (r *release) writeChecksums() error {
	sums, err := r.sums()
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&out, "%s  %s\n", sums[name], name)
	}
	return r.write("checksums.txt", []byte(out.String()))
}

// sums returns the SHA-256 of the files of the release that exist.
func (r *release) sums() (map[string]string, error) {
	entries, err := os.ReadDir(r.dist)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(r.dist, e.Name()))
		if err != nil {
			return nil, err
		}
		sums[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(raw))
	}
	return sums, nil
}
