package emulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/emulator/entra"
)

// TestIssuerKeys: keys are read as issuers publish them, and one that is none is none.
func TestIssuerKeys(t *testing.T) {
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
	elliptic := entra.JWK{Type: "EC", Curve: "P-256", X: x, Y: y}
	if got, ok := elliptic.Key().(*ecdsa.PublicKey); !ok || !key.PublicKey.Equal(got) {
		t.Errorf("%v", got)
	}
	for name, k := range map[string]entra.JWK{
		"no point of the curve": {Type: "EC", Curve: "P-256", X: x, Y: x},
		"too long": {Type: "EC", Curve: "P-256", X: strings.Repeat("A", 200) + x + x,
			Y: y},
		"not base64":           {Type: "EC", Curve: "P-256", X: "!", Y: "!"},
		"another curve":        {Type: "EC", Curve: "P-384", X: x, Y: y},
		"RSA without a number": {Type: "RSA", N: "", E: "AQAB"},
		"of nothing":           {},
	} {
		if got := k.Key(); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
