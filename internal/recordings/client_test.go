package recordings

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// How long operations take during a replay. No test waits for it: the clock is a bubble's.
const operationTime = 10 * time.Second

// azure is an emulator and a client of it.
type azure struct {
	e     *emulator.Emulator
	token string
	until time.Time
}

func newAzure(t *testing.T) *azure {
	e, err := emulator.New(emulator.Options{
		Key:           emulator.SharedKey(),
		OperationTime: operationTime, RouteBatch: time.Second, RouteCache: 5 * time.Second,
		CheckClusterIdentity: true,
		Buckets:              emulatortest.NoLimits,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &azure{e: e}
}

// answer is an answer of the emulator.
type answer struct {
	status int
	header http.Header
	body   string
}

// login gets a token, and a new one before that one expires.
func (a *azure) login() string {
	if time.Now().Before(a.until) {
		return a.token
	}
	who := emulator.DefaultPrincipal
	form := url.Values{
		"grant_type":    {"client_credentials"},
		"client_id":     {who.ClientID},
		"client_secret": {who.Secret},
		"scope":         {"https://management.core.windows.net/.default"},
	}
	r := httptest.NewRequest(
		http.MethodPost,
		"http://localhost/"+emulator.DefaultTenant+"/oauth2/v2.0/token",
		strings.NewReader(form.Encode()),
	)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	a.e.ServeHTTP(w, r)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	_ = json.Unmarshal(w.Body.Bytes(), &token) // without a token every call is refused, which shows
	a.token, a.until = token.AccessToken, time.Now().Add(20*time.Minute)
	return a.token
}

// do makes a call as of a date.
func (a *azure) do(method, target, body string, header map[string]string) answer {
	u := &url.URL{Scheme: "http", Host: "localhost"}
	path, query, _ := strings.Cut(target, "?")
	u.Path, u.RawQuery = path, query
	r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
	r.URL, r.RequestURI = u, ""
	r.Header.Set("Authorization", "Bearer "+a.login())
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	a.e.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// ending is how an operation ended.
type ending struct {
	word, code string
	result     string // the final answer of an action
}

// follow waits for the end of the operation of an answer; nil if it began none.
func (a *azure) follow(began answer) *ending {
	operation, location := began.header.Get("Azure-AsyncOperation"), began.header.Get("Location")
	at := operation
	if at == "" && began.status == http.StatusAccepted {
		at = location
	}
	if at == "" {
		return nil
	}
	end := &ending{}
	for range 1000 {
		now := a.get(at)
		switch doc := object(decoded(now.body)); {
		case operation == "" && now.status != http.StatusAccepted:
			end.word, end.result = "Succeeded", now.body
			if now.status >= 400 {
				end.word = "Failed"
				end.code, _ = errorOf(now.body)
			}
			return end
		case operation != "" && now.status >= 400,
			textOf(doc["status"]) == "Failed",
			textOf(doc["status"]) == "Canceled":
			end.word = "Failed"
			end.code, _ = errorOf(now.body)
			return end
		case textOf(doc["status"]) == "Succeeded":
			end.word = "Succeeded"
			if location != "" {
				end.result = a.get(location).body
			}
			return end
		}
		time.Sleep(operationTime)
	}
	return end
}

func (a *azure) get(address string) answer {
	u, err := url.Parse(address)
	if err != nil {
		return answer{}
	}
	return a.do(http.MethodGet, u.Path+"?"+u.RawQuery, "", nil)
}
