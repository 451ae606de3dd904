package serve

import "crypto/tls"

// encryption returns the settings of TLS, with a certificate that is reloaded.
func encryption(o Options) (*tls.Config, error) {
	pair, err := newReloaded("the certificate", o.Log, o.Files, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		return &pair, err
	}, o.CertFile, o.KeyFile)
	return &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: aeadSuites(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return pair.get(), nil
		}}, err
}

// aeadSuites returns the cipher suites of TLS 1.2 that are offered; TLS 1.3 always offers its own.
// The others of crypto/tls are in CBC mode: they pad after they authenticate, and implementations
// of that have leaked plaintext again and again (Lucky Thirteen). All current clients know the
// returned ones.
func aeadSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
