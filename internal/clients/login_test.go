package clients

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/authorization/armauthorization/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/msi/armmsi"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/emulator"
)

const networkContributor = subscription +
	"/providers/Microsoft.Authorization/roleDefinitions/4d97b98b-1d4f-4787-a291-c67834d212e7"

// assign assigns a role to a principal.
func (a *azure) assign(scope, principal, role string) {
	a.Helper()
	call(client(a, armauthorization.NewRoleAssignmentsClient).Create(a.ctx, scope, uuid.NewString(),
		armauthorization.RoleAssignmentCreateParameters{
			Properties: &armauthorization.RoleAssignmentProperties{
				PrincipalID: to.Ptr(principal), PrincipalType: to.Ptr(
					armauthorization.PrincipalTypeServicePrincipal), RoleDefinitionID: to.Ptr(role),
			},
		}, nil)).ok(a)
}

// writesAs writes a table with a credential, and checks in the request log which identity wrote it.
func (a *azure) writesAs(cred azcore.TokenCredential) {
	a.Helper()
	from := a.e.LastRequest()
	tables, err := armnetwork.NewRouteTablesClient(sub, cred, a.opts)
	if err != nil {
		a.Fatal(err)
	}
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).ok(a)
	for _, r := range a.e.Requests(from) {
		if r.Method == "PUT" && (r.Principal == "" ||
			r.Principal == emulator.DefaultPrincipal.Name || r.Status != 201) {
			a.Errorf("%q wrote the table with status %d", r.Principal, r.Status)
		}
	}
}

// TestManagedIdentity logs in like a program on an Azure machine. It does not run in parallel,
// because it sets environment variables.
func TestManagedIdentity(t *testing.T) {
	a := start(t, emulator.Options{})
	a.group("net")
	// the library's cache of tokens outlives the test, by ID
	i := a.identity("net", "keeper-"+uuid.NewString())
	a.assign(subscription+"/resourceGroups/net", *i.Properties.PrincipalID, networkContributor)
	t.Setenv("IDENTITY_ENDPOINT", a.info.HTTP+"/msi/token")
	t.Setenv("IDENTITY_HEADER", "local")
	for name, id := range map[string]azidentity.ManagedIDKind{
		"client": azidentity.ClientID(*i.Properties.ClientID), "resource": azidentity.ResourceID(
			*i.ID)} {
		t.Run(name, func(t *testing.T) {
			cred, err := azidentity.NewManagedIdentityCredential(
				&azidentity.ManagedIdentityCredentialOptions{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			in := *a
			in.TB = t
			in.writesAs(cred)
			poll(client(a, armnetwork.NewRouteTablesClient).BeginDelete(a.ctx, "net", "rt", nil)).
				ok(t)
		})
	}
}

// TestWorkloadIdentity logs in like a pod: with a token of its cluster, which a federated
// credential trusts.
func TestWorkloadIdentity(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	i := a.identity("net", "keeper")
	a.assign(subscription+"/resourceGroups/net", *i.Properties.PrincipalID, networkContributor)
	const issuer, subject = "https://oidc.localhost/shop",
		"system:serviceaccount:kube-system:keeper"
	call(client(a, armmsi.NewFederatedIdentityCredentialsClient).CreateOrUpdate(a.ctx, "net",
		"keeper", "pod", armmsi.FederatedIdentityCredential{
			Properties: &armmsi.FederatedIdentityCredentialProperties{Issuer: to.Ptr(issuer),
				Subject: to.Ptr(subject), Audiences: []*string{
					to.Ptr("api://AzureADTokenExchange")}},
		}, nil)).ok(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
	keys := fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"1","n":%q,"e":%q}]}`, number(key.N),
		number(big.NewInt(int64(key.E))))
	if err := a.e.RegisterIssuer(issuer, []byte(keys)); err != nil {
		t.Fatal(err)
	}
	login := func(subject string) *azidentity.WorkloadIdentityCredential {
		token := jwt.NewWithClaims(jwt.SigningMethodRS256,
			jwt.MapClaims{"iss": issuer, "sub": subject, "aud": "api://AzureADTokenExchange",
				"exp": time.Now().Add(time.Hour).Unix()})
		token.Header["kid"] = "1"
		signed, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(signed), 0o600); err != nil {
			t.Fatal(err)
		}
		cred, err := azidentity.NewWorkloadIdentityCredential(
			&azidentity.WorkloadIdentityCredentialOptions{
				ClientOptions: a.opts.ClientOptions, ClientID: *i.Properties.ClientID,
				TenantID: a.info.TenantID, TokenFilePath: file, DisableInstanceDiscovery: true,
			})
		if err != nil {
			t.Fatal(err)
		}
		return cred
	}
	a.writesAs(login(subject))
	tables, err := armnetwork.NewRouteTablesClient(sub,
		login("system:serviceaccount:default:another"), a.opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tables.Get(a.ctx, "net", "rt", nil); err == nil {
		t.Error("a pod whose subject no credential trusts can log in")
	}
}
