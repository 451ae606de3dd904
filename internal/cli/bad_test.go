package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rogpeppe/go-internal/txtar"

	"routekeeper.dev/routekeeper/internal/emulator"
)

var update = flag.Bool("update", false, "write the messages of testdata/bad instead of comparing "+
	"them")

// goWords are Go's own words, which no message to a user should have.
var goWords = regexp.MustCompile(`struct \{|unmarshal|strconv\.|0x[0-9a-f]{6}|<nil>|%!|goroutine`)

// TestBadInput runs the commands in testdata/bad with files that are missing or wrong, names that
// do not exist and flags of the wrong kind. Each prints one line, the one in the file, and exits
// with 1. go test ./internal/cli -run BadInput -update writes the lines.
func TestBadInput(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the messages quote what Linux says about files and ports")
	}
	t.Parallel()
	dir := t.TempDir()
	az := filepath.Join(dir, "az")
	a, server, err := startAzure(az, true, emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		a.e.Close()
	})
	config := filepath.Join(dir, "routes.yaml")
	routekeeper(t, "--emulator", az, "init", "--cluster", string(a.demo.Cluster), "--out", config)
	archives, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			work := t.TempDir()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := txtar.Write(archive, work); err != nil {
				t.Fatal(err)
			}
			writeOddFiles(t, work, config, server.Info)
			b := badInput{names: strings.NewReplacer(
				"$SUB", emulator.DefaultSubscription, "$CLUSTER", string(a.demo.Cluster),
				"$HTTPS", server.Info.HTTPS, "$HTTP", server.Info.HTTP,
				"$BUSY", strings.TrimPrefix(server.Info.HTTP, "http://"), "$AZ", az),
				batch: newBatch(t, work, "ROUTEKEEPER_EMULATOR="+az,
					"AZURE_CONFIG_DIR="+filepath.Join(work, "none"), "KUBECONFIG=none")}
			b.back = strings.NewReplacer(work, "$WORK", az, "$AZ", server.Info.HTTPS, "$HTTPS",
				strings.TrimPrefix(server.Info.HTTP, "http://"), "$BUSY")
			wrote := b.transcript(t, string(archive.Comment))
			if *update {
				archive.Comment = []byte(wrote)
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// badInput runs commands in a folder.
type badInput struct {
	batch       *batch
	names, back *strings.Replacer // names into values, and values into names
}

// transcript runs the lines that begin with $ and compares what they say with the lines below them.
// It returns the text with what they really say.
func (b badInput) transcript(t *testing.T, text string) string {
	t.Helper()
	var wrote strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		wrote.WriteString(lines[i] + "\n")
		command, is := strings.CutPrefix(lines[i], "$ ")
		if !is {
			continue
		}
		want := ""
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "routekeeper: ") {
			i++
			want = lines[i]
		}
		said, code := b.run(t, command)
		wrote.WriteString(said + "\n")
		switch {
		case code != 1:
			t.Errorf("%s: exit code %d, want 1: %s", command, code, said)
		case !strings.HasPrefix(said, "routekeeper: ") || strings.Contains(said, "\n"):
			t.Errorf("%s: want one line that begins with routekeeper: %s", command, said)
		case goWords.MatchString(said):
			t.Errorf("%s: shows the program's insides: %s", command, said)
		case !*update && said != want:
			t.Errorf("%s\nsays %s\nwant %s", command, said, want)
		}
	}
	return wrote.String()
}

// run runs one command, which may begin with settings such as NAME=value.
func (b badInput) run(t *testing.T, command string) (said string, code int) {
	t.Helper()
	var env []string
	words := strings.Fields(b.names.Replace(command))
	for strings.Contains(words[0], "=") {
		env, words = append(env, words[0]), words[1:]
	}
	for i, word := range words {
		words[i] = strings.Trim(word, `"`)
	}
	a := b.batch.run(t, env, words[1:]...)
	return b.back.Replace(strings.TrimSuffix(a.Stderr, "\n")), a.Code
}

// writeOddFiles writes the files that an archive of text cannot hold.
func writeOddFiles(t *testing.T, dir, config string, info emulator.Info) {
	t.Helper()
	good, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	wide := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(string(good))) {
		wide = append(wide, byte(unit), byte(unit>>8))
	}
	info.ClientSecret = "wrong"
	wrongLogin, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	info.HTTPS = "https://127.0.0.1:1"
	stopped, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"routes.yaml": good, "utf16.yaml": wide, "empty": nil,
		"random.bin":                   {0, 0x9c, 0xff, 0x13, 0x37, 0, 0xc3, 0x28, 0xa0, 0xa1},
		"plan.tfplan":                  []byte("PK\x03\x04 and more"),
		"empty.tgz":                    archived(t, nil),
		"other.tgz":                    archived(t, map[string]string{"notes.txt": "x"}),
		"cut.tgz":                      archived(t, map[string]string{"manifest.json": "{}"})[:40],
		"wrong-login/emulator.json":    wrongLogin,
		"stopped/emulator.json":        stopped,
		"no-address/emulator.json":     []byte("{}"),
		"folder/no-config-in-here.txt": nil,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// archived is a .tgz with files.
func archived(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	all := tar.NewWriter(zipped)
	for name, text := range files {
		err := all.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = all.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(all.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
