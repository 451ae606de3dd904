package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// systemd is the service manager, if it has started this process with Type=notify: sd_notify(3). A
// nil systemd sends nothing.
//
// Its socket stays open until the process ends. A new connection for each message would fail when
// no more files can be opened. Then systemd would kill a keeper that still repairs.
type systemd struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex // only one writer at a time may reconnect
	socket net.Conn   // nil: not connected
}

// patience is how long systemd may take to receive a message.
const patience = 5 * time.Second

// newSystemd connects to systemd. It returns nil if systemd expects no messages.
func newSystemd(log *slog.Logger) *systemd {
	// An address that begins with @ is in the abstract namespace. Package net uses the same
	// notation.
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	s := &systemd{path: path, log: log}
	if err := s.connect(); err != nil {
		log.Warn("cannot connect to systemd", "error", err.Error())
	}
	return s
}

func (s *systemd) connect() error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.path, Net: "unixgram"})
	if err != nil {
		return err
	}
	s.socket = c
	return nil
}

// tell reports the state of this service: READY=1, STOPPING=1, WATCHDOG=1.
func (s *systemd) tell(state string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.send(state)
	if err != nil { // systemd may have made its socket again
		s.end()
		if err = s.connect(); err == nil {
			err = s.send(state)
		}
	}
	if err != nil {
		s.log.Warn("cannot notify systemd", "state", state, "error", err.Error())
	}
}

func (s *systemd) send(state string) error {
	if s.socket == nil {
		return net.ErrClosed
	}
	if err := s.socket.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := s.socket.Write([]byte(state))
	return err
}

func (s *systemd) end() {
	if s.socket != nil {
		s.socket.Close()
		s.socket = nil
	}
}

// watchdogInterval returns how often systemd expects a sign of life, 0 without a watchdog:
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
func (s *systemd) feedWatchdog(ctx context.Context, live func() error) {
	interval := watchdogInterval()
	if s == nil || interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	stuck := false
	for {
		err := live()
		switch {
		case err == nil:
			s.tell("WATCHDOG=1")
		case !stuck:
			s.log.Error("the keeper is stuck; systemd's watchdog will end it", "error", err.Error())
		}
		stuck = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
