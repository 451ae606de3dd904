package daemon

import (
	"log/slog"
	"net"
	"os"
)

// notify tells systemd the state of this service, where systemd has started it and wants to know (sd_notify(3)): READY=1, STOPPING=1.
func notify(log *slog.Logger, state string) {
	path := os.Getenv("NOTIFY_SOCKET") // one that begins with @ is in the abstract namespace: package net takes it so, too
	if path == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		log.Warn("systemd was not told", "state", state, "error", err.Error())
	}
}
