package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/picture"
)

// onePage is how many clusters a page of the list shows.
const onePage = 40

// foldFrom is the number of healthy clusters from which they share one line.
const foldFrom = 5

// list is the first page's view of many clusters: the ones that a person asked for, the worst
// first.
type list struct {
	Shown []Cluster
	Found int    // how many match, on all pages
	Fine  string // how many healthy ones share a line, or ""
	All   string // how many there are
	Query listQuery

	Subscriptions []string
	Regions       []string
	Codes         []finding.Code
	Badges        []badge
	Counts        Counts // of all, as the list shows them
	pager
	found []Cluster
}

// badge counts the clusters with a badge.
type badge struct {
	Name string
	N    int
}

// The badges of a cluster.
const (
	badgeStopped     = "stopped"
	badgeMigrating   = "migrating"
	badgeUnreachable = "unreachable"
	badgePaused      = "paused"
)

// Badges returns the special conditions of a cluster, in any state.
func (c Cluster) Badges() (names []string) {
	if c.Stopped {
		names = append(names, badgeStopped)
	}
	if c.Migrating {
		names = append(names, badgeMigrating)
	}
	if !c.old && (c.Unread != "" || c.networkUnread() ||
		slices.ContainsFunc(c.Findings, func(f finding.Finding) bool {
			return f.Code == finding.AzureUnreachable
		})) {
		names = append(names, badgeUnreachable)
	}
	if c.Paused != "" {
		names = append(names, badgePaused)
	}
	return names
}

// networkUnread reports whether no subnet and no route table of the cluster could be read.
func (c Cluster) networkUnread() bool {
	return len(c.Subnets)+len(c.Tables) > 0 &&
		!slices.ContainsFunc(c.Subnets, func(s picture.Subnet) bool { return s.Unread == "" }) &&
		!slices.ContainsFunc(c.Tables, func(t picture.Table) bool { return t.Unread == "" })
}

// listQuery is the selection that a person made, as in the address of the page.
type listQuery struct {
	Text         string // part of a cluster's name
	State        string // one of the states or badges; "" for all
	Subscription string
	Region       string
	Code         string // of a finding
	Sort         string // sortHarm, sortName, sortNodes or sortSince
	Page         int    // counts from 1
}

// The orders of the list.
const (
	sortHarm  = "harm"
	sortName  = "name"
	sortNodes = "nodes"
	sortSince = "since" // recently changed clusters come first
)

func readListQuery(r *http.Request) listQuery {
	page, _ := strconv.Atoi(r.FormValue("page"))
	return listQuery{Text: strings.TrimSpace(r.FormValue("q")), State: r.FormValue("state"),
		Subscription: r.FormValue("subscription"), Region: r.FormValue("region"),
		Code: r.FormValue("finding"), Sort: cmp.Or(r.FormValue("sort"), sortHarm), Page: max(1,
			page)}
}

// Narrow reports whether the query leaves out clusters.
func (q listQuery) Narrow() bool {
	return q.Text != "" || q.State != "" || q.Subscription != "" || q.Region != "" || q.Code != ""
}

func (q listQuery) fits(c Cluster) bool {
	return (q.Text == "" || strings.Contains(strings.ToLower(c.Name), strings.ToLower(q.Text))) &&
		(q.State == "" || q.State == c.State || slices.Contains(c.Badges(), q.State)) &&
		(q.Subscription == "" || strings.EqualFold(q.Subscription, c.ID.Subscription())) &&
		(q.Region == "" || q.Region == c.Region) &&
		(q.Code == "" || slices.ContainsFunc(c.Findings, func(f finding.Finding) bool {
			return string(f.Code) == q.Code
		}))
}

// With returns the address of the list with one value changed. Another selection begins with its
// first page.
func (q listQuery) With(name, value string) string {
	v := url.Values{}
	for key, text := range map[string]string{"q": q.Text, "state": q.State,
		"subscription": q.Subscription, "region": q.Region, "finding": q.Code, "sort": q.Sort} {
		if text != "" && text != sortHarm {
			v.Set(key, text)
		}
	}
	v.Set(name, value)
	if value == "" || name == "page" && value == "1" || name == "sort" && value == sortHarm {
		v.Del(name)
	}
	if len(v) == 0 {
		return "/"
	}
	return "/?" + v.Encode()
}

// selected returns the clusters that fit a query, on its page.
func selected(clusters []Cluster, q listQuery) list {
	l := list{All: managed(clusters), Query: q}
	codes := map[finding.Code]bool{}
	var fit []Cluster
	for _, c := range clusters {
		l.Counts.add(c.State)
		for _, f := range c.Findings {
			codes[f.Code] = true
		}
		sub := c.ID.Subscription()
		if sub != "" && !slices.Contains(l.Subscriptions, sub) {
			l.Subscriptions = append(l.Subscriptions, sub)
		}
		if c.Region != "" && !slices.Contains(l.Regions, c.Region) {
			l.Regions = append(l.Regions, c.Region)
		}
		for _, name := range c.Badges() {
			i := slices.IndexFunc(l.Badges, func(b badge) bool { return b.Name == name })
			if i < 0 {
				l.Badges = append(l.Badges, badge{Name: name})
				i = len(l.Badges) - 1
			}
			l.Badges[i].N++
		}
		if q.fits(c) {
			fit = append(fit, c)
		}
	}
	for code := range codes {
		l.Codes = append(l.Codes, code)
	}
	slices.Sort(l.Codes)
	slices.Sort(l.Subscriptions)
	slices.Sort(l.Regions)
	slices.SortFunc(l.Badges, func(a, b badge) int { return cmp.Compare(a.Name, b.Name) })
	switch q.Sort {
	case sortName:
		slices.SortStableFunc(fit, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	case sortNodes:
		slices.SortStableFunc(fit, func(a, b Cluster) int { return cmp.Compare(b.Nodes, a.Nodes) })
	case sortSince:
		slices.SortStableFunc(fit, func(a, b Cluster) int { return b.Since.Compare(a.Since) })
	default:
		fit = worstFirst(fit)
	}
	l.Found, l.found = len(fit), fit
	if !q.Narrow() && q.Sort == sortHarm {
		wrong := slices.IndexFunc(fit, func(c Cluster) bool { return c.State == Good })
		if wrong >= 0 && len(fit)-wrong >= foldFrom {
			l.Fine, fit = managed(fit[wrong:]), fit[:wrong]
		}
	}
	l.Pages = max(1, (len(fit)+onePage-1)/onePage)
	l.Page = min(q.Page, l.Pages)
	l.address = func(page int) string { return q.With("page", strconv.Itoa(page)) }
	first := (l.Page - 1) * onePage
	l.Shown = fit[first:min(first+onePage, len(fit))]
	return l
}

// about returns the findings of the matching clusters, and findings of no cluster.
func (l list) about(all []finding.Finding) []finding.Finding {
	names := map[string]bool{"": true}
	for _, c := range l.found {
		names[c.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool {
		return !names[f.Cluster]
	})
}

// pager is a page of a long list: its number, from 1, the number of pages, and the addresses of the
// others.
type pager struct {
	Page, Pages int
	address     func(page int) string
}

// Before and After are the addresses of the neighbouring pages, "" if there is none.
func (p pager) Before() string {
	if p.Page == 1 {
		return ""
	}
	return p.address(p.Page - 1)
}

func (p pager) After() string {
	if p.Page == p.Pages {
		return ""
	}
	return p.address(p.Page + 1)
}

// group is the findings of one code.
type group struct {
	Code     finding.Code
	Severity finding.Severity
	Of       []finding.Finding
	networks map[string]bool // the names of what has no cluster
}

// Title returns the code's title.
func (g group) Title() string { return finding.Describe(g.Code).Title }

// names returns the names of the clusters and networks that have the finding.
func (g group) names() map[string]bool {
	names := map[string]bool{}
	for _, f := range g.Of {
		if f.Cluster != "" {
			names[f.Cluster] = true
		}
	}
	return names
}

// On says how many clusters and networks have findings of the group. It is "" if the findings name
// none.
func (g group) On() string {
	names, networks := g.names(), 0
	for name := range names {
		if g.networks[name] {
			networks++
		}
	}
	if len(names) == 0 {
		return ""
	}
	return finding.Managed(len(names), networks)
}

// Only returns the cluster that has all findings of the group, or "" if several have them or none.
func (g group) Only() string {
	if len(g.names()) != 1 || slices.ContainsFunc(g.Of, func(f finding.Finding) bool {
		return f.Cluster == ""
	}) {
		return ""
	}
	return g.Of[0].Cluster
}

// groupsFrom is the number of findings of one code from which they are shown as one.
const groupsFrom = 3

// told is how findings are shown: errors and warnings by code, and notes separately.
type told struct {
	Groups []group
	Notes  []group
	// Silenced are the findings that a person silenced: in no group, and not counted.
	Silenced []finding.Finding
	N        int // of findings, notes included
}

// tell groups the findings of clusters and networks by code, in the order of the first of each.
func tell(findings []finding.Finding, of ...Cluster) told {
	networks := map[string]bool{}
	for _, c := range of {
		networks[c.Name] = c.Plugin == inventory.NoCluster
	}
	t := told{}
	count := map[finding.Code]int{}
	for _, f := range findings {
		if f.Silenced != nil {
			t.Silenced = append(t.Silenced, f)
			continue
		}
		t.N++
		count[f.Code]++
	}
	at := map[finding.Code]int{}
	for _, f := range findings {
		if f.Silenced != nil {
			continue
		}
		to := &t.Groups
		if f.Severity == finding.Info {
			to = &t.Notes
		}
		if i, there := at[f.Code]; there && count[f.Code] >= groupsFrom && i < len(*to) &&
			(*to)[i].Code == f.Code {
			(*to)[i].Of = append((*to)[i].Of, f)
			continue
		}
		at[f.Code] = len(*to)
		*to = append(*to, group{f.Code, f.Severity, []finding.Finding{f}, networks})
	}
	return t
}
