package emulator

import (
	"crypto/rsa"
	"testing"
)

// TestKeys: emulators refuse each other's tokens, except in tests that share a key.
func TestKeys(t *testing.T) {
	start := func(opts Options) *Emulator {
		e, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		return e
	}
	shared := func() *Emulator { return start(withSharedKey(t, Options{})) }
	accepts := func(e *Emulator, token string) bool {
		_, f := e.entra.Authenticate("Bearer "+token, "")
		return f == nil
	}
	for name, c := range map[string]struct {
		issues, checks *Emulator
		accepted       bool
	}{
		"keys of their own": {start(Options{}), start(Options{}), false},
		"a shared key":      {shared(), shared(), true},
		"one of each":       {shared(), start(Options{}), false},
	} {
		token, _, err := c.issues.Token(DefaultPrincipal, "https://management.core.windows.net/")
		if err != nil {
			t.Fatal(err)
		}
		if !accepts(c.issues, token) || accepts(c.checks, token) != c.accepted {
			t.Errorf("%s: accepted by the other: %v", name, !c.accepted)
		}
	}
}

// TestStartMakesNoKey: a start does not wait for the key that signs tokens, which takes longer than
// the rest of it. The first login makes the key.
func TestStartMakesNoKey(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	made := 0
	make := e.entra.Identity.Key
	e.entra.Identity.Key = func() *rsa.PrivateKey {
		made++
		return make()
	}
	server, err := e.Start(t.TempDir(), "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	if made != 0 {
		t.Error("the start made the key")
	}
	if _, _, err := e.Token(DefaultPrincipal, "https://management.core.windows.net/"); err != nil ||
		made == 0 {
		t.Errorf("a token: %v, asked for the key %d times", err, made)
	}
}

func BenchmarkNew(b *testing.B) {
	for name, opts := range map[string]Options{"OwnKey": {},
		"SharedKey": withSharedKey(b, Options{})} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e, err := New(opts)
				if err != nil {
					b.Fatal(err)
				}
				e.Close()
			}
		})
	}
}
