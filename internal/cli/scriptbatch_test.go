package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptBatch is the process that runs a script's commands of routekeeper, but those of exec. To
// start a process for each took a third of the scripts' processor time.
type scriptBatch struct {
	env       *testscript.Env
	batch     *batch   // nil before the first command
	variables []string // that the script changes
}

var changesVariable = regexp.MustCompile(`\benv ([A-Z_]+)=`)

func (b *scriptBatch) start(ts *testscript.TestScript) error {
	text, err := os.ReadFile(filepath.Join("testdata/script", ts.Name()+".txtar"))
	if err != nil {
		return err
	}
	for _, found := range changesVariable.FindAllStringSubmatch(string(text), -1) {
		b.variables = append(b.variables, found[1])
	}
	if b.batch, err = startBatch(b.env.WorkDir, b.env.Vars); err != nil {
		return err
	}
	ts.Defer(func() {
		if err := b.batch.end(); err != nil {
			b.env.T().Fatal(err)
		}
	})
	return nil
}

// runScriptCommand runs a command, and returns its exit code.
func runScriptCommand(ts *testscript.TestScript, in string, args []string) int {
	b := ts.Value("batch").(*scriptBatch)
	if args[0] != "routekeeper" {
		if args[0] == "exec" {
			args = args[1:]
		}
		var exit *exec.ExitError
		if err := ts.Exec(args[0], args[1:]...); errors.As(err, &exit) {
			return exit.ExitCode()
		} else if err != nil {
			ts.Fatalf("%v", err)
		}
		return 0
	}
	if b.batch == nil {
		ts.Check(b.start(ts))
	}
	l := batchLine{Args: args[1:], Dir: ts.MkAbs("."), In: in}
	for _, name := range b.variables {
		l.Env = append(l.Env, name+"="+ts.Getenv(name))
	}
	a, err := b.batch.answer(l, 3*time.Minute)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), a.Out)
	fmt.Fprint(ts.Stderr(), a.Stderr)
	return a.Code
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	in := ""
	if len(args) > 1 && strings.HasPrefix(args[1], "<") {
		in = ts.ReadFile(args[1][1:])
		args = append(args[:1], args[2:]...)
	}
	want, err := strconv.Atoi(args[0])
	if err != nil || neg || len(args) < 2 || in != "" && args[1] != "routekeeper" {
		ts.Fatalf("usage: exits CODE [<FILE] command…")
	}
	if got := runScriptCommand(ts, in, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("still after three minutes: %v", err)
		}
	}
}
