package emulator

import "testing"

// TestKeys: local Azures refuse each other's tokens, but for tests that share a key.
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
		_, f := e.entra.Identity.Authenticate("Bearer "+token, "")
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
