package serve

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is read from files, and reloaded when they change. If the new one cannot be read, the
// old one stays in use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]time.Time // modification times of the files
	checked time.Time
}

// checkEvery is the shortest time between two checks of the files.
const checkEvery = time.Second

// load reads the files for the first time.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return err
	}
	c.current, c.read = &pair, c.changed()
	return nil
}

func (c *certificate) changed() (at [2]time.Time) {
	for i, name := range []string{c.certFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// get answers a handshake.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < checkEvery {
		return c.current, nil
	}
	c.checked = time.Now()
	if at := c.changed(); at != c.read {
		pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		if err != nil { // one of the two may be about to be written
			c.log.Error("the certificate has changed and cannot be read; the old one stays in use",
				"error", err.Error())
			return c.current, nil
		}
		c.current, c.read = &pair, at
		c.log.Info("the certificate was reloaded", "file", c.certFile)
	}
	return c.current, nil
}
