package kernel

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/netip"
	"os"
	"time"
)

// server is where the emulator listens, and whom its clients trust.
type server struct {
	*Kernel
	address
}

// Authority returns the certificate authority that clients trust: the saved one, or a new one.
func (s *server) Authority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	defer s.Lock()()
	return s.AuthorityLocked()
}

func (s *server) AuthorityLocked() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	if ca, err := x509.ParseCertificate(s.CA); err == nil &&
		time.Now().Before(ca.NotAfter.AddDate(0, 0, -1)) {
		key, err := x509.ParseECPrivateKey(s.CAKey)
		return ca, key, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{
			CommonName: "routekeeper emulator CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0,
			0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if s.CA, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey,
		key); err != nil {
		return nil, nil, err
	}
	if s.CAKey, err = x509.MarshalECPrivateKey(key); err != nil {
		return nil, nil, err
	}
	ca, err := x509.ParseCertificate(s.CA)
	return ca, key, err
}

// MakeCertificate makes a server certificate for loopback, the clusters' API servers and the given
// host. If the host is a name, or stands for all addresses, the certificate is for this machine's
// name and all its addresses.
func MakeCertificate(host string, names []string, ca *x509.Certificate,
	caKey *ecdsa.PrivateKey) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{
			CommonName: "localhost"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, names...), IPAddresses: []net.IP{
			net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
		leaf.IPAddresses = append(leaf.IPAddresses, ip)
	} else if addrs, err := net.InterfaceAddrs(); err == nil { // it listens everywhere
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				leaf.IPAddresses = append(leaf.IPAddresses, n.IP)
			}
		}
		if name, err := os.Hostname(); err == nil {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der, ca.Raw}, PrivateKey: key}, nil
}

// Listen listens at an address. If any port is allowed, the one of the last run is tried first, for
// a second: a short connection of another program can have it.
func (s *server) Listen(address string, i int) (net.Listener, error) {
	s.Mu.RLock()
	before := [2]string{s.HTTPS, s.HTTP}[i]
	s.Mu.RUnlock()
	host, port, err := net.SplitHostPort(address)
	if beforeHost, _, old := net.SplitHostPort(before); err == nil && old == nil && port == "0" &&
		beforeHost == host {
		for range 20 {
			if l, err := net.Listen("tcp", before); err == nil {
				return l, nil
			}
			time.Sleep(time.Second / 20)
		}
	}
	return net.Listen("tcp", address)
}

// Listens records the listeners.
func (s *server) Listens(listeners [2]net.Listener) {
	defer s.Lock()()
	s.HTTPS, s.HTTP = listeners[0].Addr().String(), listeners[1].Addr().String()
	for _, r := range s.Store.Resources {
		r.rendered = nil // some documents contain the address
	}
}

// ListensAt returns the emulator's URL on this machine, or "" if it does not listen.
func (s *server) ListensAt() string {
	at, err := netip.ParseAddrPort(s.HTTPS)
	if err != nil {
		return ""
	}
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	return "https://" + at.String()
}
