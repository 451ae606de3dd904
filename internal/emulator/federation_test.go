package emulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestIssuerKeys: keys are read as issuers publish them, and invalid ones are refused.
func TestIssuerKeys(t *testing.T) {
	b := newBench(t, Options{})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	x, y := base64.RawURLEncoding.EncodeToString(raw[1:33]), base64.RawURLEncoding.EncodeToString(
		raw[33:])
	register := func(k kernel.Object) error {
		return b.e.RegisterIssuer("i", kernel.Encode(kernel.Object{"keys": []any{k}}))
	}
	if err := register(kernel.Object{"kty": "EC", "crv": "P-256", "x": x, "y": y}); err != nil {
		t.Fatal(err)
	}
	got, ok := b.e.entra.Identity.Issuers["i"].Keys[0].Key.(*ecdsa.PublicKey)
	if !ok || !key.PublicKey.Equal(got) {
		t.Errorf("%v", got)
	}
	for name, k := range map[string]kernel.Object{
		"no point of the curve": {"kty": "EC", "crv": "P-256", "x": x, "y": x},
		"too long": {"kty": "EC", "crv": "P-256", "x": strings.Repeat("A", 200) + x + x,
			"y": y},
		"not base64":           {"kty": "EC", "crv": "P-256", "x": "!", "y": "!"},
		"another curve":        {"kty": "EC", "crv": "P-384", "x": x, "y": y},
		"RSA without a number": {"kty": "RSA", "n": "", "e": "AQAB"},
		"a shared secret":      {"kty": "oct", "k": x},
		"of nothing":           {},
	} {
		if err := register(k); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	// An issuer can publish keys of other kinds next to the one that counts.
	if err := b.e.RegisterIssuer("i", kernel.Encode(kernel.Object{"keys": []any{
		kernel.Object{"kty": "OKP", "crv": "X25519", "x": x}, kernel.Object{"kty": "new"},
		kernel.Object{"kty": "EC", "crv": "P-256", "x": x, "y": y}}})); err != nil {
		t.Error(err)
	}
	if keys := b.e.entra.Identity.Issuers["i"].Keys; len(keys) != 1 {
		t.Errorf("%v", keys)
	}
}
