package serve

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writePair writes a certificate with its key.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	writePairOf(t, certFile, keyFile, serial, key)
}

func writePairOf(t *testing.T, certFile, keyFile string, serial int64, key crypto.Signer) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(serial),
		Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert},
		keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificate: a new certificate is served without a restart; one that cannot be read is not.
func TestCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writePair(t, certFile, keyFile, 1)
	s, _ := start(t, Options{CertFile: certFile, KeyFile: keyFile})
	serial := func() int64 {
		t.Helper()
		c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("certificate %d", got)
	}
	if err := os.WriteFile(keyFile, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(checkEvery + 50*time.Millisecond)
	if got := serial(); got != 1 {
		t.Errorf("certificate %d while the files do not fit", got)
	}
	writePair(t, certFile, keyFile, 2)
	time.Sleep(checkEvery + 50*time.Millisecond)
	if got := serial(); got != 2 {
		t.Errorf("certificate %d after it was replaced", got)
	}
}

// TestCiphers: a client with TLS 1.2 connects with every authenticated cipher of the key's kind,
// and with no other one, such as those in CBC mode.
func TestCiphers(t *testing.T) {
	forRSA, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	forECDSA, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for kind, key := range map[string]crypto.Signer{"_RSA_": forRSA, "_ECDSA_": forECDSA} {
		certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(),
			"tls.key")
		writePairOf(t, certFile, keyFile, 1, key)
		s, _ := start(t, Options{CertFile: certFile, KeyFile: keyFile})
		accepted, refused := 0, 0
		for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
				continue
			}
			authenticated := strings.Contains(suite.Name, "_GCM_") ||
				strings.Contains(suite.Name, "_CHACHA20_")
			want := authenticated && strings.Contains(suite.Name, "_ECDHE"+kind)
			c, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true,
				MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
			if err == nil {
				c.Close()
				accepted++
			} else {
				refused++
			}
			if (err == nil) != want {
				t.Errorf("%s with a key for %s: %v", suite.Name, kind, err)
			}
		}
		if accepted != 3 || refused < 10 {
			t.Errorf("%s: %d suites were accepted, %d refused", kind, accepted, refused)
		}
	}
}
