package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// batch is a process that runs command lines one after another, each as Main would. Starting a
// process for each takes longer than most of them do.
type batch struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      *json.Encoder
	answers *json.Decoder
	stderr  bytes.Buffer // what is written past the app
}

// batchLine is a command line with settings such as NAME=value, batchAnswer is its result.
type batchLine struct{ Env, Args []string }

type batchAnswer struct {
	Code        int
	Out, Stderr string
}

// newBatch starts one in a folder. It may have no more address space than the program itself needs.
func newBatch(t *testing.T, dir string, env ...string) *batch {
	t.Helper()
	b := &batch{t: t}
	b.cmd = exec.Command("routekeeper-batch")
	if _, err := exec.LookPath("bash"); err == nil {
		b.cmd = exec.Command("bash", "-c", "ulimit -v 6000000; exec routekeeper-batch")
	}
	b.cmd.Dir, b.cmd.Env, b.cmd.Stderr = dir, append(os.Environ(), env...), &b.stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.in, b.answers = json.NewEncoder(in), json.NewDecoder(out)
	t.Cleanup(func() {
		in.Close()
		err := b.cmd.Wait()
		if b.stderr.Len() > 0 || err != nil && !t.Failed() {
			t.Errorf("%v: %.3000s", err, b.stderr.String())
		}
	})
	return b
}

// run runs a command line. One that takes more than a minute ends the process.
func (b *batch) run(t *testing.T, env []string, args ...string) (a batchAnswer) {
	t.Helper()
	hangs := time.AfterFunc(time.Minute, func() { _ = b.cmd.Process.Kill() })
	err := b.in.Encode(batchLine{env, args})
	if err == nil {
		err = b.answers.Decode(&a)
	}
	if !hangs.Stop() {
		t.Fatalf("%q hangs", args)
	}
	if err != nil {
		t.Fatalf("%q: no answer: %v", args, err)
	}
	return a
}

// runBatch is the main function of such a process.
func runBatch() {
	lines, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var l batchLine
		if err := lines.Decode(&l); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		if err := answers.Encode(l.run()); err != nil {
			panic(err)
		}
	}
}

func (l batchLine) run() batchAnswer {
	for _, setting := range l.Env {
		name, value, _ := strings.Cut(setting, "=")
		before, was := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
		defer func() {
			if !was {
				_ = os.Unsetenv(name)
				return
			}
			_ = os.Setenv(name, before)
		}()
	}
	ctx, stop := interruptible(context.Background())
	defer stop()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs, repeat: finding.Repeat,
		program: "routekeeper"}
	finding.Program(a.program)
	code := a.run(ctx, l.Args)
	return batchAnswer{code, out.String(), errs.String()}
}
