package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/bcrypt"

	"routekeeper.dev/routekeeper/internal/serve/page"
)

// TestRights: to send, to look and to act are rights of their own. Each caller has the rights
// of its application, role or name, and no other.
func TestRights(t *testing.T) {
	k := newKeyServer(t)
	k.listen(t)
	users := filepath.Join(t.TempDir(), "users")
	var lines strings.Builder
	for _, name := range []string{"sender", "looker", "actor", "idle"} {
		fmt.Fprintf(&lines, "%s:%s\n", name, hashOf(t, name))
	}
	if err := os.WriteFile(users, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "a-long-enough-secret"
	auth := Auth{Tenant: tenant, Audiences: []string{audience}, Authority: k.URL + "/",
		LegacyIssuer: "https://sts.windows.net/", UsersFile: users,
		SecretFile: secretFile(t, secret),
		Send: Callers{Apps: []string{"app-send"}, Roles: []string{"Send"},
			Users: []string{"sender"}},
		Look: Callers{Apps: []string{"app-look"}, Roles: []string{"Look"},
			Users: []string{"looker"}},
		Act: Callers{Apps: []string{"app-act"}, Roles: []string{"Act"},
			Users: []string{"actor"}},
	}
	s, _ := start(t, Options{Auth: auth, Board: page.NewBoard()})
	app := func(id string, roles ...string) string {
		return "Bearer " + k.token(t, jwt.MapClaims{"azp": id, "roles": roles})
	}
	basic := func(name string) string {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(name, name)
		return r.Header.Get("Authorization")
	}
	calls := []struct{ method, path string }{{http.MethodPost, "/events"},
		{http.MethodGet, "/metrics"}, {http.MethodGet, "/"}, {http.MethodPost, "/actions/look"},
		{http.MethodPost, "/actions/sync"}, {http.MethodGet, "/actions/repair"},
		{http.MethodPost, "/actions/silence"}, {http.MethodPost, "/actions/pause"},
		{http.MethodPost, "/actions/silence/end"}, {http.MethodGet, "/actions/silence"}}
	// There are no buttons here: 404 is what a caller with the right gets.
	for who, want := range map[string][]int{
		"Bearer " + secret:             {200, 200, 401, 401, 401, 401},
		app("app-send"):                {200, 403, 403, 403, 403, 403},
		app("x", "Send"):               {200, 403, 403, 403, 403, 403},
		basic("sender"):                {200, 403, 403, 403, 403, 403},
		app("app-look"):                {403, 200, 200, 404, 403, 403},
		app("x", "Look"):               {403, 200, 200, 404, 403, 403},
		basic("looker"):                {403, 200, 200, 404, 403, 403},
		app("app-act"):                 {403, 200, 200, 404, 404, 404},
		app("x", "Act"):                {403, 200, 200, 404, 404, 404},
		basic("actor"):                 {403, 200, 200, 404, 404, 404},
		basic("idle"):                  {403, 403, 403, 403, 403, 403},
		app("app-send", "Look", "Act"): {200, 200, 200, 404, 404, 404},
		app("x", "Other"):              {401, 401, 401, 401, 401, 401},
		basic("stranger"):              {401, 401, 401, 401, 401, 429},
	} {
		for i, c := range calls {
			alert := bytes.NewReader(fixture(t, "alert-common-schema.json"))
			status, _, _ := call(t, s, c.method, c.path, "application/json", alert,
				"Authorization", who)
			if want := want[min(i, 5)]; status != want { // all that acts needs the same right
				t.Errorf("%.40s %s %s: %d, want %d", who, c.method, c.path, status, want)
			}
		}
	}
}

// TestEverybodyLooks: without names, all people in the users file may look, and none may act.
func TestEverybodyLooks(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ada:"+hashOf(t, "x")), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateOf(t, Auth{UsersFile: users})
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("ada", "x")
	who, err := g.admits(r, "")
	if want := [...]bool{false, true, true, false}; err != nil || who.may != want {
		t.Errorf("%v, %v, want %v", who.may, err, want)
	}
}

// TestGuessing: a flood of wrong passwords from one address neither keeps others out nor is
// compared more often than one at a time. It is slowed for the name and address that it uses.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cost = 250 * time.Millisecond
		g := newGuesses()
		var compared, busy, at atomic.Int64
		try := func(address, name string, right bool) (bool, error) {
			return g.check(t.Context(), address, name, func() bool {
				if at.Add(1) != 1 {
					t.Error("two passwords are compared at once")
				}
				time.Sleep(cost)
				at.Add(-1)
				compared.Add(1)
				return right
			})
		}
		var flood sync.WaitGroup
		for i := range 200 {
			flood.Go(func() {
				_, err := try("evil", fmt.Sprintf("name%d", i%20), false)
				if errors.Is(err, errBusy) {
					busy.Add(1)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if ok, err := try("good", "ada", true); !ok || err != nil {
			t.Errorf("a right password during a flood: %v, %v", ok, err)
		}
		if took := time.Since(began); took > 3*cost {
			t.Errorf("it took %s, want one comparison before it at most", took)
		}
		flood.Wait()
		if busy.Load() < 100 {
			t.Errorf("%d of 200 got the answer that they were not compared", busy.Load())
		}

		// Wrong passwords for one name.
		compared.Store(0)
		slowed := 0
		for range 100 {
			if _, err := try("evil", "ada", false); errors.Is(err, errSlow) {
				slowed++
			}
			time.Sleep(time.Second)
		}
		if n := compared.Load(); n > 15 || slowed != 100-int(n) {
			t.Errorf("%d wrong passwords were compared in 100 seconds, %d slowed", n, slowed)
		}
		if ok, err := try("good", "ada", true); !ok || err != nil {
			t.Errorf("the owner of the name, from elsewhere: %v, %v", ok, err)
		}
		time.Sleep(longestDelay)
		if ok, err := try("evil", "ada", true); !ok || err != nil {
			t.Errorf("the right password after a while: %v, %v", ok, err)
		}
		if len(g.turns) != 0 {
			t.Errorf("%d places are left in the queue", len(g.turns))
		}
		for i := range 3 * mostGuessers {
			g.note(fmt.Sprint(i), false)
		}
		if len(g.wrong) > mostGuessers {
			t.Errorf("%d guessers are remembered", len(g.wrong))
		}
	})
}

// TestSameTime: a login takes as long for each name, in the file or not, whatever the costs of the
// hashes are.
func TestSameTime(t *testing.T) {
	hash := func(cost int) []byte {
		h, err := bcrypt.GenerateFromPassword([]byte("right"), cost)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	slowest := hash(9)
	for name, h := range map[string][]byte{"unknown": nil, "cost 5": hash(5), "cost 7": hash(7),
		"cost 9": slowest} {
		work := 0
		right := compare(h, slowest, func(hash []byte) bool {
			work += 1 << cost(hash)
			return bcrypt.CompareHashAndPassword(hash, []byte("right")) == nil
		})
		if right != (h != nil) {
			t.Errorf("%s: the password is right: %v", name, right)
		}
		if work != 1<<9 {
			t.Errorf("%s: %d units of work, want %d", name, work, 1<<9)
		}
	}
}

// TestRefusals: who could not be checked gets 503, not 401, and the log and metrics say what was
// refused, once for each address.
func TestRefusals(t *testing.T) {
	k := newKeyServer(t)
	auth := k.auth()
	auth.Authority = "http://127.0.0.1:1/"
	var log bytes.Buffer
	metrics := NewMetrics()
	s := &Server{gate: gateOf(t, auth), waker: &woken{},
		opts:     Options{Metrics: metrics, Log: slog.New(slog.DiscardHandler)},
		refusals: newRefusals(slog.New(slog.NewTextHandler(&log, nil)))}
	handler := inProcess{s.handler()}
	send := func(header string) *http.Response {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost,
			"http://x/events", strings.NewReader("{}"))
		r.RemoteAddr = "192.0.2.1:7"
		r.Header.Set("Authorization", header)
		answer, _ := handler.RoundTrip(r)
		return answer
	}
	if a := send("Bearer " + k.token(t, nil)); a.StatusCode != http.StatusServiceUnavailable ||
		a.Header.Get("Retry-After") == "" {
		t.Errorf("a token that cannot be checked: %s", a.Status)
	}
	for range 50 {
		if a := send("Basic x"); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("no token: %s", a.Status)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 ||
		!strings.Contains(log.String(), "from=192.0.2.1") {
		t.Errorf("%d lines for 51 refused calls of one address:\n%s", n, log.String())
	}
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	measured := inProcess{metrics.Handler()}
	answer, _ := measured.RoundTrip(r)
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`routekeeper_calls_refused_total{result="not-compared"} 1`,
		`routekeeper_calls_refused_total{result="unauthorized"} 50`} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// TestSecretRotates: a new secret is used without a restart; a file that holds none changes
// nothing.
func TestSecretRotates(t *testing.T) {
	file := secretFile(t, "the-first-long-secret")
	g, err := newGate(Auth{SecretFile: file}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	write := func(text string) {
		t.Helper()
		at = at.Add(time.Minute)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600),
			os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
		g.secret.checked = time.Time{} // a second has passed
	}
	write("the-other-long-secret")
	if g.isSecret("the-first-long-secret") || !g.isSecret("the-other-long-secret") ||
		g.isSecret("") {
		t.Error("the secret did not rotate")
	}
	write("short")
	if g.isSecret("short") || !g.isSecret("the-other-long-secret") {
		t.Error("a file without a secret changed it")
	}
}

// TestWarnings: secrets that others can read are warned about.
func TestWarnings(t *testing.T) {
	file := secretFile(t, "a-long-enough-secret")
	o := Options{Auth: Auth{SecretFile: file}}
	if all := warnings(o, true); len(all) != 0 {
		t.Errorf("a private file on loopback: %q", all)
	}
	if all := warnings(o, false); len(all) != 1 || !strings.Contains(all[0], "--tls-cert") {
		t.Errorf("without TLS: %q", all)
	}
	if err := os.Chmod(file, 0o604); err != nil {
		t.Fatal(err)
	}
	if all := warnings(o, true); len(all) != 1 || !strings.Contains(all[0], file) {
		t.Errorf("a file that all can read: %q", all)
	}
}

// TestEventsHost: without authentication, /events answers calls to this machine only, like pages:
// a page of another site must not reach it through a name of its own.
func TestEventsHost(t *testing.T) {
	s, w := start(t, Options{})
	for host, want := range map[string]int{"localhost": 200, "127.0.0.1:80": 200,
		"evil.example": 421} {
		before := w.seen()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+s.Address()+"/events",
			bytes.NewReader(fixture(t, "alert-common-schema.json")))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if status := answer.StatusCode; status != want || (w.seen() > before) != (want == 200) {
			t.Errorf("%s: %d, want %d", host, status, want)
		}
	}
}
