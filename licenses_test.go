package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// licenceFile are the names of the files that a binary has to bring along.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright)([.-].*)?$`)

// TestLicenses: the text of `routekeeper version licenses` has the licences and notices of all
// modules that are linked into a program, for each system. go test . -run Licenses -update writes
// it from the module cache.
func TestLicenses(t *testing.T) {
	folders := map[string]string{} // by module and version
	for _, system := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}", ".", "./cmd/...")
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) == 3 && f[1] != "" { // this module has no version
				folders[f[0]+" "+f[1]] = f[2]
			}
		}
	}
	if len(folders) < 50 {
		t.Fatalf("only %d modules are linked: the test shows nothing", len(folders))
	}
	modules := map[string][]string{} // by the text of their licences
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		text := licencesIn(t, folders[name])
		if text == "" {
			t.Errorf("%s has no licence", name)
		}
		modules[text] = append(modules[text], name)
	}
	texts := slices.SortedFunc(maps.Keys(modules), func(a, b string) int {
		return strings.Compare(modules[a][0], modules[b][0])
	})
	var b bytes.Buffer
	for _, text := range texts {
		fmt.Fprintf(&b, "%s\n\n%s\n\n%s\n", strings.Join(modules[text], "\n"), text,
			strings.Repeat("=", 78))
	}
	const file = "internal/licenses/third-party.txt"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is not current: go test . -run Licenses -update", file)
	}
}

// licencesIn returns the licences and notices in a module's folder.
func licencesIn(t *testing.T, folder string) string {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range files {
		if f.IsDir() || !licenceFile.MatchString(f.Name()) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(raw), "\r\n", "\n")
		texts = append(texts, strings.TrimSpace(text))
	}
	return strings.Join(texts, "\n\n")
}
