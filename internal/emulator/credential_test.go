package emulator

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/golang-jwt/jwt/v5"
)

// TestCredentials logs in with the Go SDK's own credentials, each in its documented way.
func TestCredentials(t *testing.T) {
	b, _ := withGuest(t, Options{})
	b.put(uai, `{"location":"westeurope"}`)
	who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
	server := httptest.NewTLSServer(b.e)
	defer server.Close()
	options := azcore.ClientOptions{Transport: server.Client(),
		Cloud: cloud.Configuration{ActiveDirectoryAuthorityHost: server.URL}}

	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const issuer = "https://oidc.example/cluster/"
	if err := b.e.RegisterIssuer(issuer,
		kernel.Encode((&entra.Identity{Key: func() *rsa.PrivateKey { return key },
			KeyID: "k1"}).Keys())); err != nil {
		t.Fatal(err)
	}
	b.put(uai.Child("federatedIdentityCredentials", "pod"), `{"properties":{"issuer":"`+issuer+
		`","subject":"system:serviceaccount:a:b","audiences":["api://AzureADTokenExchange"]}}`)
	assertion, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": issuer, "sub": "system:serviceaccount:a:b", "aud": "api://AzureADTokenExchange",
		"exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(assertion), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IDENTITY_ENDPOINT", server.URL+"/msi/token")
	t.Setenv("IDENTITY_HEADER", "any")

	login := func(name, want string, credential azcore.TokenCredential, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		// The library has one cache of tokens per process, which also has those of an earlier
		// emulator. A request with claims does not use the cache.
		token, err := credential.GetToken(context.Background(),
			sdk.TokenRequestOptions{Claims: `{"access_token":{}}`,
				Scopes: []string{"https://management.core.windows.net//.default"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		claims := claimsOf(t, token.Token)
		if claims["oid"] != want || claims["tid"] != DefaultTenant ||
			time.Until(token.ExpiresOn) < 50*time.Minute {
			t.Errorf("%s: %v until %s, want %s", name, claims, token.ExpiresOn, want)
		}
		if _, f := b.e.entra.Authenticate("Bearer "+token.Token, server.URL); f != nil {
			t.Errorf("%s: the token is refused: %s", name, f.Message)
		}
	}
	secret, err := azidentity.NewClientSecretCredential(DefaultTenant, guest.ClientID, guest.Secret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: options,
			DisableInstanceDiscovery: true})
	login("client secret", guest.ObjectID, secret, err)
	federated, err := azidentity.NewWorkloadIdentityCredential(
		&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options,
			TenantID: DefaultTenant, ClientID: who.ClientID, TokenFilePath: tokenFile,
			DisableInstanceDiscovery: true})
	login("workload identity", who.ObjectID, federated, err)
	for name, id := range map[string]azidentity.ManagedIDKind{
		"client ID": azidentity.ClientID(who.ClientID), "object ID": azidentity.ObjectID(
			who.ObjectID), "resource ID": azidentity.ResourceID(uai),
	} {
		managed, err := azidentity.NewManagedIdentityCredential(
			&azidentity.ManagedIdentityCredentialOptions{ClientOptions: options, ID: id})
		login("managed identity by "+name, who.ObjectID, managed, err)
	}
	system, err := azidentity.NewManagedIdentityCredential(
		&azidentity.ManagedIdentityCredentialOptions{ClientOptions: options})
	login("system-assigned identity", DefaultPrincipal.ObjectID, system, err)
}
