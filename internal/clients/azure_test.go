package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azarm "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v4"

	"routekeeper.dev/routekeeper/internal/emulator"
)

const (
	sub      = emulator.DefaultSubscription
	region   = "westeurope"
	pageSize = 2
	// operationTime is long enough that every poller polls at least once before its operation ends.
	operationTime = 60 * time.Millisecond
)

// azure is an emulator served over HTTPS, with a client.
type azure struct {
	testing.TB
	ctx  context.Context
	e    *emulator.Emulator
	info emulator.Info
	http *http.Client
	cred azcore.TokenCredential
	opts *azarm.ClientOptions
	seen int // requests up to here were checked
}

// start starts an emulator for one test. Its client logs in over HTTPS, with the client secret.
func start(t *testing.T, options emulator.Options) *azure {
	t.Helper()
	if options.OperationTime == 0 {
		options.OperationTime = operationTime
	}
	options.PageSize = pageSize
	e, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	server, err := e.Start(t.TempDir(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	a := &azure{TB: t, ctx: t.Context(), e: e, info: server.Info,
		http: &http.Client{Transport: trusting(t, server.Info.CAFile)}}
	a.cred, a.opts = a.login(a.info.ClientID, a.info.ClientSecret)
	return a
}

// trusting is a transport that trusts only one certificate authority.
func trusting(t *testing.T, caFile string) *http.Transport {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("%s holds no certificate", caFile)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// login returns what an SDK client needs to call the emulator with a client ID and secret.
func (a *azure) login(clientID, secret string) (azcore.TokenCredential, *azarm.ClientOptions) {
	options := azcore.ClientOptions{
		Cloud: cloud.Configuration{
			ActiveDirectoryAuthorityHost: a.info.HTTPS,
			Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
				cloud.ResourceManager: {Endpoint: a.info.HTTPS,
					Audience: "https://management.core.windows.net/"},
			},
		},
		Transport: a.http,
	}
	cred, err := azidentity.NewClientSecretCredential(a.info.TenantID, clientID, secret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options,
			DisableInstanceDiscovery: true})
	if err != nil {
		a.Fatal(err)
	}
	return cred, &azarm.ClientOptions{ClientOptions: options}
}

// client makes an SDK client: client(a, armnetwork.NewSubnetsClient).
func client[T any](a *azure,
	make func(string, azcore.TokenCredential, *azarm.ClientOptions) (T, error)) T {
	a.Helper()
	c, err := make(sub, a.cred, a.opts)
	if err != nil {
		a.Fatal(err)
	}
	return c
}

// group creates a resource group.
func (a *azure) group(name string) {
	a.Helper()
	call(client(a, armresources.NewResourceGroupsClient).CreateOrUpdate(a.ctx, name,
		armresources.ResourceGroup{Location: to.Ptr(region)}, nil)).ok(a)
	a.requests()
}

// id is the ID of a resource in a group: id("net", "Microsoft.Network/routeTables/rt").
func id(group, path string) string {
	return "/subscriptions/" + sub + "/resourceGroups/" + group + "/providers/" + path
}

// answer is the result of a call.
type answer[T any] struct {
	value T
	err   error
}

// call wraps the result of a synchronous call.
func call[T any](value T, err error) answer[T] { return answer[T]{value, err} }

// poll takes the poller of a long-running operation and follows it to its end.
func poll[T any](p *runtime.Poller[T], err error) answer[T] {
	if err != nil {
		return answer[T]{err: err}
	}
	ctx := context.Background()
	// Not PollUntilDone: it obeys Retry-After, which is at least a second.
	for !p.Done() {
		if _, err := p.Poll(ctx); err != nil {
			return answer[T]{err: err}
		}
		time.Sleep(operationTime / 3)
	}
	return call(p.Result(ctx))
}

// ok returns the result, and fails the test if there is an error.
func (r answer[T]) ok(t testing.TB) T {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.value
}

// refused expects an error with a status and one of ARM's codes.
func (r answer[T]) refused(t testing.TB, status int, code string) {
	t.Helper()
	var refusal *azcore.ResponseError
	if !errors.As(r.err, &refusal) || refusal.StatusCode != status || refusal.ErrorCode != code {
		t.Errorf("answer %v, want %d %s", r.err, status, code)
	}
}

// all reads a list to its end, following nextLink, and expects that many items. Lists longer than a
// page must have come in pages.
func all[P, E any](a *azure, pager *runtime.Pager[P], items func(P) []*E, want int) []*E {
	a.Helper()
	var list []*E
	pages := 0
	for pager.More() {
		page, err := pager.NextPage(a.ctx)
		if err != nil {
			a.Fatal(err)
		}
		pages++
		list = append(list, items(page)...)
	}
	if len(list) != want {
		a.Fatalf("a list of %d, want %d", len(list), want)
	}
	if pages != max(1, (want+pageSize-1)/pageSize) {
		a.Errorf("%d items came in %d pages of %d", want, pages, pageSize)
	}
	return list
}

// is compares a decoded value of the SDK, always a pointer, with the expected value.
func is[T comparable](t testing.TB, what string, got *T, want T) {
	t.Helper()
	switch {
	case got == nil:
		t.Errorf("%s is absent, want %v", what, want)
	case *got != want:
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}

// wire expects exactly these calls since the last check, in this order, without the login: method,
// path after the last /providers/ or the subscription, api-version, and status. A repeated poll is
// one line, a next page ends in "next".
func (a *azure) wire(want ...string) {
	a.Helper()
	var got []string
	for _, r := range a.requests() {
		if l := line(r); len(got) == 0 || got[len(got)-1] != l || r.Method != http.MethodGet {
			got = append(got, l)
		}
	}
	if !slices.Equal(got, want) {
		a.Errorf("the wire saw\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"),
			strings.Join(want, "\n\t"))
	}
}

// requests returns the default principal's calls since the last check, without the login and
// without the calls of clusters.
func (a *azure) requests() []emulator.Request {
	var calls []emulator.Request
	for _, r := range a.e.Requests(a.seen) {
		a.seen = r.N
		if r.Principal == emulator.DefaultPrincipal.Name {
			calls = append(calls, r)
		}
	}
	return calls
}

var (
	operationPath = regexp.MustCompile(`(?i)^.*/locations/[^/]+/(operations|operationResults)/.*$`)
	beforePath    = regexp.MustCompile(`(?i)^(.*/providers/|/subscriptions/[^/]+/|/)`)
)

func line(r emulator.Request) string {
	path := operationPath.ReplaceAllString(r.Path, "$1")
	query, _ := url.ParseQuery(r.Query) // the URL package wrote it
	l := fmt.Sprintf("%s %s %s %d", r.Method, beforePath.ReplaceAllString(path, ""),
		query.Get("api-version"), r.Status)
	if query.Get("$skiptoken") != "" {
		l += " next"
	}
	return l
}
