package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// notify reports the state of this service to systemd (READY=1, STOPPING=1, WATCHDOG=1), if systemd
// has started it with Type=notify: sd_notify(3).
func notify(log *slog.Logger, state string) {
	// An address that begins with @ is in the abstract namespace, also for package net.
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		log.Warn("cannot notify systemd", "state", state, "error", err.Error())
	}
}

// watchdogInterval is how often systemd expects a sign of life, 0 without a watchdog:
// sd_watchdog_enabled(3).
func watchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	µs, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || µs <= 0 {
		return 0
	}
	return time.Duration(µs) * time.Microsecond
}

// feedWatchdog sends systemd signs of life while the keeper is alive. systemd kills and restarts a
// service that sends none in time.
func feedWatchdog(ctx context.Context, log *slog.Logger, live func() error) {
	interval := watchdogInterval()
	if interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	stuck := false
	for {
		err := live()
		switch {
		case err == nil:
			notify(log, "WATCHDOG=1")
		case !stuck:
			log.Error("the keeper is stuck; systemd's watchdog will end it", "error", err.Error())
		}
		stuck = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
