// Package emulatortest connects tests to an emulator over connections in memory, so that both ends
// can be in one testing/synctest bubble. It is for tests only.
package emulatortest

import (
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// Overlap lets more tests of a package run side by side than there are cores, because they wait for
// intervals and for other processes. A flag of the command line has precedence. TestMain calls it.
func Overlap(tests int) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // it takes any number
	}
}

// Keeper and Operator are two principals: the one under test, and the one that changes the network.
var (
	Keeper   = emulator.DefaultPrincipal
	Operator = emulator.Principal{Name: "operator",
		ClientID: "0a0a0000-0000-4000-8000-000000000002", Secret: "s",
		ObjectID: "0b0b0000-0000-4000-8000-000000000002"}
)

// noLimit is more than any test calls.
var noLimit = emulator.Bucket{Size: 1e9, PerSecond: 1e9}

// NoLimits lifts all limits on calls: clients respect Azure's limits and wait, and most tests have
// no time for that.
var NoLimits = emulator.Buckets{Reads: noLimit, Writes: noLimit, Deletes: noLimit,
	Clusters: noLimit}

// New makes an emulator that ends with the test. Its principals are Keeper and Operator.
func New(t testing.TB, opts emulator.Options) *emulator.Emulator {
	t.Helper()
	if opts.Principals == nil {
		opts.Principals = []emulator.Principal{Keeper, Operator}
	}
	if opts.Key == nil {
		opts.Key = emulator.SharedKey()
	}
	e, err := emulator.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Transport serves an emulator over connections in memory and returns the transport to it. Both end
// with the test.
func Transport(t testing.TB, e http.Handler) *http.Transport {
	t.Helper()
	l := &listener{connections: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: e}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving: %v", err)
		}
	}()
	transport := &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 16}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return transport
}

// Client returns the program's own ARM client for an emulator.
func Client(t testing.TB, e *emulator.Emulator, as emulator.Principal) *azure.Client {
	t.Helper()
	return ClientOver(t, Transport(t, e), e, as)
}

// Connect returns the program's own ARM client for an emulator that listens: over HTTPS, with a
// login.
func Connect(info emulator.Info) (*azure.Client, error) {
	client, err := info.Client()
	if err != nil {
		return nil, err
	}
	return ConnectOver(info, client)
}

// ConnectOver works like Connect, with another client for its calls.
func ConnectOver(info emulator.Info, client *http.Client) (*azure.Client, error) {
	config := cloudAt(info.HTTPS)
	credential, err := azidentity.NewClientSecretCredential(info.TenantID, info.ClientID,
		info.ClientSecret, &azidentity.ClientSecretCredentialOptions{
			ClientOptions: azcore.ClientOptions{Cloud: config,
				Transport: client}, DisableInstanceDiscovery: true,
		})
	if err != nil {
		return nil, err
	}
	return azure.New(credential, azure.Options{Cloud: config, Transport: client})
}

// audience is the audience of tokens for Azure Resource Manager.
const audience = "https://management.core.windows.net/"

// cloudAt returns the endpoints of an emulator.
func cloudAt(url string) cloud.Configuration {
	return cloud.Configuration{ActiveDirectoryAuthorityHost: url + "/",
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: url, Audience: audience}}}
}

// ClientOver works like Client over a given transport.
func ClientOver(t testing.TB, transport http.RoundTripper, e *emulator.Emulator,
	as emulator.Principal) *azure.Client {
	t.Helper()
	return connect(t, transport, e, as, nil)
}

// ClientTelling works like Client, and reports every call.
func ClientTelling(t testing.TB, e *emulator.Emulator, as emulator.Principal,
	tell func(azure.Call)) *azure.Client {
	t.Helper()
	return connect(t, Transport(t, e), e, as, tell)
}

func connect(t testing.TB, transport http.RoundTripper, e *emulator.Emulator, as emulator.Principal,
	tell func(azure.Call)) *azure.Client {
	t.Helper()
	c, err := azure.New(credential{e, as}, azure.Options{
		Cloud:     cloudAt("http://local"),
		Transport: &http.Client{Transport: transport},
		AllowHTTP: true,
		Called:    tell,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// credential logs in without a call.
type credential struct {
	e  *emulator.Emulator
	as emulator.Principal
}

func (c credential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken,
	error) {
	token, expires, err := c.e.Token(c.as, audience)
	// The token itself ends on a whole second, so with a later time here a call could still use it.
	return azcore.AccessToken{Token: token, ExpiresOn: expires.Truncate(time.Second)}, err
}

// listener accepts connections that are made in memory.
type listener struct {
	connections chan net.Conn
	once        sync.Once
	closed      chan struct{}
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }
