package page

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/history"
)

// past is a list of checks from the history.
type past struct {
	Checks  []history.Entry `json:"checks"`
	Cluster string          `json:"cluster,omitempty"`
	Kind    string          `json:"kind,omitempty"`
	On      bool            `json:"-"`                 // the keeper has a history
	Trouble string          `json:"trouble,omitempty"` // why the history could not be read
	Limit   int             `json:"-"`
	Names   []string        `json:"-"` // of all clusters
	Since   string          `json:"since,omitempty"`
	// Repairs sums up the time to repair of the cluster, or of all; nil without a history.
	Repairs *history.Repairs `json:"repairs,omitempty"`

	authors map[string]history.Author
}

// nameAuthors sets ChangedBy of the clusters that are not fine. It names an author who was noticed
// since the cluster got its state, or shortly before.
func (p past) nameAuthors(clusters []Cluster) {
	for i := range clusters {
		c := &clusters[i]
		if who, known := p.authors[c.Name]; known && c.State != Good &&
			!who.Noticed.Before(c.Since.Add(-noticedWithin)) {
			c.ChangedBy = who.Name + " at " + who.At.UTC().Format("2006-01-02 15:04:05 UTC")
		}
	}
}

// noticedWithin is how long before a state begins its cause may be noticed: a check plans first,
// and judges at its end.
const noticedWithin = time.Minute

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

// Kinds returns the kinds of checks to filter by.
func (past) Kinds() []string { return history.Kinds }

// Ages returns the ages to filter by.
func (past) Ages() []string {
	return slices.SortedFunc(maps.Keys(ages), func(a, b string) int {
		return cmp.Compare(ages[a], ages[b])
	})
}

var ages = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour,
	"7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour}

// Unknown reports whether no managed cluster has the name that was asked for.
func (p past) Unknown() bool {
	return p.Cluster != "" && p.Names != nil && !slices.Contains(p.Names, p.Cluster)
}

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
	if err == nil && q.ID == 0 {
		var sum history.Repairs
		sum, err = reader.Repairs(q.Cluster, time.Now())
		out.Repairs = &sum
	}
	if err == nil && q.ID == 0 {
		out.authors, err = reader.Authors()
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
	since := r.FormValue("since")
	if age, known := ages[since]; known {
		q.Since = time.Now().Add(-age)
	} else if since != "" {
		p.fail(w, r, http.StatusBadRequest, "since: expected one of "+
			strings.Join(past{}.Ages(), ", ")+", not "+strconv.Quote(since))
		return
	}
	page := p.checks(q)
	page.Names, page.Since = p.board.names(), since
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
