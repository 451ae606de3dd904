package lab

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/prove"
)

// bend is a reverse proxy in front of the emulator that changes its behavior.
type bend func(w http.ResponseWriter, r *http.Request, azure http.Handler)

// bench is an emulator, and a run against it in a bubble, where waiting takes no time.
type bench struct {
	opts    emulator.Options
	faults  []emulator.Fault
	bends   []bend
	facts   []string
	as      emulator.Principal
	logWait time.Duration
	prepare func(t *testing.T, e *emulator.Emulator)
	tell    Observer
	record  io.Writer
	ctx     context.Context
}

// trialsOf are the trials of the named facts, or all.
func trialsOf(t *testing.T, names ...string) ([]prove.Fact, []prove.Trial) {
	t.Helper()
	facts, unknown := prove.Choose(names)
	if len(unknown) > 0 {
		t.Fatalf("no facts are named %v", unknown)
	}
	return facts, prove.Trials(facts)
}

func (b bench) client(t *testing.T, e *emulator.Emulator) *azure.Client {
	t.Helper()
	var handler http.Handler = e
	for _, one := range b.bends {
		next := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { one(w, r, next) })
	}
	if b.as.Name == "" {
		b.as = emulatortest.Keeper
	}
	return emulatortest.ClientOver(t, emulatortest.Transport(t, handler), e, b.as)
}

// run makes the trials, and returns the results by fact.
func (b bench) run(t *testing.T, check func(e *emulator.Emulator, out Outcome, err error)) (
	results map[string]prove.Result,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { results = b.in(t, b.emulator(t), check) })
	return results
}

// emulator starts an emulator with the bench's options.
func (b bench) emulator(t *testing.T) *emulator.Emulator {
	b.opts.Buckets = emulatortest.NoLimits
	if b.as.Name != "" {
		b.opts.Principals = []emulator.Principal{emulatortest.Keeper, emulatortest.Operator, b.as}
	}
	return emulatortest.New(t, b.opts)
}

// in runs against an existing emulator.
func (b bench) in(
	t *testing.T, e *emulator.Emulator, check func(e *emulator.Emulator, out Outcome, err error),
) map[string]prove.Result {
	t.Helper()
	facts, trials := trialsOf(t, b.facts...)
	e.ClearFaults()
	for _, f := range b.faults {
		if _, err := e.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	if b.prepare != nil {
		b.prepare(t, e)
	}
	ctx := b.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	tell := b.tell
	if tell.Begins == nil {
		tell.Begins = func(int, int, prove.Trial) {}
	}
	if tell.Ended == nil {
		tell.Ended = func(int, int, prove.Trial, time.Duration, error) {}
	}
	out, err := Run(ctx, b.client(t, e), Settings{
		Subscription: emulator.DefaultSubscription, Location: "westeurope", Trials: trials,
		LogWait: b.logWait, Process: Process{Self: "here-1", Ended: func(string) bool {
			return false
		}},
		Recording: b.record,
	}, tell)
	if check != nil {
		check(e, out, err)
	} else if err != nil {
		t.Errorf("the run: %v", err)
	} else if !out.Deleted || len(groups(t, e)) > 0 {
		t.Errorf("left behind: %v, deleted %v", groups(t, e), out.Deleted)
	}
	results := map[string]prove.Result{}
	for _, r := range prove.Judge(facts, out.Observed) {
		results[r.Name] = r
	}
	return results
}

// groups are the throwaway groups in the emulator.
func groups(t *testing.T, e *emulator.Emulator) (names []string) {
	t.Helper()
	op, err := e.Client(emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	_, body := op.Do("GET", "/subscriptions/"+emulator.DefaultSubscription+"/resourceGroups",
		groupVersion, nil)
	for _, name := range gjson.GetBytes(body, "value.#.name").Array() {
		if strings.HasPrefix(name.String(), groupPrefix) {
			names = append(names, name.String())
		}
	}
	return names
}

// is reports whether a request has a method and a path with this suffix.
func is(r *http.Request, method, end string) bool {
	return r.Method == method &&
		strings.HasSuffix(strings.ToLower(r.URL.Path), strings.ToLower(end))
}

// answers changes the answers to some requests.
func answers(
	of func(*http.Request) bool, change func(body []byte, h http.Header, status int) ([]byte, int),
) bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		if !of(r) {
			azure.ServeHTTP(w, r)
			return
		}
		kept := httptest.NewRecorder()
		azure.ServeHTTP(kept, r)
		body, status := change(kept.Body.Bytes(), kept.Header(), kept.Code)
		for name, values := range kept.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

// sets changes one field of the answers to a method and path; nil deletes it.
func sets(method, end, path string, value any) bend {
	of := func(r *http.Request) bool { return is(r, method, end) }
	return answers(of, func(body []byte, _ http.Header, status int) ([]byte, int) {
		if status >= 300 {
			return body, status
		}
		return set(body, path, value), status
	})
}

func set(body []byte, path string, value any) []byte {
	var err error
	if value == nil {
		body, err = sjson.DeleteBytes(body, path)
	} else {
		body, err = sjson.SetBytes(body, path, value)
	}
	if err != nil {
		panic(err)
	}
	return body
}

// requests changes some requests.
func requests(of func(*http.Request) bool, change func(r *http.Request, body []byte) []byte) bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		if of(r) {
			body, _ := io.ReadAll(r.Body)
			body = change(r, body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		azure.ServeHTTP(w, r)
	}
}

// withoutIfMatch makes Azure ignore If-Match.
func withoutIfMatch(end string) bend {
	of := func(r *http.Request) bool { return is(r, "PUT", end) }
	return requests(of, func(r *http.Request, body []byte) []byte {
		r.Header.Del("If-Match")
		return body
	})
}

// oneETag makes a resource always have the same ETag.
func oneETag(end string) []bend {
	of := func(r *http.Request) bool { return is(r, "PUT", end) || is(r, "GET", end) }
	return []bend{
		withoutIfMatch(end),
		answers(of, func(body []byte, h http.Header, status int) ([]byte, int) {
			if status < 300 {
				body = set(body, "etag", `W/"same"`)
			}
			return body, status
		}),
	}
}

// refusing answers some requests with an error.
func refusing(of func(*http.Request) bool, status int, code, message string) bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		if !of(r) {
			azure.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(encode(object{"error": object{"code": code, "message": message}}))
	}
}
