package pastetest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"routekeeper.dev/routekeeper/internal/finding"
)

// collector has the commands that the tests of a package made with hostile names.
type collector struct {
	mu       sync.Mutex
	hostile  map[string]bool   // the places that made them, as package/file:line
	commands map[string]pasted // by their text, at most 40 of a place
	number   map[string]int
	harmless map[string]finding.CommandLine
	examples int
	faults   map[string]bool

	templates sync.Map // whether other words come before the command
}

// pasted is a command with hostile names, and the same with harmless ones.
type pasted struct{ place, command, harmless string }

var all = &collector{hostile: map[string]bool{}, commands: map[string]pasted{},
	number:   map[string]int{},
	harmless: map[string]finding.CommandLine{}, faults: map[string]bool{}}

// Main runs the tests of a package. Then it pastes the commands that they made with hostile names.
// It also checks that each place in the package that makes a command from values made such a
// command. It returns the exit code. Meanwhile it collects garbage less often than by default,
// because tests make much and have enough memory. GOGC in the environment wins.
func Main(tests func() int) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	finding.Watch(all.made)
	code := tests()
	faults, err := all.paste()
	if f := flag.Lookup("test.run"); err == nil && (f == nil || f.Value.String() == "") {
		var unmade []string
		unmade, err = all.unmade()
		faults = append(faults, unmade...)
	}
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, "pasted:", f)
		code = max(code, 1)
	}
	return code
}

// Again makes findings from hostile names: again makes them from a renamed copy of an input.
// Call it for each input with which a test makes findings from harmless names.
func Again(again func(rename func(string) string)) {
	all.mu.Lock()
	n := all.examples
	all.examples++
	all.mu.Unlock()
	for _, rename := range some(n) {
		again(rename)
	}
}

// programs are the ones that commands call.
var programs = []string{"az", "kubectl", "terraform", "routekeeper", "sqlite3", "sudo"}

// withheldCommand is how every withheld command begins.
const withheldCommand = "no command is shown"

// inWords finds a command behind other words.
var inWords = regexp.MustCompile(`[\s:;,(](az|kubectl|terraform|routekeeper|sqlite3) [a-z]`)

// chained matches commands that follow another one.
var chained = regexp.MustCompile(`(&& |\$\()(az|kubectl|terraform|routekeeper|sqlite3) `)

// made records a command that was made.
func (c *collector) made(template string, values []any, line finding.CommandLine) {
	plain, hostile, hidden := make([]any, len(values)), false, false
	for i, value := range values {
		plain[i] = c.plain(value, func(s string) {
			hostile = hostile || unmark(s) != s
			hidden = hidden || cannotShow(s, template == "")
		})
		if line, is := value.(finding.CommandLine); is && plain[i] != value {
			hostile, hidden = true, hidden || strings.HasPrefix(line.String(), withheldCommand)
		}
	}
	worded := c.inWords(template)
	if !hostile && !worded {
		return // nearly always: where it was made does not matter
	}
	dir, place := site()
	if filepath.Base(dir) == "pastetest" {
		return
	}
	if place != "" {
		place = filepath.Base(dir) + "/" + place
	}
	text := line.String()
	if place != "" && worded {
		c.fault("%s: words come before a command in %q: put them into the advice", place, template)
	}
	if !hostile {
		return
	}
	harmless := finding.CommandLine{}
	if template == "" {
		harmless = finding.Words(plain[0].([]string)...)
	} else {
		harmless = finding.Command(template, plain...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.harmless[text] = harmless
	if place == "" {
		return // a test's own command is part of what it tests
	}
	c.hostile[place] = true
	switch {
	case strings.HasPrefix(text, withheldCommand):
		if !hidden {
			c.faults[fmt.Sprintf("%s: withheld for %q", place, values)] = true
		}
	case hidden || finding.Show(text) != text:
		c.faults[fmt.Sprintf("%s: hidden characters in %q", place, text)] = true
	case runnable(text) && c.commands[text].place == "" && c.number[place] < 40:
		c.number[place]++
		c.commands[text] = pasted{place, text, harmless.String()}
	}
}

func runnable(text string) bool {
	program, _, _ := strings.Cut(text, " ")
	return slices.Contains(programs, program)
}

// plain returns a value without marks. It passes all strings in the value to see.
func (c *collector) plain(value any, see func(string)) any {
	if line, is := value.(finding.CommandLine); is {
		c.mu.Lock()
		defer c.mu.Unlock()
		if harmless, is := c.harmless[line.String()]; is {
			return harmless
		}
		return line
	}
	text := func(s string) string {
		see(s)
		return unmark(s)
	}
	if s, is := value.(fmt.Stringer); is {
		return text(s.String())
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		return text(v.String())
	case reflect.Slice:
		words := make([]string, v.Len())
		for i := range words {
			words[i] = text(fmt.Sprint(v.Index(i).Interface()))
		}
		return words
	}
	return value
}

// inWords reports whether words come before a command in a template.
func (c *collector) inWords(template string) bool {
	if known, there := c.templates.Load(template); there {
		return known.(bool)
	}
	worded := inWords.MatchString(chained.ReplaceAllString(template, ""))
	c.templates.Store(template, worded)
	return worded
}

func (c *collector) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[fmt.Sprintf(format, args...)] = true
}

// paste runs all commands in one shell, whose programs only record their arguments. With hostile
// names they must call the same programs with the same arguments as with harmless ones, except for
// the marks. It returns what went wrong.
func (c *collector) paste() (faults []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.faults {
		faults = append(faults, f)
	}
	slices.Sort(faults)
	if runtime.GOOS == "windows" {
		return faults, nil // the commands are for a POSIX shell
	}
	dir, err := os.MkdirTemp("", "paste")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var texts []string
	for _, p := range c.commands {
		texts = append(texts, p.command, p.harmless)
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	calls, said, left, err := Run(dir, texts)
	if err != nil {
		return nil, err
	}
	if said != "" || len(left) > 0 {
		faults = append(faults,
			fmt.Sprintf("the commands made the files %q, and said\n%s", left, said))
	}
	called := map[string]string{}
	for i, text := range texts {
		called[text] = calls[i]
	}
	for _, p := range c.commands {
		got, want := called[p.command], called[p.harmless]
		if got == "" || unmark(got) == got || unmark(got) != unmark(want) {
			faults = append(faults, fmt.Sprintf("%s: %s\ncalls %q\nwant  %q and the marks", p.place,
				p.command, got, want))
		}
	}
	return faults, nil
}

// Run runs commands, of one or several lines, in one shell and a new folder. calls has the programs
// that each command called, with their arguments: each ends with \x00, each call with \x01. left
// has the files that the commands made.
func Run(dir string, commands []string) (calls []string, said string, left []string, err error) {
	bin, work, out := filepath.Join(dir, "bin"), filepath.Join(dir, "work"),
		filepath.Join(dir, "out")
	for _, d := range []string{bin, work, out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, "", nil, err
		}
	}
	for _, program := range programs {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+
			`printf '%s\000' "${0##*/}" "$@" >>"$CALLS"; printf '\001' >>"$CALLS"`+"\n"),
			0o755); err != nil {
			return nil, "", nil, err
		}
	}
	var script strings.Builder
	for i, command := range commands {
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(command+"\n"), 0o600); err != nil {
			return nil, "", nil, err
		}
		fmt.Fprintf(&script, "CALLS=%s; (. %s)\n", filepath.Join(out, fmt.Sprint(i)), file)
	}
	cmd := exec.Command("sh", "-c", "export CALLS\n"+script.String())
	cmd.Dir, cmd.Env = work, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
		"HOME=/nowhere")
	raw, err := cmd.CombinedOutput()
	if err != nil {
		raw = append(raw, err.Error()...)
	}
	files, err := os.ReadDir(work)
	if err != nil {
		return nil, "", nil, err
	}
	for _, f := range files {
		left = append(left, f.Name())
	}
	calls = make([]string, len(commands))
	for i := range commands {
		recorded, err := os.ReadFile(filepath.Join(out, fmt.Sprint(i)))
		if err != nil && !os.IsNotExist(err) {
			return nil, "", nil, err
		}
		calls[i] = string(recorded)
	}
	return calls, string(raw), left, nil
}
