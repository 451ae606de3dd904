package page

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Keeper checks clusters on request.
type Keeper interface {
	Ask(context.Context, keeper.Request) (keeper.Result, error)
}

// action is a button that changes something.
type action struct {
	Name  string
	Title string
	verbs []plan.Verb
}

var actions = []action{
	{"sync", "Sync pod routes", []plan.Verb{plan.Create, plan.Update, plan.Delete}},
	{"repair", "Repair associations", []plan.Verb{plan.Associate}},
}

func (p *Pages) routeActions() {
	// A page of another site must not be able to press a button here. Browsers say which site a
	// request comes from; requests from other sites are refused.
	ours := http.NewCrossOriginProtection()
	deny := func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusForbidden,
			"Refused: the request comes from a page of another site.")
	}
	ours.SetDenyHandler(http.HandlerFunc(deny))
	p.mux.Handle("POST /actions/look", ours.Handler(http.HandlerFunc(p.checkNow)))
	if p.opts.Play != nil {
		p.mux.Handle("POST /demo/play", ours.Handler(http.HandlerFunc(p.play)))
	}
	if !p.opts.Actions {
		return
	}
	p.routeSilences(ours.Handler)
	for _, a := range actions {
		for _, path := range []string{a.Name, a.Name + ".json"} {
			p.mux.HandleFunc("GET /actions/"+path, func(w http.ResponseWriter, r *http.Request) {
				// A preview changes nothing, but it starts a check.
				if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" ||
					site == "same-site" {
					deny(w, r)
					return
				}
				p.preview(w, r, a)
			})
		}
		act := func(w http.ResponseWriter, r *http.Request) { p.act(w, r, a) }
		p.mux.Handle("POST /actions/"+a.Name, ours.Handler(http.HandlerFunc(act)))
	}
}

// play plays a scene of the demo, or all of them.
func (p *Pages) play(w http.ResponseWriter, r *http.Request) {
	scene, err := strconv.Atoi(r.FormValue("scene"))
	if err != nil || scene < 0 || scene > len(p.opts.Scenes) {
		p.fail(w, r, http.StatusBadRequest, "scene: expected a number from 0 to "+
			strconv.Itoa(len(p.opts.Scenes)))
		return
	}
	p.opts.Play(scene)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// answerWithin is how long a person waits for a requested check. It is less than the server's write
// timeout (package serve).
const answerWithin = 25 * time.Second

// caller returns the name of who sends a request.
func (p *Pages) caller(r *http.Request) string {
	if p.opts.Caller == nil {
		return "the page"
	}
	return p.opts.Caller(r)
}

// audit logs what a person does: who, what, from where. Every act has one line, before it begins.
func (p *Pages) audit(r *http.Request, what string, changes []plan.Change) {
	p.opts.Log.Info("a person acts", "who", p.caller(r), "from", r.RemoteAddr, "action", what,
		"cluster", r.FormValue("cluster"), "changes", len(changes))
}

// requestCheck requests a check from the keeper, with the given kinds of changes. If only is not
// nil, it limits them to the given changes. If that fails, it answers with the error and returns
// false.
func (p *Pages) requestCheck(w http.ResponseWriter, r *http.Request, verbs []plan.Verb,
	only []plan.Change) (keeper.Result, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	request := keeper.Request{Cluster: r.FormValue("cluster"), Verbs: verbs, Only: only,
		By: p.caller(r)}
	result, err := p.opts.Keeper.Ask(ctx, request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		p.fail(w, r, http.StatusGatewayTimeout,
			"The check takes longer than expected. It continues, and the overview will show the "+
				"result.")
		return result, false
	case err != nil:
		p.fail(w, r, http.StatusServiceUnavailable, err.Error())
		return result, false
	}
	return result, true
}

// checkNow requests a check now, which makes the changes that a scheduled check would make.
func (p *Pages) checkNow(w http.ResponseWriter, r *http.Request) {
	var verbs []plan.Verb
	if p.mode() == "" {
		for _, a := range actions {
			verbs = append(verbs, a.verbs...)
		}
	}
	p.audit(r, "check now", nil)
	if _, ok := p.requestCheck(w, r, verbs, nil); !ok {
		return
	}
	back := "/"
	if name := r.FormValue("cluster"); name != "" {
		back = "/clusters/" + url.PathEscape(name)
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// proposal is what an action would do, or did.
type proposal struct {
	Action  string         `json:"action"`
	Cluster string         `json:"cluster"`
	Changes []plan.Outcome `json:"changes"`
	Done    bool           `json:"done"`
	// Confirm makes these changes when it is sent back unchanged.
	Confirm string `json:"confirm,omitempty"`
	Note    string `json:"note,omitempty"`
	Title   string `json:"-"`
	DryRun  bool   `json:"-"` // it cannot be confirmed
	Would   string `json:"-"` // what it would do if the config did not say Observe
}

// dryRunNote says why a preview cannot be confirmed.
const dryRunNote = "This keeper runs with --dry-run: it changes nothing."

// preview requests a check without changes, and shows what an action would do.
func (p *Pages) preview(w http.ResponseWriter, r *http.Request, a action) {
	if result, ok := p.requestCheck(w, r, nil, nil); ok {
		p.show(w, r, a, result, "")
	}
}

// show shows what an action would do.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, a action, result keeper.Result,
	note string) {
	changes := chosen(result.Changes, a.of)
	page := proposal{Action: a.Name, Cluster: r.FormValue("cluster"), Changes: changes,
		Title: a.Title, Note: note, DryRun: p.opts.DryRun,
		Would: would(chosen(result.OnlyObserved, a.of))}
	switch {
	case len(changes) == 0:
	case p.opts.DryRun:
		page.Note = dryRunNote
	default:
		page.Confirm = p.previews.add(preview{a.Name, page.Cluster, p.caller(r),
			changesOf(changes)})
	}
	p.answer(w, r, http.StatusOK, "action.html", a.Title, 0, page, page)
}

// act makes the changes that the preview showed, and no others. If other changes are needed now, it
// shows these instead.
func (p *Pages) act(w http.ResponseWriter, r *http.Request, a action) {
	now, ok := p.requestCheck(w, r, nil, nil)
	if !ok {
		return
	}
	if p.opts.DryRun {
		p.show(w, r, a, now, "")
		return
	}
	cluster := r.FormValue("cluster")
	shown := preview{a.Name, cluster, p.caller(r), changesOf(chosen(now.Changes, a.of))}
	if !p.previews.take(r.FormValue("confirm"), shown) {
		p.show(w, r, a, now, "Nothing was changed: the preview was out of date. "+
			"Below are the changes that are needed now.")
		return
	}
	p.audit(r, a.Name, shown.changes)
	result, ok := p.requestCheck(w, r, a.verbs, shown.changes)
	if !ok {
		return
	}
	page := proposal{Action: a.Name, Cluster: cluster, Done: true, Title: a.Title}
	page.Changes = chosen(result.Changes, a.of)
	p.answer(w, r, http.StatusOK, "action.html", a.Title, 0, page, page)
}

// of reports whether a change belongs to the action.
func (a action) of(c plan.Outcome) bool { return slices.Contains(a.verbs, c.Verb) }

// chosen returns the changes that fit.
func chosen(changes []plan.Outcome, fits func(plan.Outcome) bool) []plan.Outcome {
	of := []plan.Outcome{}
	for _, c := range changes {
		if fits(c) {
			of = append(of, c)
		}
	}
	return of
}
