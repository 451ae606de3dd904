package emulator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/input"
)

// Info is the information that a client needs: the content of emulator.json.
type Info struct {
	HTTPS         string   `json:"https"`
	HTTP          string   `json:"http"`
	CAFile        string   `json:"caFile"`
	TenantID      string   `json:"tenantID"`
	Subscriptions []string `json:"subscriptions"`
	// Tenants are the tenants of subscriptions outside TenantID.
	Tenants      map[string]string `json:"tenants,omitempty"`
	ClientID     string            `json:"clientID"`
	ClientSecret string            `json:"clientSecret"`
}

// InfoFile is the name of the file that Start writes.
const InfoFile = "emulator.json"

// ReadInfo reads what Start wrote into a folder.
func ReadInfo(dir string) (Info, error) {
	var info Info
	raw, err := input.ReadFile(filepath.Join(dir, InfoFile), input.Small)
	if err != nil {
		return info, fmt.Errorf("no emulator runs in %s: %w", dir, err)
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		return info, fmt.Errorf("%s: %w", filepath.Join(dir, InfoFile), err)
	}
	if info.HTTPS == "" || info.HTTP == "" {
		return info, fmt.Errorf("%s names no address", filepath.Join(dir, InfoFile))
	}
	return info, nil
}

// Client returns a client that trusts the emulator's certificate authority, without a login.
func (i Info) Client() (*http.Client, error) {
	ca, err := input.ReadFile(i.CAFile, input.Small)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", i.CAFile)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	transport.Proxy = nil
	return &http.Client{Transport: transport}, nil
}

// Answers reports whether the emulator is running.
func (i Info) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(i.HTTPS, "https://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Server is an Emulator that listens.
type Server struct {
	Info Info
	// Open is set if it listens on more than loopback.
	Open    bool
	servers [2]*http.Server
	failed  chan error
	infoAt  string
}

// Start listens with HTTPS and, on a second port, with plain HTTP and the control calls, and writes
// the CA and emulator.json into dir once both accept connections. An empty address is a free port
// on loopback.
func (e *Emulator) Start(dir, httpsAddress, httpAddress string) (*Server, error) {
	if other, err := ReadInfo(dir); err == nil && other.Answers(context.Background()) {
		return nil, fmt.Errorf("%s is the folder of another emulator, which answers at %s", dir,
			other.HTTPS)
	}
	var listeners [2]net.Listener
	for i, address := range []string{httpsAddress, httpAddress} {
		if address == "" {
			address = "127.0.0.1:0"
		}
		l, err := e.kernel.Server.Listen(address, i)
		if err != nil {
			if listeners[0] != nil {
				listeners[0].Close()
			}
			if cause, ok := errors.AsType[*os.SyscallError](err); ok { // without the address twice
				err = cause.Err
			}
			return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
		}
		listeners[i] = l
	}
	s, err := e.serveOn(dir, listeners)
	if err != nil {
		listeners[0].Close()
		listeners[1].Close()
	}
	return s, err
}

func (e *Emulator) serveOn(dir string, listeners [2]net.Listener) (*Server, error) {
	host, _, err := net.SplitHostPort(listeners[0].Addr().String())
	if err != nil {
		return nil, err
	}
	ca, caKey, err := e.kernel.Server.Authority()
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	certificate, err := kernel.MakeCertificate(host, e.kernel.HostNames, ca, caKey)
	if err != nil {
		return nil, fmt.Errorf("making the TLS certificate: %w", err)
	}
	e.kernel.Server.Listens(listeners)
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	caFile := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(caFile,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o644); err != nil {
		return nil, err
	}
	first := e.opts.Principals[0]
	s := &Server{
		Info: Info{
			HTTPS: "https://" + reachable(listeners[0]), HTTP: "http://" +
				reachable(listeners[1]), CAFile: caFile,
			TenantID: e.opts.TenantID, Subscriptions: e.opts.Subscriptions,
			Tenants:  e.opts.Tenants,
			ClientID: first.ClientID, ClientSecret: first.Secret,
		},
		Open:   !loopback(listeners[0]) || !loopback(listeners[1]),
		failed: make(chan error, 2),
		infoAt: filepath.Join(dir, InfoFile),
	}
	quiet := log.New(io.Discard, "", 0) // clients that close the connection are expected
	s.servers = [2]*http.Server{
		{Handler: e.Public(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
			ErrorLog: quiet, ReadHeaderTimeout: time.Minute},
		{Handler: e, ErrorLog: quiet, ReadHeaderTimeout: time.Minute},
	}
	go func() { s.failed <- s.servers[0].ServeTLS(listeners[0], "", "") }()
	go func() { s.failed <- s.servers[1].Serve(listeners[1]) }()
	return s, s.writeInfo()
}

func loopback(l net.Listener) bool { return l.Addr().(*net.TCPAddr).IP.IsLoopback() }

// reachable returns the address at which this machine reaches a listener, also if it listens on all
// addresses.
func reachable(l net.Listener) string {
	address := *l.Addr().(*net.TCPAddr)
	if address.IP.IsUnspecified() {
		address.IP = net.IPv4(127, 0, 0, 1)
	}
	return address.String()
}

// writeInfo writes emulator.json atomically: a reader sees all of it.
func (s *Server) writeInfo() error {
	raw, err := json.MarshalIndent(s.Info, "", "  ")
	if err != nil {
		return err
	}
	temporary := s.infoAt + ".new"
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.infoAt)
}

// Wait serves until the context ends or a listener fails, and then stops.
func (s *Server) Wait(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	return errors.Join(err, s.Close())
}

// Close stops listening and removes emulator.json, unless another emulator has overwritten it
// since.
func (s *Server) Close() error {
	err := errors.Join(s.servers[0].Close(), s.servers[1].Close())
	if now, readErr := ReadInfo(filepath.Dir(s.infoAt)); readErr == nil &&
		now.HTTPS != s.Info.HTTPS {
		return err
	}
	if removed := os.Remove(s.infoAt); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
