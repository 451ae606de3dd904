//go:build linux

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// The size of the recorded terminal in characters.
const recordedColumns, recordedRows = 120, 40

// cast is a recorded terminal (docs.asciinema.org/manual/asciicast/v2).
type cast struct {
	Version int               `json:"version"`
	Width   int               `json:"width"`
	Height  int               `json:"height"`
	Title   string            `json:"title"`
	Env     map[string]string `json:"env"`
	events  []castEvent
}

// castEvent is what was printed at a moment.
type castEvent struct {
	at   time.Duration
	text string
}

// record runs a command on its own terminal.
func record(t *testing.T, name string, args ...string) *cast {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "ROUTEKEEPER_EMULATOR=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: recordedColumns, Rows: recordedRows})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	c := &cast{Version: 2, Width: recordedColumns, Height: recordedRows,
		Title: strings.Join(append([]string{name}, args...), " "),
		Env:   map[string]string{"TERM": "xterm-256color"}}
	start := time.Now()
	buffer := make([]byte, 64<<10)
	for {
		n, err := terminal.Read(buffer)
		if n > 0 {
			c.events = append(c.events, castEvent{time.Since(start), string(buffer[:n])})
		}
		if err != nil { // the program has ended
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", c.Title, err, c.text())
	}
	return c
}

// text is what a person reads.
func (c *cast) text() string {
	var b strings.Builder
	for _, e := range c.events {
		b.WriteString(e.text)
	}
	return colours.ReplaceAllString(strings.ReplaceAll(b.String(), "\r\n", "\n"), "")
}

// file is the file that asciinema plays.
func (c *cast) file() (string, error) {
	head, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", head)
	for _, e := range c.events {
		line, err := json.Marshal([]any{float64(e.at.Milliseconds()) / 1000, "o", e.text})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String(), nil
}

// passing is what differs from run to run: times, ports, and calls that depend on them.
var passing = regexp.MustCompile(`127\.0\.0\.1:\d+|\d+(\.\d+)? m?s\b|\d+ (read|write|poll)s?\b`)

// TestDemoPage: docs/demo.md shows what the demo prints on a terminal, and docs/demo.cast is the
// recording. The README shows one scene. go test ./internal/cli -run DemoPage -update records both
// again.
func TestDemoPage(t *testing.T) {
	t.Parallel()
	const page, recording = "../../docs/demo.md", "../../docs/demo.cast"
	const begins = "<!-- recorded: go test ./internal/cli -run DemoPage -update -->\n```\n"
	const ends = "```\n<!-- end -->\n"
	run := record(t, "routekeeper", "demo")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(raw), begins)
	shown, after, ended := strings.Cut(rest, ends)
	if !begun || !ended {
		t.Fatalf("%s has no place for the recording", page)
	}
	if *update {
		file, err := run.file()
		if err != nil {
			t.Fatal(err)
		}
		shown = "$ routekeeper demo\n" + run.text()
		if err := os.WriteFile(page, []byte(before+begins+shown+ends+after), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(recording, []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	played, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	want := passing.ReplaceAllString("$ routekeeper demo\n"+run.text(), "…")
	for name, text := range map[string]string{page: shown,
		recording: "$ routekeeper demo\n" + castText(t, string(played))} {
		if got := passing.ReplaceAllString(text, "…"); got != want {
			t.Errorf("%s is old: go test ./internal/cli -run DemoPage -update\nhas:\n%s\nwant:\n%s",
				name, got, want)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, tail, _ := strings.Cut(string(readme), "```\nok   strip")
	scene, tail, _ := strings.Cut(tail, "```\n")
	_, now, _ := strings.Cut(run.text(), "\nok   strip")
	now, _, found := strings.Cut(now, "\n\n")
	if now += "\n"; *update && found {
		text := head + "```\nok   strip" + now + "```\n" + tail
		if err := os.WriteFile("../../README.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		scene = now
	}
	if passing.ReplaceAllString(scene, "…") != passing.ReplaceAllString(now, "…") {
		t.Errorf("README.md is old: go test ./internal/cli -run DemoPage -update\nhas:\n%s\n"+
			"want:\n%s", scene, now)
	}
	if !strings.Contains(want, "9 of 9 scenes ok") ||
		!strings.Contains(string(played), `\u001b[32m`) {
		t.Error("the recording is not that of a terminal where every scene is ok")
	}
}

// castText reads the text of a recording.
func castText(t *testing.T, file string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(file), "\n")
	c := &cast{}
	for _, line := range lines[1:] {
		var event [3]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		text, _ := event[2].(string)
		c.events = append(c.events, castEvent{text: text})
	}
	return c.text()
}
