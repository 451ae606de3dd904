package cli

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/report"
)

// TestTerminalLog: on a terminal, run prints a short line for each event, in colour unless NO_COLOR
// is set. Other programs get JSON (script run).
func TestTerminalLog(t *testing.T) {
	t.Parallel()
	a, _, az, config := promoted(t, emulator.Options{})
	if err := a.strip(a.demo.NodeSubnet); err != nil {
		t.Fatal(err)
	}
	for _, noColor := range []string{"", "1"} {
		run := exec.Command("routekeeper", "--emulator", az, "run", "-f", config, "--interval",
			"1s", "--dry-run")
		run.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR="+noColor)
		terminal, err := pty.StartWithSize(run, &pty.Winsize{Cols: 200, Rows: 50})
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for lines := bufio.NewScanner(terminal); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "armReads") { // its line comes last
				_ = run.Process.Signal(os.Interrupt)
			}
		}
		terminal.Close()
		if err := run.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, all.String())
		}
		text := strings.ReplaceAll(all.String(), "\r", "")
		if strings.Contains(text, "\x1b[31m✗\x1b[0m") != (noColor == "") {
			t.Errorf("NO_COLOR=%q:\n%q", noColor, text)
		}
		text = colours.ReplaceAllString(text, "")
		for _, want := range []string{
			`\d\d:\d\d:\d\d   started     version \S+, clusters 1, interval 1s, dryRun true`,
			`\d\d:\d\d:\d\d   planned     shop          create appgw-rt 10\.244\.0\.0/24 to 10\.42\.1\.4 ` +
				`\(new in the cluster's table\)`,
			`\d\d:\d\d:\d\d ✗ cluster     shop          broken: .+`,
			`\d\d:\d\d:\d\d   check       planned 4, elapsed .+, armReads \d+`,
			`\d\d:\d\d:\d\d   stopped`,
		} {
			if !regexp.MustCompile("(?m)^" + want + "$").MatchString(text) {
				t.Errorf("NO_COLOR=%q: no line %s in\n%s", noColor, want, text)
			}
		}
	}
}

// TestTerminalWidth: on a terminal, status and doctor break their lines at its width, but not the
// commands to paste.
func TestTerminalWidth(t *testing.T) {
	t.Parallel()
	a, _, az, config := promoted(t, emulator.Options{})
	command := func(args ...string) *exec.Cmd {
		return exec.Command("routekeeper", append([]string{"--emulator", az}, args...)...)
	}
	if out, err := command("run", "--once", "-f", config).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := a.strip(a.demo.NodeSubnet); err != nil {
		t.Fatal(err)
	}
	for name, next := range map[string]bool{"status": false, "doctor": true} {
		run := command(name, "-f", config)
		terminal, err := pty.StartWithSize(run, &pty.Winsize{Cols: 60, Rows: 50})
		if err != nil {
			t.Fatal(err)
		}
		pasted := false
		for lines := bufio.NewScanner(terminal); lines.Scan(); {
			line := colours.ReplaceAllString(strings.TrimRight(lines.Text(), "\r"), "")
			line = line[strings.LastIndexByte(line, '\r')+1:] // after the progress
			is := strings.HasPrefix(line, "  next: ")
			if pasted = pasted || is && len(line) > 100; utf8.RuneCountInString(line) > 60 &&
				!is && strings.Contains(strings.TrimLeft(line, " "), " ") &&
				!strings.HasPrefix(line, "  on: ") {
				t.Errorf("%s: %q", name, line)
			}
		}
		terminal.Close()
		_ = run.Wait()
		if pasted != next {
			t.Errorf("%s: a command on one line: %t", name, pasted)
		}
	}
}

// TestTerminalFinding: the line of a finding has its code and message; status has the rest. An
// error shows its text.
func TestTerminalFinding(t *testing.T) {
	var b bytes.Buffer
	log := logger(&b, false, true, report.Style{})
	log.Warn("finding", "code", "table-full", "cluster", "shop", "resource", "/subscriptions/s",
		"message", "route table rt is full", "was", "info", "fix", "az network", "advice", "wait")
	log.Error("the new config has an error", "error", "a\nb")
	log.Debug("unimportant")
	lines := regexp.MustCompile(`(?m)^.{9}`).ReplaceAllString(b.String(), "")
	if want := "! finding     shop          table-full: route table rt is full (was info)\n" +
		"✗ the new config has an error  error a\\nb\n"; lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
}
