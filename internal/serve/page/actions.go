package page

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// Keeper is asked for rounds.
type Keeper interface {
	Ask(context.Context, keeper.Request) (keeper.Round, error)
}

// action is what a person can have done.
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
	// A page of another site must not press a button here: browsers say where a request comes from, and this refuses it.
	ours := http.NewCrossOriginProtection()
	deny := func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusForbidden, "This was asked for by a page of another site.")
	}
	ours.SetDenyHandler(http.HandlerFunc(deny))
	p.mux.Handle("POST /actions/look", ours.Handler(http.HandlerFunc(p.look)))
	if !p.opts.Actions {
		return
	}
	for _, a := range actions {
		for _, path := range []string{a.Name, a.Name + ".json"} {
			p.mux.HandleFunc("GET /actions/"+path, func(w http.ResponseWriter, r *http.Request) {
				if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" { // it changes nothing, but has the keeper look
					deny(w, r)
					return
				}
				p.preview(w, r, a)
			})
		}
		p.mux.Handle("POST /actions/"+a.Name, ours.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.act(w, r, a) })))
	}
}

// answerWithin is how long a person waits for a round that was asked for: less than answers may take (package serve).
const answerWithin = 25 * time.Second

// ask has the keeper make a round. It reports whether there is one, and has answered otherwise.
func (p *Pages) ask(w http.ResponseWriter, r *http.Request, verbs []plan.Verb) (keeper.Round, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	request := keeper.Request{Cluster: r.FormValue("cluster"), Verbs: verbs, By: "the page"}
	if p.opts.Caller != nil {
		request.By = p.opts.Caller(r)
	}
	round, err := p.opts.Keeper.Ask(ctx, request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		p.fail(w, r, http.StatusGatewayTimeout, "The look is not over yet: it goes on, and the overview will show what it found.")
		return round, false
	case err != nil:
		p.fail(w, r, http.StatusServiceUnavailable, err.Error())
		return round, false
	}
	return round, true
}

// look has the keeper look at once, and do what it would do at the end of the interval.
func (p *Pages) look(w http.ResponseWriter, r *http.Request) {
	var verbs []plan.Verb
	if p.mode() == "" {
		for _, a := range actions {
			verbs = append(verbs, a.verbs...)
		}
	}
	if _, ok := p.ask(w, r, verbs); !ok {
		return
	}
	back := "/"
	if name := r.FormValue("cluster"); name != "" {
		back = "/clusters/" + url.PathEscape(name)
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// proposal is what an action would do, or has done.
type proposal struct {
	Action  string         `json:"action"`
	Cluster string         `json:"cluster"`
	Changes []plan.Outcome `json:"changes"`
	Done    bool           `json:"done"`
	// Confirm is to be sent back, as is, to have these changes made.
	Confirm string `json:"confirm,omitempty"`
	Note    string `json:"note,omitempty"`
	Title   string `json:"-"`
}

// preview looks, and shows what an action would do.
func (p *Pages) preview(w http.ResponseWriter, r *http.Request, a action) {
	if round, ok := p.ask(w, r, nil); ok {
		p.show(w, r, a, chosen(round, a), "")
	}
}

// show shows what an action would do.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, a action, changes []plan.Outcome, note string) {
	page := proposal{Action: a.Name, Cluster: r.FormValue("cluster"), Changes: changes, Title: a.Title, Note: note}
	if len(changes) > 0 {
		page.Confirm = p.seal(a, page.Cluster, changes, time.Now().Add(confirmWithin))
	}
	p.answer(w, r, http.StatusOK, "action.html", a.Title, 0, page, page)
}

// act does what was shown, and nothing else: where something else would be done now, that is shown instead.
func (p *Pages) act(w http.ResponseWriter, r *http.Request, a action) {
	now, ok := p.ask(w, r, nil)
	if !ok {
		return
	}
	changes := chosen(now, a)
	cluster := r.FormValue("cluster")
	if !p.confirmed(r.FormValue("confirm"), a, cluster, changes) {
		p.show(w, r, a, changes, "Nothing was done: what would be done is not what was shown, or that was some time ago. This is what would be done now.")
		return
	}
	round, ok := p.ask(w, r, a.verbs)
	if !ok {
		return
	}
	page := proposal{Action: a.Name, Cluster: cluster, Done: true, Title: a.Title}
	page.Changes = chosen(round, a)
	p.answer(w, r, http.StatusOK, "action.html", a.Title, 0, page, page)
}

// chosen are the changes of a round that an action makes.
func chosen(round keeper.Round, a action) []plan.Outcome {
	changes := []plan.Outcome{}
	for _, c := range round.Changes {
		if slices.Contains(a.verbs, c.Verb) {
			changes = append(changes, c)
		}
	}
	return changes
}

// confirmWithin is for how long a preview can be confirmed.
const confirmWithin = 10 * time.Minute

func newKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	return key
}

// seal says in a word, which nobody else can make, that these changes were shown.
func (p *Pages) seal(a action, cluster string, changes []plan.Outcome, until time.Time) string {
	stamp := until.UTC().Format(time.RFC3339)
	return stamp + "." + base64.RawURLEncoding.EncodeToString(p.sum(a, cluster, changes, stamp))
}

func (p *Pages) sum(a action, cluster string, changes []plan.Outcome, stamp string) []byte {
	made := make([]plan.Change, len(changes))
	for i, c := range changes {
		made[i] = c.Change
	}
	raw, err := json.Marshal([]any{a.Name, cluster, stamp, made})
	if err != nil {
		panic(err) // plain structs
	}
	h := hmac.New(sha256.New, p.key)
	h.Write(raw)
	return h.Sum(nil)
}

// confirmed reports whether a seal is of these changes, and not too old.
func (p *Pages) confirmed(seal string, a action, cluster string, changes []plan.Outcome) bool {
	stamp, rest, found := strings.Cut(seal, ".")
	sum, err := base64.RawURLEncoding.DecodeString(rest)
	until, wrong := time.Parse(time.RFC3339, stamp)
	return found && err == nil && wrong == nil && time.Now().Before(until) && hmac.Equal(sum, p.sum(a, cluster, changes, stamp))
}
