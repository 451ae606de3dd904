package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/demo"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/serve"
	"routekeeper.dev/routekeeper/internal/serve/page"
	"routekeeper.dev/routekeeper/internal/silence"
)

// world is a keeper that runs on the emulator, and listens.
type world struct {
	*testing.T
	azure *emulator.Emulator
	demo  emulator.Demo
	board *page.Board
	keeps *keeper.Keeper
	URL   string

	configs []v1alpha1.ClusterRoutes
	server  *serve.Server
	auth    serve.Auth
	log     *slog.Logger
}

// lockedBuffer collects a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type options struct {
	keeper    keeper.Options
	page      page.Options
	auth      serve.Auth
	log       *slog.Logger
	interval  time.Duration // 0: 200 ms
	operation time.Duration
	observe   bool   // the config says Observe
	planned   func() // called before each check makes its changes; nil: nothing
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w := &world{T: t, azure: emulatortest.New(t, emulator.Options{OperationTime: o.operation,
		RouteBatch: 50 * time.Millisecond}), board: page.NewBoard()}
	var err error
	if w.demo, err = emulator.BuildDemo(w.azure, emulatortest.Operator); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "routes"+history.Extension)
	past := history.Open(file, history.Options{})
	o.keeper.Recorder, o.keeper.Store = past, past
	o.keeper.Planned = func(r keeper.Result) {
		w.board.Planned(r)
		if o.planned != nil {
			o.planned()
		}
	}
	record := w.board.Record
	if silences := o.page.Silences; silences != nil { // as package daemon does
		o.keeper.ClusterPaused = silences.Paused
		o.keeper.Silenced = func(found []finding.Finding) []finding.Finding {
			return silence.Mark(silences.Current(), found)
		}
		record = func(r keeper.Result) {
			r.Findings = finding.Sort(slices.Concat(r.Findings,
				silence.Findings(silences.All(), time.Now())))
			w.board.Record(r)
		}
	}
	w.configs = demo.Config(w.demo)
	if o.observe {
		w.configs = plan.Observing(w.configs)
	}
	w.keeps = keeper.New(emulatortest.Client(t, w.azure, emulatortest.Keeper), w.configs, o.keeper)
	if o.interval == 0 {
		o.interval = 200 * time.Millisecond
	}
	o.page.History, o.page.Version, o.page.Keeper = file, "test", w.keeps
	w.auth, w.log = o.auth, o.log
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.serve(w.board, o.page)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error)
	go func() { over <- w.keeps.Run(ctx, o.interval, record) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Errorf("running: %v", err)
		}
		if err := past.Close(); err != nil {
			t.Errorf("closing the history: %v", err)
		}
	})
	return w
}

// serve shows a board from now on.
func (w *world) serve(board *page.Board, o page.Options) {
	w.Helper()
	server, err := serve.Start(serve.Options{Address: "127.0.0.1:0", Auth: w.auth,
		Metrics: serve.NewMetrics(), Board: board, Page: o,
		Log: w.log}, w.keeps)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := server.Close(); err != nil {
			w.Errorf("closing the listener: %v", err)
		}
	})
	w.server, w.URL = server, "http://"+server.Address()
}

// strip removes the table from a subnet, like a redeploy that does not name it.
func (w *world) strip(subnet arm.ID) {
	w.Helper()
	var doc map[string]any
	if status := w.arm(http.MethodGet, subnet, nil, &doc); status != http.StatusOK {
		w.Fatalf("reading %s: %d", subnet.Short(), status)
	}
	delete(doc["properties"].(map[string]any), "routeTable")
	for {
		switch status := w.arm(http.MethodPut, subnet, doc, nil); status {
		case http.StatusOK, http.StatusCreated:
			return
		case http.StatusConflict, http.StatusTooManyRequests: // another operation is running on it
			time.Sleep(20 * time.Millisecond)
		default:
			w.Fatalf("writing %s: %d", subnet.Short(), status)
		}
	}
}

// arm makes a call to the emulator with another identity than the keeper's.
func (w *world) arm(method string, id arm.ID, body, into any) int {
	w.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		w.Fatal(err)
	}
	token, _, err := w.azure.Token(emulatortest.Operator, "https://management.core.windows.net/")
	if err != nil {
		w.Fatal(err)
	}
	r := httptest.NewRequest(method, string(id)+"?api-version=2025-05-01", bytes.NewReader(raw))
	r.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	w.azure.ServeHTTP(answer, r)
	if into != nil {
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
			w.Fatal(err)
		}
	}
	return answer.Code
}

// answer is the answer of a page.
type answer struct {
	status int
	header http.Header
	body   string
}

// get gets a page. Headers come in pairs.
func (w *world) get(path string, headers ...string) answer {
	w.Helper()
	return w.send(http.MethodGet, path, "", headers...)
}

// send sends a form.
func (w *world) send(method, path, form string, headers ...string) answer {
	w.Helper()
	r, err := http.NewRequest(method, w.URL+path, strings.NewReader(form))
	if err != nil {
		w.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(raw)}
}

// overview gets the first page as JSON.
func (w *world) overview() page.Overview {
	w.Helper()
	var o page.Overview
	decode(w.T, w.get("/index.json"), &o)
	return o
}

func decode(t *testing.T, a answer, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d, %v: %s", a.status, err, a.body)
	}
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: not within a minute; the page says %q", what, w.overview().Sentence)
		}
	}
}

// settled waits until everything is in sync.
func (w *world) settled() page.Overview {
	w.Helper()
	var o page.Overview
	w.until("everything is in sync", func() bool { o = w.overview(); return o.State == page.Good })
	return o
}
