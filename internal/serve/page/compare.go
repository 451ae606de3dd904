package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/picture"
	"routekeeper.dev/routekeeper/internal/plan"
)

// comparison is a cluster's tables side by side: a row for each destination, a column for each
// table.
type comparison struct {
	Tables []picture.Table
	Rows   []row // the cluster's pod routes
	Hidden hidden
	Others []row // unmanaged routes
	Select *rowSelection
}

// manyRows is the number of rows from which a cluster's page shows only what is wrong. rowsPerPage
// is how many rows a page then shows.
const manyRows, rowsPerPage = 24, 50

// rowSelection is which of many rows are shown.
type rowSelection struct {
	Text       string // part of a node's name or of a destination
	Everything bool   // also what works
	pager
	Found         int // rows that match, on all pages
	Total, Broken int
}

// With returns the address of a page of the rows.
func (s rowSelection) With(page int) string {
	v := url.Values{"page": {strconv.Itoa(page)}}
	if s.Text != "" {
		v.Set("q", s.Text)
	}
	if s.Everything {
		v.Set("rows", "all")
	}
	return "?" + v.Encode()
}

// selected returns the comparison with the rows that a request asks for. If there are many, it
// returns the wrong ones, page by page.
func (c comparison) selected(r *http.Request) comparison {
	if len(c.Rows) <= manyRows {
		return c
	}
	page, _ := strconv.Atoi(r.FormValue("page"))
	s := &rowSelection{Text: strings.TrimSpace(r.FormValue("q")),
		Everything: r.FormValue("rows") == "all", Total: len(c.Rows)}
	var fit []row
	for _, row := range c.Rows {
		if row.broken() {
			s.Broken++
		} else if !s.Everything {
			continue
		}
		if strings.Contains(strings.ToLower(row.Node+" "+row.Destination),
			strings.ToLower(s.Text)) {
			fit = append(fit, row)
		}
	}
	s.Found = len(fit)
	s.Pages = max(1, (len(fit)+rowsPerPage-1)/rowsPerPage)
	s.Page, s.address = min(max(1, page), s.Pages), s.With
	first := (s.Page - 1) * rowsPerPage
	c.Rows, c.Select = fit[first:min(first+rowsPerPage, len(fit))], s
	return c
}

// hidden counts the rows that are left out, and how many of them do not work.
type hidden struct{ Rows, Broken int }

// String returns the line below the rows that are shown, such as "and 3 more, all working".
func (h hidden) String() string {
	switch h.Broken {
	case 0:
		return fmt.Sprintf("and %d more, all working", h.Rows)
	case h.Rows:
		return fmt.Sprintf("and %d more, none working", h.Rows)
	}
	return fmt.Sprintf("and %d more, %d of them not working", h.Rows, h.Broken)
}

func (h *hidden) add(r row) {
	h.Rows++
	if r.broken() {
		h.Broken++
	}
}

// row is one destination in all tables.
type row struct {
	Destination, Node string
	State             string // the worst of its cells
	Cells             []picture.Route
}

// broken reports whether a route of the row does not work.
func (r row) broken() bool {
	switch r.State {
	case picture.Works, picture.Leftover, picture.Kept, picture.Unmanaged, none:
		return false
	}
	return true
}

// The states of a cell without a route.
const (
	none   = "none"   // the table has no such route and needs none
	unread = "unread" // the table was not read
)

// routeStates orders the states of a row, the worst last.
var routeStates = []string{
	none, picture.Unmanaged, picture.Leftover, picture.Kept, picture.Works, picture.Unknown,
	severed, picture.Idle, picture.Stale, picture.Missing, picture.Wrong,
}

// compare puts tables side by side, differences first. It shows at most the given number of rows,
// or three times as many if that many do not work; 0 shows all.
func compare(tables []picture.Table, most int) comparison {
	c := comparison{Tables: tables}
	pods, others := map[string]*row{}, map[string]*row{}
	for i, t := range tables {
		for _, r := range t.Routes {
			rows := pods
			if r.State == picture.Unmanaged {
				rows = others
			}
			// A table holds each destination once, except for service tags and for prefixes that
			// are written in two ways.
			at := rows[r.Destination]
			if at == nil {
				at = &row{Destination: r.Destination, Cells: make([]picture.Route, len(tables)),
					State: none}
				for j := range at.Cells {
					at.Cells[j].State = none
					if tables[j].Unread != "" {
						at.Cells[j].State = unread
					}
				}
				rows[r.Destination] = at
			}
			at.Cells[i] = r
			at.Node = cmp.Or(at.Node, r.Node)
			if slices.Index(routeStates, r.State) > slices.Index(routeStates, at.State) {
				at.State = r.State
			}
		}
	}
	c.Rows, c.Others = inOrder(pods), inOrder(others)
	if most > 0 && len(c.Rows) > most {
		broken := 0
		for broken < len(c.Rows) && c.Rows[broken].State != picture.Works {
			broken++
		}
		keep := max(most, min(broken, 3*most))
		for _, r := range c.Rows[keep:] {
			c.Hidden.add(r)
		}
		c.Rows = c.Rows[:keep]
	}
	return c
}

func inOrder(rows map[string]*row) []row {
	out := make([]row, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int {
		return cmp.Or(boolean(a.State == picture.Works)-boolean(b.State == picture.Works),
			plan.CompareDestinations(a.Destination, b.Destination))
	})
	return out
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
