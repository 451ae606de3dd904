package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	containers "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
)

// testPlatforms are built by the tests: two are enough for an image of two. ROUTEKEEPER_PLATFORMS
// names others.
var testPlatforms = []string{"linux/amd64", "linux/arm64"}

// linuxPlatforms are the ones with an image.
func linuxPlatforms() []string {
	return slices.DeleteFunc(slices.Clone(testPlatforms), func(p string) bool {
		return !strings.HasPrefix(p, "linux/")
	})
}

const testRepository = "Example/Keeper"

// TestRelease builds a release twice, from two folders, and checks all of it.
func TestRelease(t *testing.T) {
	if list := os.Getenv("ROUTEKEEPER_PLATFORMS"); list != "" {
		testPlatforms = strings.Split(list, ",")
	}
	first, second := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "dist")
	copied := filepath.Join(t.TempDir(), "elsewhere", "source")
	sh(t, "..", "git", "clone", "--quiet", "--no-hardlinks", ".", copied)
	changed := sh(t, "..", "git", "diff", "HEAD", "--binary")
	if len(changed) > 0 { // and what is not committed yet
		apply := exec.Command("git", "-C", copied, "apply", "--index")
		apply.Stdin = strings.NewReader(changed)
		if out, err := apply.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, d := range []struct{ source, dist string }{{"..", first}, {copied, second}} {
		sh(t, ".", "go", "run", ".", "build", "--source", d.source, "--dist", d.dist,
			"--repository", testRepository, "--platforms", strings.Join(testPlatforms, ","))
	}
	if a, b := tree(t, first), tree(t, second); !slices.Equal(a, b) {
		t.Errorf("two builds differ:\n%s\n\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	version := regexp.MustCompile(`routekeeper_(.*)_linux_amd64.tar.gz`).FindStringSubmatch(
		strings.Join(tree(t, first), "\n"))[1]
	t.Run("archive", func(t *testing.T) { checkArchives(t, first, version) })
	t.Run("checksums", func(t *testing.T) {
		c := exec.Command("sha256sum", "--strict", "-c", "checksums.txt")
		c.Dir = first
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, of := range programs {
		t.Run(of.image, func(t *testing.T) { checkImage(t, of, first, version) })
	}
	t.Run("chart", func(t *testing.T) { checkPackage(t, first, version) })
	t.Run("push", func(t *testing.T) { checkPush(t, first, version) })
	if text := read(t, filepath.Join(first, notesFolder, "notes.md")); !strings.HasPrefix(text,
		"- ") ||
		strings.Contains(text, "\n#") {
		t.Errorf("the notes are %s", text)
	}
	t.Run("formula", func(t *testing.T) { checkFormula(t, first, version) })
}

// sh runs a program, which has to succeed.
func sh(t *testing.T, folder, program string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	var stderr bytes.Buffer
	c.Dir, c.Stderr = folder, &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// tree lists the files below a folder with their sums.
func tree(t *testing.T, folder string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		relative, _ := filepath.Rel(folder, path)
		lines = append(lines, fmt.Sprintf("%x %s", sha256.Sum256(raw), relative))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// unpack unpacks a tar file into a folder.
func unpack(t *testing.T, from io.Reader, to string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		_ = os.MkdirAll(filepath.Dir(path), 0o755) // the write fails without it
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, h.FileInfo().Mode())
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			var raw []byte
			if raw, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, raw, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkArchives unpacks this machine's archive and runs what is in it.
func checkArchives(t *testing.T, dist, version string) {
	for _, of := range programs {
		checkArchivesOf(t, of, dist, version)
	}
	into := unpackArchive(t, controllerProgram, dist, version)
	checkController(t, version, func(args ...string) string {
		return sh(t, into, filepath.Join(into, controllerProgram.name), args...)
	})
	if text := read(t, filepath.Join(into, "man/man1/routekeeper-controller.1")); !strings.Contains(
		text, ".TH \"ROUTEKEEPER-CONTROLLER\" \"1\"") {
		t.Errorf("the man page of the controller is %s", text)
	}
	into = unpackArchive(t, mainProgram, dist, version)
	program := filepath.Join(into, "routekeeper")
	checkProgram(t, version, func(args ...string) string { return sh(t, into, program, args...) })
	checkFiles(t, into)
}

// checkArchivesOf checks the names and SBOMs of a program's archives.
func checkArchivesOf(t *testing.T, of program, dist, version string) {
	for _, p := range testPlatforms {
		r := release{version: version}
		path := filepath.Join(dist, r.archive(of, p)+ending(p))
		if ending(p) == ".zip" {
			z, err := zip.OpenReader(path)
			if err != nil {
				t.Fatal(err)
			}
			if z.File[len(z.File)-1].Name != of.name+".exe" {
				t.Errorf("%s ends with %s", path, z.File[len(z.File)-1].Name)
			}
			z.Close()
		}
		raw, err := os.ReadFile(filepath.Join(dist, r.archive(of, p)+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		checkSBOM(t, raw, p, "")
	}
}

// unpackArchive unpacks a program's archive for this machine, and returns the folder.
func unpackArchive(t *testing.T, of program, dist, version string) string {
	packed, err := os.Open(filepath.Join(dist,
		(&release{version: version}).archive(of, "linux/"+runtime.GOARCH)+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	unpack(t, plain, into)
	return into
}

// checkFiles checks what the archive of the main program has, next to the program.
func checkFiles(t *testing.T, into string) {
	if out := sh(t, into, filepath.Join(into, "kubectl-routekeeper"), "--help"); !strings.Contains(
		out, "kubectl routekeeper COMMAND") {
		t.Errorf("kubectl-routekeeper --help prints %s", out)
	}
	for path, want := range map[string]string{
		"man/man1/routekeeper-iac-check.1":     ".TH \"ROUTEKEEPER-IAC-CHECK\" \"1\"",
		"completions/_routekeeper":             "#compdef routekeeper",
		"completions/routekeeper.bash":         "complete",
		"LICENSE":                              "Apache License",
		"CHANGELOG.md":                         "# Changelog",
		"deploy/systemd/routekeeper.service":   "[Service]",
		"deploy/prometheus/scrape.yaml":        "scrape_configs",
		"completions/routekeeper.fish":         "routekeeper",
		"completions/routekeeper.ps1":          "routekeeper",
		"deploy/grafana/routekeeper.json":      "routekeeper",
		"man/man1/routekeeper-cluster-hello.1": "hello",
	} {
		if text := read(t, filepath.Join(into, path)); !strings.Contains(text, want) {
			t.Errorf("%s has no %s", path, want)
		}
	}
}

// checkController checks the version of a released controller.
func checkController(t *testing.T, version string, run func(...string) string) {
	t.Helper()
	var v struct{ Version string }
	if err := json.Unmarshal([]byte(run("version", "-o", "json")), &v); err != nil ||
		v.Version != "v"+version {
		t.Errorf("version: %+v, %v", v, err)
	}
	if help := run("--help"); !strings.Contains(help, "ClusterRoutes objects") {
		t.Errorf("--help prints %s", help)
	}
}

// checkProgram runs the demo of a released program, and checks the version that it prints.
func checkProgram(t *testing.T, version string, run func(...string) string) {
	t.Helper()
	var v struct{ Version, Commit, Date string }
	if err := json.Unmarshal([]byte(run("version", "-o", "json")), &v); err != nil ||
		v.Version != "v"+version || len(v.Commit) != 40 || len(v.Date) != 20 {
		t.Errorf("version: %+v, %v", v, err)
	}
	if line := run("version"); !strings.HasPrefix(line, "routekeeper v"+version+" (commit "+
		v.Commit+", "+v.Date+", go") {
		t.Errorf("version prints %s", line)
	}
	scenes := 0
	for line := range strings.Lines(run("demo", "-o", "json")) {
		var scene struct {
			Scene string
			OK    *bool
		}
		if err := json.Unmarshal([]byte(line), &scene); err != nil {
			t.Errorf("demo: %v: %s", err, line)
		}
		scenes++
	}
	if scenes < 5 {
		t.Errorf("the demo has %d scenes", scenes)
	}
}

// checkSBOM: it names what the program needs.
func checkSBOM(t *testing.T, raw []byte, platform, more string) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(
		&bom); err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{}
	for _, c := range *bom.Components {
		if c.Version == "" || c.Version == "unknown" || refs[c.BOMRef] {
			t.Errorf("component %+v", c)
		}
		refs[c.BOMRef] = true
	}
	for _, want := range []string{"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"),
		"pkg:golang/github.com/spf13/cobra@", "pkg:golang/k8s.io/client-go@", more} {
		if want != "" && !slices.ContainsFunc(*bom.Components, func(c cdx.Component) bool {
			return strings.HasPrefix(c.PackageURL, want)
		}) {
			t.Errorf("%s: no component %s", platform, want)
		}
	}
	for _, needed := range *(*bom.Dependencies)[0].Dependencies {
		if !refs[needed] {
			t.Errorf("%s is needed and no component", needed)
		}
	}
}

// checkImage validates the layout, unpacks this machine's image and runs it on a file system of its
// own: without the machine's certificates, libraries and users.
func checkImage(t *testing.T, of program, dist, version string) {
	path, err := layout.FromPath(filepath.Join(dist, of.image))
	if err != nil {
		t.Fatal(err)
	}
	all, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	top, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := all.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	linux := len(linuxPlatforms())
	if len(manifest.Manifests) != linux || len(top.Manifests) != 1+linux {
		t.Fatalf("%d images, %d manifests", len(manifest.Manifests), len(top.Manifests))
	}
	for i, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != d.Platform.Architecture || config.Config.User != "65532:65532" ||
			config.Config.Labels["org.opencontainers.image.version"] != version ||
			config.Config.Labels["org.opencontainers.image.source"] != "https://github.com/"+
				testRepository {
			t.Errorf("the config is %+v", config)
		}
		bom, err := all.Image(top.Manifests[1+i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		about, err := bom.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if about.Subject == nil || about.Subject.Digest != d.Digest ||
			about.Config.MediaType != typeSBOM {
			t.Errorf("the SBOM's manifest is %+v", about)
		}
		layers, err := bom.Layers()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		checkSBOM(t, raw, d.Platform.String(), "pkg:golang/"+rootsModule+"@")
		if d.Platform.Architecture == runtime.GOARCH {
			runImage(t, of, image, version)
		}
	}
}

func runImage(t *testing.T, of program, image v1.Image, version string) {
	root := t.TempDir()
	unpack(t, mutate.Extract(image), root)
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o1777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	raw, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !roots.AppendCertsFromPEM(raw) {
		t.Fatalf("no certificates: %v", err)
	}
	// The authorities that sign the certificates of Azure's endpoints.
	var subjects []string
	for rest := raw; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, c.Subject.CommonName)
	}
	for _, want := range []string{"DigiCert Global Root G2",
		"Microsoft RSA Root Certificate Authority 2017"} {
		if !slices.Contains(subjects, want) {
			t.Errorf("no certificate of %s", want)
		}
	}
	program, args := filepath.Join(root, "usr/bin", of.name), []string{}
	if os.Geteuid() == 0 { // as the image's user, and only with the image's files
		if path, err := exec.LookPath("chroot"); err == nil {
			for dir := filepath.Dir(root); dir != os.TempDir() &&
				dir != "/"; dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			args = []string{"--userspec=" + user + ":" + user, root, "/usr/bin/" + of.name}
			program = path
		}
	}
	check := checkProgram
	if of == controllerProgram {
		check = checkController
	}
	check(t, version, func(more ...string) string {
		c := exec.Command(program, append(slices.Clone(args), more...)...)
		c.Env = []string{"PATH=/usr/bin", "HOME=/tmp"}
		var stderr bytes.Buffer
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v %v: %v\n%s%s", args, more, err, out, &stderr)
		}
		return string(out)
	})
}

// checkPackage: the chart and the manifests have the release's version and image.
func checkPackage(t *testing.T, dist, version string) {
	c, err := loader.LoadFile(filepath.Join(dist, "routekeeper-"+version+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	manifests, _, _, err := render(c, map[string]any{})
	image := `image: "ghcr.io/example/keeper-controller:` + version + `"`
	if err != nil || !strings.Contains(manifests, image) {
		t.Errorf("no %s (%v)", image, err)
	}
	if text := read(t, filepath.Join(dist, "routekeeper.yaml")); !strings.Contains(text, image) {
		t.Errorf("no %s in the manifests", image)
	}
}

// checkPush pushes to a registry, and pulls with the clients that users have.
func checkPush(t *testing.T, dist, version string) {
	server := httptest.NewServer(containers.New(containers.WithReferrersSupport(true)))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	pushed, err := pushImage(filepath.Join(dist, mainProgram.image), host+"/a/keeper", nil)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.ParseReference(host + "/a/keeper:" + version)
	if err != nil {
		t.Fatal(err)
	}
	last := linuxPlatforms()[len(linuxPlatforms())-1]
	platform, err := v1.ParsePlatform(last)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag, remote.WithPlatform(*platform))
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(tag.Context().Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	if about, err := referrers.IndexManifest(); err != nil || len(about.Manifests) != 1 {
		t.Errorf("the image's referrers are %+v, %v", about, err)
	}
	index, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := index.Digest(); err != nil || pushed != host+"/a/keeper@"+d.String() {
		t.Errorf("pushed %s, and there is %s (%v)", pushed, d, err)
	}
	packed := filepath.Join(dist, "routekeeper-"+version+".tgz")
	chart, err := pushChart(packed, host+"/a/keeper/charts", registry.ClientOptPlainHTTP())
	if err != nil {
		t.Fatal(err)
	}
	client, err := registry.NewClient(registry.ClientOptPlainHTTP(),
		registry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := client.Pull(host + "/a/keeper/charts/routekeeper:" + version)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pulled.Chart.Data, []byte(readRaw(t, packed))) ||
		!strings.HasSuffix(chart, pulled.Manifest.Digest) {
		t.Errorf("pushed %s, pulled %s", chart, pulled.Manifest.Digest)
	}
}

func readRaw(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// checkFormula: it names the archives of this release with their sums, where all of them are built.
func checkFormula(t *testing.T, dist, version string) {
	r := release{dist: t.TempDir(), version: version, tag: "v" + version,
		at: addresses{testRepository}}
	for _, p := range platforms[:4] {
		if err := r.write(r.archive(mainProgram, p)+".tar.gz", []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeFormula(); err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(r.dist, "routekeeper.rb"))
	for _, p := range platforms[:4] {
		want := fmt.Sprintf("url \"https://github.com/%s/releases/download/v%s/%s.tar.gz\"\n"+
			"      sha256 \"%x\"", testRepository, version,
			r.archive(mainProgram, p), sha256.Sum256([]byte(p)))
		if !strings.Contains(text, want) {
			t.Errorf("no\n%s\nin\n%s", want, text)
		}
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		sh(t, r.dist, ruby, "-c", "routekeeper.rb")
	}
	_, err := os.Stat(filepath.Join(dist, "routekeeper.rb"))
	if all := slices.Contains(testPlatforms, "darwin/amd64"); all != (err == nil) {
		t.Errorf("built for %v: %v", testPlatforms, err)
	}
}
