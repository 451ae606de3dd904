package emulator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// Fault is an error in the next calls that match: an error answer, a connection that is cut before
// or after the call took effect, an operation that is slow or fails, or a read of an older state.
// Only a fault with the principal "<cluster> identity" matches the calls of a cluster's cloud
// provider.
type Fault = emulator.Fault

// Request is a line of the request log.
type Request = emulator.Request

// Credential logs in as the first principal, without a call. To try the login, use ClientID and
// ClientSecret.
func (e *Emulator) Credential() azcore.TokenCredential { return e.CredentialOf(e.first) }

// CredentialOf logs in as one of the Principals.
func (e *Emulator) CredentialOf(p Principal) azcore.TokenCredential { return credential{e.e, p} }

type credential struct {
	e *emulator.Emulator
	p Principal
}

func (c credential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken,
	error) {
	token, expires, err := c.e.Token(c.p, audience)
	return azcore.AccessToken{Token: token, ExpiresOn: expires}, err
}

// Environ returns environment variables for programs that a test starts. With them routekeeper uses
// the emulator, and Go programs trust its certificate authority (SSL_CERT_FILE).
func (e *Emulator) Environ() []string {
	return []string{"ROUTEKEEPER_EMULATOR=" + e.Dir, "SSL_CERT_FILE=" + e.CAFile}
}

// Put writes a resource as Operator, and waits while another operation runs on it. body is a
// document as ARM takes it.
func (e *Emulator) Put(id, apiVersion string, body map[string]any) {
	e.t.Helper()
	if err := e.operator.Put(e.id(id), apiVersion, body); err != nil {
		e.t.Fatal(err)
	}
}

// Get reads a resource as Operator, as ARM shows it at an api-version.
func (e *Emulator) Get(id, apiVersion string) map[string]any {
	e.t.Helper()
	doc, err := e.operator.Get(e.id(id), apiVersion)
	if err != nil {
		e.t.Fatal(err)
	}
	return doc
}

// Strip removes the route table from a subnet, as Operator. A redeploy whose template does not name
// the table does the same.
func (e *Emulator) Strip(subnet string) {
	e.t.Helper()
	if err := e.operator.Strip(e.id(subnet)); err != nil {
		e.t.Fatal(err)
	}
}

// Scale sets the number of nodes of a cluster's pool.
func (e *Emulator) Scale(cluster, pool string, count int) {
	e.t.Helper()
	if err := e.e.Scale(e.id(cluster), pool, count); err != nil {
		e.t.Fatal(err)
	}
}

// Readdress replaces a node by one that has the same name and another address, as a reimage can.
func (e *Emulator) Readdress(cluster, node string) {
	e.t.Helper()
	if err := e.e.Readdress(e.id(cluster), node); err != nil {
		e.t.Fatal(err)
	}
}

// PauseRoutes pauses or resumes a cluster's cloud provider.
func (e *Emulator) PauseRoutes(cluster string, paused bool) {
	e.t.Helper()
	if !e.e.PauseRoutes(e.id(cluster), paused) {
		e.t.Fatalf("no cluster %s", cluster)
	}
}

// DelayRole makes a role assignment take effect only after a delay.
func (e *Emulator) DelayRole(assignment string, delay time.Duration) {
	e.t.Helper()
	if !e.e.DelayRole(e.id(assignment), delay) {
		e.t.Fatalf("no role assignment %s", assignment)
	}
}

// RegisterIssuer registers the keys (a JWK set) of an issuer whose tokens federated credentials
// accept.
func (e *Emulator) RegisterIssuer(issuer string, keys json.RawMessage) {
	e.t.Helper()
	if err := e.e.RegisterIssuer(issuer, keys); err != nil {
		e.t.Fatal(err)
	}
}

// Inject adds a fault. The returned function removes it.
func (e *Emulator) Inject(f Fault) (remove func()) {
	e.t.Helper()
	remove, err := e.e.Inject(f)
	if err != nil {
		e.t.Fatalf("injecting a fault: %v", err)
	}
	return remove
}

// Injected lists the faults and how often each has happened.
func (e *Emulator) Injected() []Fault { return e.e.Faults() }

// ClearFaults removes all faults.
func (e *Emulator) ClearFaults() { e.e.ClearFaults() }

// Requests returns the calls of a principal, in order; "" is all principals. The scenarios, Put and
// Strip call as Operator, and a cluster's cloud provider as "<cluster> identity".
func (e *Emulator) Requests(principal string) []Request {
	var out []Request
	for _, r := range e.e.Requests(0) {
		if principal == "" || r.Principal == principal {
			out = append(out, r)
		}
	}
	return out
}

// Eventually waits up to ten seconds for a condition: cloud providers and operations act with a
// delay.
func (e *Emulator) Eventually(what string, holds func() bool) {
	e.t.Helper()
	const patience = 10 * time.Second
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("after %s: not %s", patience, what)
		}
	}
}
