package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/report"
)

// Options say what the pages show in addition to the board.
type Options struct {
	// History is the history's file, "" if there is none.
	History string
	// Version is this program's.
	Version string
	// Mode names a restriction of the keeper, such as "dry run"; "" means none. Nil: there never is
	// one.
	Mode func() string
	// Keeper does what people request with buttons. Nil: there are no buttons.
	Keeper Keeper
	// Actions allows the buttons that change something: sync and repair. On a dry run they only
	// preview.
	Actions, DryRun bool
	// Caller names who sends a request. Nil: callers have no names.
	Caller func(*http.Request) string
	// MayAct reports whether a caller may use the buttons of Actions. Nil: every caller may.
	MayAct func(*http.Request) bool
	Log    *slog.Logger
}

// Pages serves the pages, as HTML and as JSON.
type Pages struct {
	board    *Board
	opts     Options
	mux      *http.ServeMux
	ending   <-chan struct{}
	previews previews
}

//go:embed templates static
var files embed.FS

// New makes the pages of a board. Long answers end when ending is closed.
func New(board *Board, ending <-chan struct{}, o Options) *Pages {
	p := &Pages{board: board, opts: o, ending: ending, mux: http.NewServeMux(),
		previews: previews{shown: map[string]shown{}}}
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // it is embedded
	}
	assets := http.StripPrefix("/static/", http.FileServerFS(static))
	p.mux.HandleFunc("GET /static/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // do not list the files
			p.fail(w, r, http.StatusNotFound, "This page does not exist.")
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=300")
		assets.ServeHTTP(w, r)
	})
	p.mux.HandleFunc("GET /{$}", p.overview)
	p.mux.HandleFunc("GET /index.json", p.overview)
	p.mux.HandleFunc("GET /clusters/{name}", p.cluster)
	p.mux.HandleFunc("GET /history", p.past)
	p.mux.HandleFunc("GET /history.json", p.past)
	p.mux.HandleFunc("GET /history/{id}", p.check)
	p.mux.HandleFunc("GET /live", p.live)
	if o.Keeper != nil {
		p.routeActions()
	}
	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, "This page does not exist.")
	})
	return p
}

// policy allows only what this server serves: no inline script or style, no frame around a page, no
// form that posts elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Add("Vary", "Accept")
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	p.mux.ServeHTTP(w, r)
}

// document is what every template gets.
type document struct {
	Title   string
	Version string
	Mode    string
	Path    string // of the page
	JSON    string // its path as JSON
	Buttons bool   // Check now
	Actions bool   // Sync and Repair
	Shown   uint64 // version of the board that the page shows, 0 if it shows something else
	Cluster string // the cluster that the page is about
	Page    any
}

var templates = template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))

// answer writes a page, or its value if the request wants JSON.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request, status int, name, title string,
	shown uint64, value, page any) {
	var b bytes.Buffer
	kind := "text/html; charset=utf-8"
	if wantsJSON(r) {
		kind = "application/json"
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(value); err != nil {
			p.broken(w, r, err)
			return
		}
	} else {
		d := document{
			Title: title, Version: p.opts.Version, Path: r.URL.Path, JSON: jsonPath(r),
			Buttons: p.opts.Keeper != nil, Actions: p.opts.Keeper != nil && p.opts.Actions &&
				(p.opts.MayAct == nil || p.opts.MayAct(r)),
			Shown: shown, Page: page, Mode: p.mode(),
		}
		if c, is := page.(clusterPage); is {
			d.Cluster = c.Name
		}
		if err := templates.ExecuteTemplate(&b, name, d); err != nil {
			p.broken(w, r, err)
			return
		}
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	safe := []byte(report.SafeText(b.String(), report.Style{}))
	if kind == "application/json" {
		safe = report.SafeJSON(b.Bytes())
	}
	_, _ = w.Write(safe) // the client may be gone
}

func (p *Pages) mode() string {
	if p.opts.Mode == nil {
		return ""
	}
	return p.opts.Mode()
}

// broken answers when a page cannot be made, which is a bug.
func (p *Pages) broken(w http.ResponseWriter, r *http.Request, err error) {
	p.opts.Log.Error("a page could not be made", "path", r.URL.Path, "error", err.Error())
	http.Error(w, "the page could not be made; the log says why", http.StatusInternalServerError)
}

func wantsJSON(r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, ".json") {
		return true
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch kind {
		case "application/json":
			return true
		case "text/html", "*/*", "application/xhtml+xml":
			return false
		}
	}
	return false
}

// jsonPath is the path of a page as JSON.
func jsonPath(r *http.Request) string {
	path := r.URL.Path
	if path == "/" {
		path = "/index"
	}
	if r.URL.RawQuery != "" {
		return path + ".json?" + r.URL.RawQuery
	}
	return path + ".json"
}

// fault is the page of an error.
type fault struct {
	Status int    `json:"status"`
	Error  string `json:"error"`
}

func (p *Pages) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	f := fault{status, text}
	p.answer(w, r, status, "fault.html", http.StatusText(status), 0, f, f)
}

// large is how many clusters the first page draws at most. Of more clusters it shows a list, and
// draws only the worst one, if its traffic is broken.
const large = 4

// front is what the first page shows.
type front struct {
	Overview
	Told  told
	Drawn []drawn
	List  *list // nil if all clusters are drawn
	Past  past
}

// drawn is a cluster with its drawings.
type drawn struct {
	Cluster
	Wide, Narrow drawing
	Tables       comparison
}

func (p *Pages) overview(w http.ResponseWriter, r *http.Request) {
	o := p.board.overview()
	f := front{Overview: o, Told: tell(o.Findings)}
	chosen := o.Clusters
	if len(chosen) > large {
		l := selected(o.Clusters, readListQuery(r))
		f.List, chosen = &l, nil
		if !l.Query.Narrow() && len(l.Shown) > 0 && l.Query.Page == 1 &&
			(l.Shown[0].State == Bad || l.Shown[0].State == Busy) {
			chosen = l.Shown[:1]
		}
	}
	for _, c := range chosen {
		f.Drawn = append(f.Drawn, draw(c, false))
	}
	f.Past = p.checks(history.Query{Limit: 8})
	title := ""
	if n := o.Counts.Broken; n > 0 {
		title = strconv.Itoa(n) + " broken"
	} else if n := o.Counts.AtRisk; n > 0 {
		title = strconv.Itoa(n) + " at risk"
	}
	p.answer(w, r, http.StatusOK, "overview.html", title, o.Version, o, f)
}

// clusterPage is the page of one cluster, and its JSON.
type clusterPage struct {
	Cluster
	Checks  []history.Entry `json:"checks"`
	Trouble string          `json:"trouble,omitempty"` // why the history could not be read
	drawn   drawn
	history past
}

// Drawn and History are for the page; the JSON has other fields for them.
func (c clusterPage) Drawn() drawn  { return c.drawn }
func (c clusterPage) Told() told    { return tell(c.Findings) }
func (c clusterPage) History() past { return c.history }

func (p *Pages) cluster(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(r.PathValue("name"), ".json") // no cluster's name has a dot
	o := p.board.overview()
	for _, c := range o.Clusters {
		if c.Name != name {
			continue
		}
		past := p.checks(history.Query{Cluster: name, Limit: 20})
		past.Checks = only(past.Checks, name)
		page := clusterPage{
			Cluster: c, Checks: past.Checks, Trouble: past.Trouble,
			drawn: draw(c, true), history: past,
		}
		page.drawn.Tables = page.drawn.Tables.selected(r)
		title := name
		if c.State != Good {
			title = mark(c.State) + " " + name
		}
		p.answer(w, r, http.StatusOK, "cluster.html", title, o.Version, page, page)
		return
	}
	// With the board's version, a page that stays open loads again when the cluster is back.
	f := fault{http.StatusNotFound, "No managed cluster has the name " + name + "."}
	p.answer(w, r, f.Status, "fault.html", http.StatusText(f.Status), o.Version, f, f)
}

// past is a list of checks from the history.
type past struct {
	Checks  []history.Entry `json:"checks"`
	Cluster string          `json:"cluster,omitempty"`
	Kind    string          `json:"kind,omitempty"`
	On      bool            `json:"-"`                 // the keeper has a history
	Trouble string          `json:"trouble,omitempty"` // why the history could not be read
	Limit   int             `json:"-"`
	Names   []string        `json:"-"` // of all clusters
}

// only returns the checks with the changes and findings of one cluster, and without the checks that
// concern only others.
func only(all []history.Entry, cluster string) []history.Entry {
	out := []history.Entry{}
	for _, e := range all {
		e.Changes = slices.DeleteFunc(slices.Clone(e.Changes), func(c history.Change) bool {
			return c.Cluster != cluster
		})
		e.Findings = slices.DeleteFunc(slices.Clone(e.Findings), func(f history.News) bool {
			return f.Cluster != cluster && f.Cluster != ""
		})
		if len(e.Changes)+len(e.Findings) > 0 || e.ElapsedMs == nil {
			out = append(out, e)
		}
	}
	return out
}

// Kinds are the kinds of checks to filter by.
func (past) Kinds() []string { return history.Kinds }

// checks reads the history.
func (p *Pages) checks(q history.Query) past {
	out := past{
		Checks: []history.Entry{}, On: p.opts.History != "",
		Cluster: q.Cluster, Kind: q.Kind, Limit: q.Limit,
	}
	if !out.On {
		return out
	}
	reader, err := history.Read(p.opts.History)
	if err == nil {
		defer reader.Close()
		err = reader.Each(q, func(e history.Entry) error {
			out.Checks = append(out.Checks, e)
			return nil
		})
	}
	if err != nil {
		out.Trouble = err.Error()
	}
	return out
}

// perPage is how many checks the history shows by default.
const perPage = 50

func (p *Pages) past(w http.ResponseWriter, r *http.Request) {
	q := history.Query{Cluster: r.FormValue("cluster"), Kind: r.FormValue("kind"), Limit: perPage}
	if text := r.FormValue("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			p.fail(w, r, http.StatusBadRequest,
				"limit: expected a number from 1 to 1000, not "+strconv.Quote(text))
			return
		}
		q.Limit = n
	}
	if q.Kind != "" && !slices.Contains(history.Kinds, q.Kind) {
		p.fail(w, r, http.StatusBadRequest, "kind: expected one of "+
			strings.Join(history.Kinds, ", ")+", not "+strconv.Quote(q.Kind))
		return
	}
	page := p.checks(q)
	page.Names = p.board.names()
	p.answer(w, r, http.StatusOK, "history.html", "History", 0, page, page)
}

func (p *Pages) check(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(strings.TrimSuffix(r.PathValue("id"), ".json"), 10, 64)
	if err != nil || id < 1 {
		p.fail(w, r, http.StatusNotFound, "The address does not end with the number of a check.")
		return
	}
	page := p.checks(history.Query{ID: id})
	title := "Check " + strconv.FormatInt(id, 10)
	switch {
	case page.Trouble != "":
		p.fail(w, r, http.StatusServiceUnavailable, page.Trouble)
	case len(page.Checks) == 0:
		p.fail(w, r, http.StatusNotFound,
			title+" is not in the history: it may have been removed for its age.")
	default:
		p.answer(w, r, http.StatusOK, "check.html", title, 0, page.Checks[0], page.Checks[0])
	}
}

// heartbeat keeps proxies from ending an idle stream.
const heartbeat = 20 * time.Second

// live streams the time of the last check, of one cluster or of all, and the version of the board,
// as server-sent events. A page loads again when the version is newer than its own.
func (p *Pages) live(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	cluster := r.FormValue("cluster")
	version, checked, changed := p.board.next(cluster)
	send := func(text string) bool {
		// A stream lasts longer than the server's write timeout.
		if err := out.SetWriteDeadline(time.Now().Add(heartbeat)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	tell := func() bool {
		at := "" // never
		if !checked.IsZero() {
			at = checked.UTC().Format(time.RFC3339)
		}
		raw, err := json.Marshal(map[string]any{
			"version": version, "checked": at, "now": time.Now().UTC().Format(time.RFC3339Nano),
		})
		return err == nil && send("event: board\ndata: "+string(raw)+"\n\n")
	}
	beat := time.NewTicker(heartbeat / 2)
	defer beat.Stop()
	for ok := send("retry: 2000\n\n") && tell(); ok; {
		select {
		case <-changed:
			version, checked, changed = p.board.next(cluster)
			ok = tell()
		case <-beat.C:
			ok = send(": still here\n\n")
		case <-p.ending:
			return
		case <-r.Context().Done():
			return
		}
	}
}
