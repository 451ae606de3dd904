//go:build unix

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestBlockedLog: standard error is a pipe that is not read and fills up, as with a log shipper
// that hangs. Strips are still repaired, the keeper counts as live, it exits when asked to, and its
// log lines arrive when the pipe is read.
func TestBlockedLog(t *testing.T) {
	t.Parallel()
	a, _, az, config := promoted(t, emulator.Options{})
	address := freeAddress(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run := exec.Command("routekeeper", "--emulator", az, "run", "-f", config, "--interval", "1s",
		"-v",
		"-o", "json", "--listen", address)
	run.Stdout, run.Stderr = w, w
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	t.Cleanup(func() { _ = run.Process.Kill() }) // no effect if it has ended already
	eventually(t, "the first check", func() bool { return whole(t, a, 3) })
	fill(t, w)
	for n := range 3 {
		if err := a.strip(a.demo.NodeSubnet); err != nil {
			t.Fatal(err)
		}
		// The next strip waits until this repair has ended: one that comes within the write is part
		// of the same repair.
		done := fmt.Sprintf("routekeeper_changes_total{cluster=\"shop\",outcome=\"done\","+
			"verb=\"associate\"} %d\n", n+1)
		eventually(t, "the repair while the log is blocked", func() bool {
			response, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			return err == nil && strings.Contains(string(text), done) && whole(t, a, 3)
		})
	}
	for _, path := range []string{"/livez", "/readyz"} {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	w.Close()
	repairs := make(chan struct{}, 3)
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if strings.Contains(lines.Text(), `"msg":"changed","verb":"associate"`) {
				select {
				case repairs <- struct{}{}:
				default: // more than the three
				}
			}
		}
	}()
	for n := range 3 {
		select {
		case <-repairs:
		case <-time.After(time.Minute):
			t.Fatalf("the log tells of %d repairs, want 3", n)
		}
	}
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestBlockedLogAtExit: a keeper whose log is blocked forever still exits, also with an error.
func TestBlockedLogAtExit(t *testing.T) {
	t.Parallel()
	a, _, az, config := promoted(t, emulator.Options{})
	for name, c := range map[string]struct {
		args    []string
		settled bool
		want    int
	}{
		"interrupted": {[]string{"-o", "json"}, true, 0},
		"an error":    {[]string{"--listen", "192.0.2.1:1"}, false, 1},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		if !c.settled {
			fill(t, w)
		}
		run := exec.Command("routekeeper",
			append([]string{"--emulator", az, "run", "-f", config, "--interval", "1s"},
				c.args...)...)
		run.Stdout, run.Stderr = w, w
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		if c.settled {
			eventually(t, "the first check", func() bool { return whole(t, a, 3) })
			fill(t, w)
			if err := run.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		hangs := time.AfterFunc(time.Minute, func() { _ = run.Process.Kill() })
		err = run.Wait()
		if !hangs.Stop() {
			t.Errorf("%s: it did not leave", name)
			continue
		}
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := run.ProcessState.ExitCode(); code != c.want {
			t.Errorf("%s: exit code %d, want %d", name, code, c.want)
		}
	}
}

// fill writes into a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd := int(w.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4096, 64, 1} {
		for {
			if _, err := syscall.Write(fd, []byte(strings.Repeat("x", size))); errors.Is(err,
				syscall.EAGAIN) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually waits up to a minute for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come within a minute", what)
		}
	}
}
