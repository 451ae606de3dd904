package emulator_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"routekeeper.dev/routekeeper/emulator"
)

const network = "2025-05-01"

// routes are a table's routes by name.
func routes(e *emulator.Emulator, table string) map[string]bool {
	out := map[string]bool{}
	properties := e.Get(table, network)["properties"].(map[string]any)
	for _, r := range properties["routes"].([]any) {
		out[r.(map[string]any)["name"].(string)] = true
	}
	return out
}

func TestDemo(t *testing.T) {
	e := emulator.Start(t, emulator.Options{Scenario: "demo"})
	if n := len(routes(e, e.Demo.ClusterTable)); n != 4 {
		t.Fatalf("%d routes, want one for each node and one for the firewall", n)
	}
	e.Scale(e.Demo.Cluster, e.Demo.Pool, 5)
	e.Eventually("a route for each of 5 nodes", func() bool {
		return len(routes(e, e.Demo.ClusterTable)) == 6
	})
	for _, r := range e.Requests(emulator.Default.Name) {
		t.Errorf("%s %s was made by no known client", r.Method, r.Path)
	}
	e.PauseRoutes(e.Demo.Cluster, true)
	e.Scale(e.Demo.Cluster, e.Demo.Pool, 6)
	time.Sleep(50 * time.Millisecond)
	if n := len(routes(e, e.Demo.ClusterTable)); n != 6 {
		t.Errorf("%d routes after the cloud provider was stopped, want 6", n)
	}
}

// TestLogin: the secret and the credential log in, and a wrong secret does not.
func TestLogin(t *testing.T) {
	guest := emulator.Principal{Name: "guest", ClientID: "c11e0000-0000-4000-8000-000000000009",
		Secret:   "s",
		ObjectID: "0b1ec700-0000-4000-8000-000000000009", NoRoles: true}
	e := emulator.Start(t, emulator.Options{Subscriptions: 2,
		Principals: []emulator.Principal{emulator.Default, guest}})
	login := func(secret string) (int, string) {
		answer, err := e.HTTPClient().PostForm(e.URL+"/"+e.TenantID+"/oauth2/v2.0/token",
			url.Values{
				"grant_type": {"client_credentials"}, "client_id": {e.ClientID}, "client_secret": {
					secret},
				"scope": {"https://management.core.windows.net/.default"},
			})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if status, body := login(e.ClientSecret); status != http.StatusOK ||
		!strings.Contains(body, "access_token") {
		t.Errorf("logging in: %d %s", status, body)
	}
	if status, _ := login("wrong"); status != http.StatusUnauthorized {
		t.Errorf("logging in with another secret: %d", status)
	}
	for p, want := range map[emulator.Principal]int{emulator.Default: 2, guest: 0} {
		token, err := e.CredentialOf(p).GetToken(t.Context(), policy.TokenRequestOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+
			"/subscriptions?api-version=2022-12-01", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token.Token)
		answer, err := e.HTTPClient().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if n := strings.Count(string(body), `"subscriptionId"`); err != nil || n != want {
			t.Errorf("%s sees %d subscriptions, want %d: %v %s", p.Name, n, want, err, body)
		}
	}
}

// TestPersist: an emulator continues with the state of an earlier one in the same folder.
func TestPersist(t *testing.T) {
	dir := t.TempDir()
	group := func(e *emulator.Emulator) string {
		return "/subscriptions/" + e.SubscriptionIDs[0] + "/resourceGroups/kept"
	}
	var authority string
	t.Run("first", func(t *testing.T) {
		e := emulator.Start(t, emulator.Options{Persist: dir})
		e.Put(group(e), "2024-03-01", map[string]any{"location": "westeurope"})
		raw, err := os.ReadFile(e.CAFile)
		if authority = string(raw); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("second", func(t *testing.T) {
		e := emulator.Start(t, emulator.Options{Persist: dir})
		if e.Get(group(e), "2024-03-01")["name"] != "kept" {
			t.Error("the group is gone")
		}
		if raw, err := os.ReadFile(e.CAFile); err != nil || string(raw) != authority {
			t.Errorf("another certificate authority: %v", err)
		}
	})
}

// recorder is a test that records failures.
type recorder struct {
	testing.TB
	failed string
}

type failedNow struct{}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	panic(failedNow{})
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// TestRefusals: invalid arguments end the test with a message.
func TestRefusals(t *testing.T) {
	start := func(o emulator.Options) func(*recorder) {
		return func(r *recorder) { emulator.Start(r, o) }
	}
	for want, call := range map[string]func(*recorder){
		"2 tenants need as many subscriptions, not 1": start(emulator.Options{Tenants: 2}),
		"a time of -1s is in the past": start(
			emulator.Options{OperationTime: -time.Second}),
		"etcd is for a kube-apiserver only": start(emulator.Options{Etcd: "/etcd"}),
		"unknown scenario \"demos\"":        start(emulator.Options{Scenario: "demos"}),
		"a fault needs a status": start(
			emulator.Options{Faults: []emulator.Fault{{}}}),
		"no cluster": func(r *recorder) {
			emulator.Start(r, emulator.Options{}).Scale(group+
				"/providers/Microsoft.ContainerService/managedClusters/no", "np", 1)
		},
		`"nodes"`: func(r *recorder) { emulator.Start(r, emulator.Options{}).Strip("nodes") },
	} {
		r := &recorder{TB: t}
		func() {
			defer func() {
				if p := recover(); p != nil && p != (failedNow{}) {
					panic(p)
				}
			}()
			call(r)
		}()
		if !strings.Contains(r.failed, want) {
			t.Errorf("failed with %q, want %q", r.failed, want)
		}
	}
}

const group = "/subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/kept"
