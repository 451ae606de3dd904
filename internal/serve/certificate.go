package serve

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/openfiles"
)

// certificate is read from files, and reloaded when they change. If the new one cannot be read, the
// old one stays in use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	open              *openfiles.Watch

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

// aeadSuites returns the cipher suites of TLS 1.2 that are offered; those of TLS 1.3 are always.
// The others of crypto/tls are in CBC mode: they pad after they authenticate, and implementations
// of that have leaked plaintext again and again (Lucky Thirteen). All current clients know these.
func aeadSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
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
		if c.open.Note(err) {
			return c.current, nil // the next handshakes try again
		}
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
