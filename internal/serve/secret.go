package serve

import (
	"bytes"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/input"
)

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
