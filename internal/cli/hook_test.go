package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptHook serves Slack, Teams and a webhook. It puts the server's address into $HOOK, and
// appends what arrives at /services/NAME to the file NAME.hook. Names that begin with "hang" get no
// answer, and with "bad" an error.
func scriptHook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: hook")
	}
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/services/"), "/")
		if err != nil || name == "" || strings.ContainsAny(name, ".\\") {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		f, err := os.OpenFile(ts.MkAbs(name+".hook"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.Write(append(raw, '\n'))
			f.Close()
		}
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		case strings.HasPrefix(name, "hang"):
			select {
			case <-over:
			case <-r.Context().Done():
			}
		case strings.HasPrefix(name, "bad"):
			http.Error(w, "no_service", http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, "ok") // the client may be gone
		}
	}))
	ts.Defer(func() { close(over); server.Close() })
	ts.Setenv("HOOK", server.URL)
}
