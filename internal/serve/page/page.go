package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/history"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/silence"
)

// Options say what the pages show in addition to the board.
type Options struct {
	// History is the history's file, or "".
	History string
	// Version is this program's.
	Version string
	// Mode names a restriction of the keeper, such as "dry run"; "" means none. Nil means that
	// there is never one.
	Mode func() string
	// Keeper does what people request with buttons. Nil means that there are no buttons.
	Keeper Keeper
	// Actions allows the buttons that change something: sync and repair. On a dry run they only
	// preview.
	Actions, DryRun bool
	// Scenes are the titles of the scenes of a demo, and Play plays one of them, from 1, or all
	// with 0. Nil means that this is no demo.
	Scenes []string
	Play   func(scene int)
	// Silences are what people silenced and paused. Nil: nothing can be.
	Silences *silence.Store
	// Caller names who sends a request. Nil means that callers have no names.
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
	encoded  encoded
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

// document is the data that every template receives.
type document struct {
	Title   string
	Version string
	Mode    string
	Path    string // of the page
	JSON    string // the path of the same page as JSON
	Buttons bool   // show the button Check now
	Actions bool   // show the buttons Sync and Repair
	Silence bool   // show the links to silences and pauses
	Shown   uint64 // version of the board that the page shows, 0 if it shows something else
	Cluster string // the cluster that the page is about
	Page    any
}

// templates are parsed for the first page: most commands show none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
})

// answer writes a page, or its value if the request wants JSON.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request, status int, name, title string,
	shown uint64, value, page any) {
	var b bytes.Buffer
	if wantsJSON(r) {
		raw, err := inJSON(value)
		if err != nil {
			p.broken(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(raw) // the client may have gone
		return
	}
	d := document{
		Title: title, Version: p.opts.Version, Path: r.URL.Path, JSON: jsonPath(r),
		Buttons: p.opts.Keeper != nil, Actions: p.opts.Keeper != nil && p.opts.Actions &&
			(p.opts.MayAct == nil || p.opts.MayAct(r)),
		Shown: shown, Page: page, Mode: p.mode(),
	}
	d.Silence = d.Actions && p.opts.Silences != nil && !p.opts.DryRun
	if c, is := page.(clusterPage); is {
		d.Cluster = c.Name
	}
	if err := templates().ExecuteTemplate(&b, name, d); err != nil {
		p.broken(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, report.SafeText(b.String(), report.Style{}))
}

// inJSON encodes the value of a page.
func inJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(value)
	return report.SafeJSON(b.Bytes()), err
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

// jsonPath returns the path of a page as JSON.
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

// front is the content of the first page.
type front struct {
	Overview
	Scenes []string
	Told   told
	Drawn  []drawn
	List   *list // nil if all clusters are drawn
	Past   past
}

// drawn is a cluster with its drawings.
type drawn struct {
	Cluster
	Wide, Narrow drawing
	Tables       comparison
}

// state returns the state of all clusters.
func (p *Pages) state() Overview {
	o := p.board.overview()
	if until, paused := strings.CutPrefix(p.mode(), "paused "); paused {
		for i := range o.Clusters {
			o.Clusters[i].Paused = until
		}
	}
	if p.opts.Silences == nil {
		return o
	}
	for _, e := range p.opts.Silences.Current() {
		for i := range o.Clusters {
			if c := &o.Clusters[i]; e.Kind == silence.Pause && e.Cluster == c.Name {
				c.Paused = "until " + e.Until.UTC().Format(time.RFC3339)
			}
		}
	}
	return o
}

// front returns the state of all clusters, with the time to repair.
func (p *Pages) front() Overview {
	o := p.state()
	o.Repairs = p.checks(history.Query{Limit: 1}).Repairs
	return o
}

func (p *Pages) overview(w http.ResponseWriter, r *http.Request) {
	if wantsJSON(r) {
		p.overviewJSON(w, r)
		return
	}
	o := p.state()
	past := p.checks(history.Query{Limit: 8})
	o.Repairs = past.Repairs
	past.nameAuthors(o.Clusters)
	f := front{Overview: o, Told: tell(o.Findings, o.Clusters...), Past: past,
		Scenes: p.opts.Scenes}
	chosen := o.Clusters
	if o.Checked.IsZero() { // nothing is known of them
		chosen = nil
	}
	if len(chosen) > large {
		listed := o.Clusters
		if o.Outage() {
			listed = slices.Clone(listed)
			for i, c := range listed {
				listed[i] = c.lastKnown()
			}
		}
		l := selected(listed, readListQuery(r))
		f.List, f.Told, chosen = &l, tell(l.about(o.Findings), o.Clusters...), nil
		if !l.Query.Narrow() && len(l.Shown) > 0 && l.Page == 1 &&
			!o.Outage() && (l.Shown[0].State == Bad || l.Shown[0].State == Busy) {
			chosen = l.Shown[:1]
		}
	}
	for _, c := range chosen {
		f.Drawn = append(f.Drawn, draw(c, false))
	}
	title := ""
	if n := o.Counts.Broken; n > 0 {
		title = strconv.Itoa(n) + " broken"
	} else if n := o.Counts.Unseen; n > 0 && !o.Checked.IsZero() {
		title = strconv.Itoa(n) + " not read"
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

// Drawn and History are for the page. The JSON has other fields instead.
func (c clusterPage) Drawn() drawn  { return c.drawn }
func (c clusterPage) Told() told    { return tell(c.Findings, c.Cluster) }
func (c clusterPage) History() past { return c.history }

func (p *Pages) cluster(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(r.PathValue("name"), ".json") // no cluster's name has a dot
	o := p.state()
	for _, c := range o.Clusters {
		if c.Name != name {
			continue
		}
		past := p.checks(history.Query{Cluster: name, Limit: 20})
		past.Checks = only(past.Checks, name)
		one := []Cluster{c}
		past.nameAuthors(one)
		c = one[0]
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
			// A cluster may be overdue, or a check may end at this moment.
			before, then := version, checked
			version, checked, changed = p.board.next(cluster)
			ok = send(": still here\n\n")
			if ok && (version != before || !checked.Equal(then)) {
				ok = tell()
			}
		case <-p.ending:
			return
		case <-r.Context().Done():
			return
		}
	}
}
