package page

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/silence"
)

// Silences and pauses of clusters. How it works: /actions/silence shows what can be silenced or
// paused, and what is silenced or paused now. Its forms add and end entries of the store. Then the
// keeper checks, which shows the result on all pages.

// mostSilent is how many findings the page offers. If there are more, it shows those of one
// cluster.
const mostSilent = 200

// lengths are the times to choose from.
var lengths = []struct {
	Text  string
	Value time.Duration
}{
	{"1 hour", time.Hour}, {"8 hours", 8 * time.Hour}, {"1 day", 24 * time.Hour},
	{"3 days", 72 * time.Hour}, {"7 days", silence.Longest},
}

// silent is the page of silences and pauses.
type silent struct {
	Cluster string          `json:"cluster,omitempty"`
	Entries []silence.Entry `json:"entries"` // what is silenced and paused

	Open   []offer  `json:"-"` // what can be silenced
	More   int      `json:"-"` // how many do not fit
	Names  []string `json:"-"`
	Paused bool     `json:"-"` // the cluster is paused
	Of     *Cluster `json:"-"` // the chosen cluster, nil if there is none
}

// offer is a finding that can be silenced.
type offer struct {
	ID string
	finding.Finding
}

// Lengths returns the choices of the form.
func (silent) Lengths() any { return lengths }

func (p *Pages) routeSilences(protect func(http.Handler) http.Handler) {
	if p.opts.Silences == nil || p.opts.DryRun {
		return
	}
	for _, path := range []string{"silence", "silence.json"} {
		p.mux.HandleFunc("GET /actions/"+path, p.silences)
	}
	for path, act := range map[string]http.HandlerFunc{
		"silence": p.addSilence, "pause": p.pauseCluster, "silence/end": p.endSilence,
	} {
		p.mux.Handle("POST /actions/"+path, protect(act))
	}
}

// idOf identifies a finding in a form.
func idOf(f finding.Finding) string {
	sum := sha256.Sum256([]byte(f.Key()))
	return hex.EncodeToString(sum[:12])
}

// silences shows what can be silenced or paused, and what is.
func (p *Pages) silences(w http.ResponseWriter, r *http.Request) {
	page := silent{Cluster: r.FormValue("cluster"), Names: p.board.names(),
		Entries: p.opts.Silences.Current()}
	if page.Entries == nil {
		page.Entries = []silence.Entry{}
	}
	for _, e := range page.Entries {
		page.Paused = page.Paused || e.Kind == silence.Pause && e.Cluster == page.Cluster
	}
	o := p.board.overview()
	if i := slices.IndexFunc(o.Clusters, func(c Cluster) bool {
		return c.Name == page.Cluster
	}); i >= 0 {
		page.Of = &o.Clusters[i]
	}
	for _, f := range o.Findings {
		if f.Silenced != nil || f.Severity == finding.Info || silence.Can(f) != nil ||
			page.Cluster != "" && f.Cluster != page.Cluster {
			continue
		}
		if len(page.Open) == mostSilent {
			page.More++
			continue
		}
		page.Open = append(page.Open, offer{idOf(f), f})
	}
	p.answer(w, r, http.StatusOK, "silence.html", "Silence and pause", 0, page, page)
}

// signed returns an entry with the values of a form, and who sent the form from where.
func (p *Pages) signed(r *http.Request, e silence.Entry) silence.Entry {
	length, _ := time.ParseDuration(r.FormValue("for")) // Add refuses 0
	e.Reason, e.By, e.Until = r.FormValue("reason"), p.caller(r), time.Now().Add(length)
	e.From = origin(r)
	return e
}

// origin says from where a form was sent.
func origin(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return "the page, " + host
	}
	return "the page"
}

// addSilence silences the chosen findings.
func (p *Pages) addSilence(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.fail(w, r, http.StatusBadRequest, "The form could not be read.")
		return
	}
	var entries []silence.Entry
	for _, f := range p.board.overview().Findings {
		if slices.Contains(r.PostForm["finding"], idOf(f)) && silence.Can(f) == nil {
			entries = append(entries, p.signed(r, silence.Of(f)))
		}
	}
	if len(entries) == 0 {
		p.fail(w, r, http.StatusBadRequest,
			"Nothing was silenced: choose at least one finding that is still open.")
		return
	}
	p.addEntries(w, r, "silence", entries...)
}

// pauseCluster stops the writes for one cluster.
func (p *Pages) pauseCluster(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("cluster")
	if !slices.Contains(p.board.names(), name) {
		p.fail(w, r, http.StatusBadRequest, "No managed cluster has the name "+name+".")
		return
	}
	p.addEntries(w, r, "pause", p.signed(r, silence.Entry{Kind: silence.Pause, Cluster: name}))
}

// addEntries adds entries to the store, and checks.
func (p *Pages) addEntries(w http.ResponseWriter, r *http.Request, what string,
	entries ...silence.Entry) {
	p.audit(r, what, nil)
	if err := p.opts.Silences.Add(entries...); err != nil {
		p.fail(w, r, http.StatusBadRequest, report.UpperFirst(err.Error())+".")
		return
	}
	p.checkAndRedirect(w, r)
}

// endSilence ends a silence or a pause.
func (p *Pages) endSilence(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.FormValue("id"))
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, "id: expected a number.")
		return
	}
	p.audit(r, "end silence", nil)
	if _, err := p.opts.Silences.End(p.caller(r), origin(r), func(e silence.Entry) bool {
		return e.ID == id
	}); err != nil {
		p.fail(w, r, http.StatusServiceUnavailable, report.UpperFirst(err.Error())+".")
		return
	}
	p.checkAndRedirect(w, r)
}

// checkAndRedirect makes the keeper check without changes, so that all pages show the decision.
// Then it redirects to the page of silences.
func (p *Pages) checkAndRedirect(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.requestCheck(w, r, nil, nil); !ok {
		return
	}
	back := "/actions/silence"
	if name := r.FormValue("cluster"); name != "" {
		back += "?cluster=" + url.QueryEscape(name)
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}
