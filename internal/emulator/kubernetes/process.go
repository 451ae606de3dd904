package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// process is a program of the control plane that runs until its context ends.
type process struct {
	name string
	log  string // the file of its output
	done chan struct{}
	err  error // after done
}

// start runs a program. Its output is written to a file of its name in the folder.
func start(ctx context.Context, folder, name, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(folder, name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, folder
	cmd.WaitDelay = 5 * time.Second
	endsWithParent(cmd)
	if err := cmd.Start(); err != nil {
		out.Close()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		defer out.Close()
		p.err = cmd.Wait()
	}()
	return p, nil
}

// ready waits until a URL answers 200, or returns the last line of output if the program has ended.
func (p *process) ready(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("it was not ready in time"))
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended (%w): %s", p.name, p.err, p.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; its log is %s", p.name, context.Cause(ctx), p.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lastWords returns the last line that the program printed.
func (p *process) lastWords() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
	return string(lines[len(lines)-1])
}

// startTime is how long a program may take until it answers. On a busy machine it takes a minute.
const startTime = 3 * time.Minute

// ports assigns free ports on loopback, each once: a port is free until its program listens.
var ports struct {
	sync.Mutex
	given map[int]bool
}

func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if !ports.given[port] {
			if ports.given == nil {
				ports.given = map[int]bool{}
			}
			ports.given[port] = true
			return port, nil
		}
	}
	return 0, errors.New("no port is free on loopback")
}
