package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"

	sdk "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

// TestClusterIssuer gets a service account's token from a cluster, verifies it as a relying party
// does, with the documents at the issuer's URL, and logs in with it by a federated credential.
func TestClusterIssuer(t *testing.T) {
	b := newBench(t, Options{})
	server, err := b.e.Start(t.TempDir(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	client, err := server.Info.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(method, url, token, body string) []byte {
		t.Helper()
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		if answer.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s", method, url, answer.StatusCode, raw)
		}
		return raw
	}

	cluster := group + "/providers/Microsoft.ContainerService/managedClusters/shop"
	body := `{"location":"westeurope","identity":{"type":"SystemAssigned"},"properties":{"dnsPrefix":"shop","oidcIssuerProfile":{"enabled":ON},
  "agentPoolProfiles":[{"name":"np","count":1,"vmSize":"Standard_D2s_v5","mode":"System"}]}}`
	b.put(cluster, strings.Replace(body, "ON", "false", 1))
	if profile := kernel.ObjectAt(b.get(cluster), "properties",
		"oidcIssuerProfile"); profile["issuerURL"] != nil {
		t.Errorf("without an issuer: %v", profile)
	}
	b.put(cluster, strings.Replace(body, "ON", "true", 1))
	issuer := kernel.Text(b.get(cluster), "properties", "oidcIssuerProfile", "issuerURL")
	if !strings.HasPrefix(issuer, server.Info.HTTPS+"/") || !strings.HasSuffix(issuer, "/") {
		t.Fatalf("the issuer is %q", issuer)
	}

	// A pod's token, as kubectl create token requests it.
	var asked struct{ Status struct{ Token string } }
	api := server.Info.HTTPS + "/_kubernetes/" + sub + "/" + group.Name() + "/shop"
	raw := ask(
		http.MethodPost,
		api+"/api/v1/namespaces/web/serviceaccounts/front/token",
		b.e.aks.APIServers.ClusterToken(cluster, "clusterUser"),
		`{"spec":{"audiences":["api://AzureADTokenExchange"]}}`,
	)
	if err := json.Unmarshal(raw, &asked); err != nil {
		t.Fatal(err)
	}

	var configuration struct {
		Issuer string
		KeysAt string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(ask(http.MethodGet, issuer+".well-known/openid-configuration", "", ""),
		&configuration); err != nil ||
		configuration.Issuer != issuer {
		t.Fatalf("%v %v", configuration, err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(ask(http.MethodGet, configuration.KeysAt, "", ""), &set); err != nil ||
		len(set.Keys) != 1 {
		t.Fatalf("%v %v", set, err)
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(asked.Status.Token, claims, func(*jwt.Token) (any, error) {
		return set.Keys[0].Key, nil
	}); err != nil ||
		claims["iss"] != issuer ||
		claims["sub"] != "system:serviceaccount:web:front" {
		t.Fatalf("%v %v", claims, err)
	}

	b.put(uai, `{"location":"westeurope"}`)
	who := entra.IdentityOf(b.e.kernel.Store.Get(uai))
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(asked.Status.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	login := func() error {
		credential, err := azidentity.NewWorkloadIdentityCredential(
			&azidentity.WorkloadIdentityCredentialOptions{
				ClientOptions: azcore.ClientOptions{
					Transport: client,
					Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: server.Info.HTTPS},
				},
				TenantID: DefaultTenant, ClientID: who.ClientID, TokenFilePath: file,
				DisableInstanceDiscovery: true,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		_, err = credential.GetToken(
			context.Background(),
			sdk.TokenRequestOptions{
				Scopes: []string{"https://management.core.windows.net//.default"},
			},
		)
		return err
	}
	if err := login(); err == nil || !strings.Contains(err.Error(), "AADSTS70021") {
		t.Errorf("without a credential: %v", err)
	}
	b.put(
		uai.Child("federatedIdentityCredentials", "front"),
		`{"properties":{"issuer":"`+issuer+
			`","subject":"system:serviceaccount:web:front","audiences":["api://AzureADTokenExchange"]}}`,
	)
	if err := login(); err != nil {
		t.Errorf("with one: %v", err)
	}
	if err := os.WriteFile(file, bytes.Replace([]byte(asked.Status.Token), []byte("."),
		[]byte(".x"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := login(); err == nil {
		t.Error("a token that was changed")
	}
}
