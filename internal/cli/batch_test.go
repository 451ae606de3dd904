package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	cmd     *exec.Cmd
	in      io.Closer
	lines   *json.Encoder
	answers *json.Decoder
	stderr  bytes.Buffer // what is written past the app
}

// batchLine is a command line with settings such as NAME=value, its folder if that is not the
// batch's, and its standard input. batchAnswer is its result.
type batchLine struct {
	Env, Args []string
	Dir, In   string
}

type batchAnswer struct {
	Code        int
	Out, Stderr string
}

// newBatch starts one in a folder. It may have no more address space than the program itself needs.
func newBatch(t *testing.T, dir string, env ...string) *batch {
	t.Helper()
	b, err := startBatch(dir, append(os.Environ(), env...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.end(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return b
}

func startBatch(dir string, env []string) (*batch, error) {
	b := &batch{cmd: exec.Command("routekeeper-batch")}
	if _, err := exec.LookPath("bash"); err == nil {
		b.cmd = exec.Command("bash", "-c", "ulimit -v 6000000; exec routekeeper-batch")
	}
	b.cmd.Dir, b.cmd.Env, b.cmd.Stderr = dir, env, &b.stderr
	in, err := b.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.in, b.lines, b.answers = in, json.NewEncoder(in), json.NewDecoder(out)
	return b, b.cmd.Start()
}

// end ends the process, which must have written nothing past the app.
func (b *batch) end() error {
	b.in.Close()
	err := b.cmd.Wait()
	if b.stderr.Len() > 0 || err != nil {
		return fmt.Errorf("%v: %.3000s", err, b.stderr.String())
	}
	return nil
}

// run runs a command line. One that takes more than a minute ends the process.
func (b *batch) run(t *testing.T, env []string, args ...string) batchAnswer {
	t.Helper()
	a, err := b.answer(batchLine{Env: env, Args: args}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (b *batch) answer(l batchLine, longest time.Duration) (a batchAnswer, err error) {
	hangs := time.AfterFunc(longest, func() { _ = b.cmd.Process.Kill() })
	if err = b.lines.Encode(l); err == nil {
		err = b.answers.Decode(&a)
	}
	if !hangs.Stop() {
		return a, fmt.Errorf("%q hangs", l.Args)
	}
	if err != nil {
		return a, fmt.Errorf("%q: no answer: %w", l.Args, err)
	}
	return a, nil
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
	if l.Dir != "" {
		if err := os.Chdir(l.Dir); err != nil {
			panic(err)
		}
	}
	ctx, stop := interruptible(context.Background())
	defer stop()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(l.In), out: &out, err: &errs, repeat: finding.Repeat,
		program: "routekeeper"}
	finding.Program(a.program)
	code := a.run(ctx, l.Args)
	return batchAnswer{code, out.String(), errs.String()}
}
