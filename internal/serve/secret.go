package serve

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

// secret is the secret of the senders of events, in a file. It is reloaded when the file changes;
// if the new one is no secret, the old one stays.
type secret struct {
	file string
	log  *slog.Logger
	open *openfiles.Watch

	mu      sync.Mutex
	current string
	read    time.Time // modification time of the file when it was read
	checked time.Time
}

func newSecret(file string, log *slog.Logger, open *openfiles.Watch) (*secret, error) {
	s := &secret{file: file, log: log, open: open}
	return s, s.load()
}

func (s *secret) load() error {
	info, err := os.Stat(s.file)
	if err != nil {
		return err
	}
	current, err := ReadSecret(s.file)
	if err != nil {
		return err
	}
	s.current, s.read = current, info.ModTime()
	return nil
}

// is reports whether a caller's secret is this one.
func (s *secret) is(of string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.checked) >= checkEvery {
		s.checked = time.Now()
		if info, err := os.Stat(s.file); err != nil || !info.ModTime().Equal(s.read) {
			if err = s.load(); s.open.Note(err) {
				// the next calls try again
			} else if err != nil {
				s.log.Error("the event secret has changed and cannot be read; the old one stays "+
					"in use", "error", err.Error())
			} else {
				s.log.Info("the event secret was reloaded", "file", s.file)
			}
		}
	}
	return of != "" && same(of, s.current)
}

// shortestSecret is long enough that a random secret cannot be guessed.
const shortestSecret = 16

// ReadSecret reads a secret that callers can send.
func ReadSecret(file string) (string, error) {
	raw, err := input.ReadFile(file, input.Small)
	if err != nil {
		return "", err
	}
	secret := string(bytes.TrimSpace(raw))
	switch {
	case len(secret) < shortestSecret:
		return "", fmt.Errorf("the secret in %s is shorter than %d characters", file,
			shortestSecret)
	case strings.Trim(secret,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~") != "":
		return "", fmt.Errorf("the secret in %s has characters that a URL path cannot hold; "+
			"use letters, digits and -_.~", file)
	}
	return secret, nil
}

// warnings returns what a listener can be started with, but should not be.
func warnings(o Options, loopback bool) (all []string) {
	for _, file := range []string{o.Auth.SecretFile, o.Auth.UsersFile, o.KeyFile} {
		if warning := input.Exposed(file); warning != "" {
			all = append(all, warning)
		}
	}
	if !o.Auth.none() && !loopback && o.CertFile == "" {
		all = append(all, "secrets, passwords and tokens cross the network readable: use "+
			"--tls-cert and --tls-key, or listen on loopback behind a proxy with TLS")
	}
	return all
}
