//go:build unix

package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestWatchdog: systemd gets signs of life while the service is alive, and no longer.
func TestWatchdog(t *testing.T) {
	dir, err := os.MkdirTemp("", "rk") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var socket *net.UnixConn
	listen := func() {
		if socket, err = net.ListenUnixgram("unixgram",
			&net.UnixAddr{Name: dir + "/notify", Net: "unixgram"}); err != nil {
			t.Fatal(err)
		}
	}
	listen()
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", dir+"/notify")
	t.Setenv("WATCHDOG_USEC", "40000")
	t.Setenv("WATCHDOG_PID", "")
	heard := func(within time.Duration) string {
		_ = socket.SetReadDeadline(time.Now().Add(within))
		text := make([]byte, 100)
		n, _ := socket.Read(text)
		return string(text[:n])
	}
	var stuck atomic.Bool
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newSystemd(slog.New(slog.NewTextHandler(&log, nil))).feedWatchdog(ctx, func() error {
			if stuck.Load() {
				return errors.New("no check has ended for 3m0s")
			}
			return nil
		})
	}()
	for range 3 {
		if state := heard(10 * time.Second); state != "WATCHDOG=1" {
			t.Fatalf("while it lives: %q", state)
		}
	}
	stuck.Store(true)
	time.Sleep(100 * time.Millisecond)
	for heard(time.Millisecond) != "" { // earlier messages
	}
	if state := heard(200 * time.Millisecond); state != "" {
		t.Errorf("while it is stuck: %q", state)
	}
	stuck.Store(false)
	if state := heard(10 * time.Second); state != "WATCHDOG=1" {
		t.Errorf("when it lives again: %q", state)
	}
	socket.Close()
	os.Remove(dir + "/notify") // a socket that is closed removes its file, or does not
	listen()
	if state := heard(10 * time.Second); state != "WATCHDOG=1" {
		t.Errorf("to a socket that systemd has made again: %q", state)
	}
	stop()
	<-ended
	if n := strings.Count(log.String(), "no check has ended for 3m0s"); n != 1 {
		t.Errorf("the log says %d times that it is stuck, want once:\n%s", n, log.String())
	}
}

// TestWatchdogOff: nothing is sent if systemd does not watch, or watches another process.
func TestWatchdogOff(t *testing.T) {
	for name, c := range map[string][2]string{"no watchdog": {"", ""},
		"of another process": {"1000", "1"}, "nonsense": {"soon", ""}} {
		t.Setenv("WATCHDOG_USEC", c[0])
		t.Setenv("WATCHDOG_PID", c[1])
		if every := watchdogInterval(); every != 0 {
			t.Errorf("%s: every %s", name, every)
		}
	}
}
