package azure

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// activityLog reads who wrote what.
type activityLog struct {
	*lister
	ownWrites  ownWrites
	networkLog networkLog
}

// logReach is how far back the activity log goes: 90 days.
const logReach = 89 * 24 * time.Hour

// logPages limits how many pages of one subscription's log are read.
const logPages = 20

// readWritten finds tables that the cluster's identity wrote, newest first. It reads the activity
// logs of the cluster's subscription and of its node subnets' subscriptions. In each log it stops
// after the first page with a table that is new to it, and continues with the next page at the next
// call.
func (c *activityLog) readWritten(ctx context.Context, s *inventory.Snapshot,
	cluster *inventory.Cluster) error {
	known := s.Learn(cluster.ID)
	links := known.LogNext
	if !known.LogRead {
		links = logStarts(c, cluster)
	}
	known.LogRead, known.LogNext = true, nil
	identities := map[string]bool{}
	for _, p := range cluster.Principals {
		identities[p] = true
	}
	for _, next := range links {
		found := false
		for pages := 0; next != "" && !found; pages++ {
			if pages == logPages {
				known.LogCut, next = true, ""
				break
			}
			page, err := c.networkLog.page(ctx, c.caller, next)
			if err == nil {
				next, found = page.next, addWritten(known, page.writes, identities)
				continue
			}
			if err := noted(s, idOf(next).SubscriptionID(), err); err != nil {
				return err
			}
			next = ""
		}
		if next != "" {
			known.LogNext = append(known.LogNext, next)
		}
	}
	return nil
}

// logStarts returns the first links into the logs.
func logStarts(c *activityLog, cluster *inventory.Cluster) []string {
	subscriptions := []arm.ID{cluster.ID.SubscriptionID()}
	for _, subnet := range cluster.ExistingSubnets() {
		subscriptions = append(subscriptions, subnet.SubscriptionID())
	}
	var links []string
	for _, subscription := range inventory.SortIDs(subscriptions) {
		links = append(links, c.networkLog.newestLink(c.caller, subscription))
	}
	return links
}

// networkLog lets clusters that ask at the same time share what the activity logs say about writes
// of route tables. Without it, each cluster of a subscription would read the same pages.
type networkLog struct {
	mu    sync.Mutex
	begun time.Time           // when the first of these clusters asked
	used  time.Time           // when one of them last asked, or got a page
	start map[string]string   // the links to the newest pages, by subscription
	pages map[string]*logPage // by link
}

// logPage is the content of one page. Only the goroutine that has put a value into turn may use the
// other fields.
type logPage struct {
	turn   chan struct{}
	read   bool
	writes []tableWrite // newest first
	next   string       // the link to the next page, "" on the last one
}

// Clusters ask at the same time if no more than logGap is between them. After logFor the newest
// pages are read again, even if clusters never stop asking.
const logGap, logFor = 2 * time.Second, time.Minute

// newestLink returns the link to the newest page of a subscription's log.
func (l *networkLog) newestLink(c *caller, subscription arm.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UTC()
	if now.Sub(l.used) > logGap || now.Sub(l.begun) > logFor {
		l.begun, l.start, l.pages = now, map[string]string{}, map[string]*logPage{}
	}
	l.used = now
	link, ok := l.start[subscription.Key()]
	if !ok {
		link = logAddress(c, subscription, now.Add(-logReach), now,
			"resourceProvider eq 'Microsoft.Network'")
		l.start[subscription.Key()] = link
	}
	return link
}

// logAddress returns the link to the newest records of a span of time that a filter selects.
func logAddress(c *caller, subscription arm.ID, since, until time.Time, filter string) string {
	filter = "eventTimestamp ge '" + since.UTC().Format(time.RFC3339) +
		"' and eventTimestamp le '" + until.UTC().Format(time.RFC3339Nano) + "' and " + filter
	return c.address(subscription, "/providers/Microsoft.Insights/eventtypes/management/values",
		activityVersion) + "&$filter=" + url.QueryEscape(filter)
}

// page returns the page that a link leads to. If another cluster is reading it, page waits for the
// result, but no longer than a call may take. A page that could not be read is read again for each
// cluster that asks.
func (l *networkLog) page(ctx context.Context, c *caller, link string) (*logPage, error) {
	p := l.entry(link)
	limited, cancel, late := limit(ctx)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-limited.Done():
		if fault := late(idOf(link)); fault != nil {
			return nil, fault
		}
		return nil, ctx.Err()
	}
	if p.read {
		return p, nil
	}
	body, err := c.get(ctx, link)
	if err != nil {
		return nil, err
	}
	values, next, fault := readPage(body, link)
	if fault != nil {
		return nil, fault
	}
	for _, raw := range values {
		if write, ok := tableWriteOf(raw); ok {
			p.writes = append(p.writes, write)
		}
	}
	p.next, p.read = next, true
	l.entry(link)
	return p, nil
}

// entry returns the page that is stored for a link, and stores an unread one if there is none.
func (l *networkLog) entry(link string) *logPage {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = time.Now()
	p := l.pages[link]
	if p == nil {
		p = &logPage{turn: make(chan struct{}, 1)}
		l.pages[link] = p
	}
	return p
}

// addWritten adds the tables that one of the identities wrote, and reports whether one is new.
func addWritten(known *inventory.Known, writes []tableWrite, identities map[string]bool) bool {
	before := len(known.Written)
	for _, w := range writes {
		by := slices.ContainsFunc(w.by, func(name string) bool { return identities[name] })
		if by && !slices.ContainsFunc(known.Written, w.table.Equal) {
			known.Written = append(known.Written, w.table)
		}
	}
	return len(known.Written) > before
}

// logRecord has the fields of an activity log record that are used.
type logRecord struct {
	Caller         string            `json:"caller"`
	Claims         map[string]string `json:"claims"`
	OperationName  logValue          `json:"operationName"`
	Status         logValue          `json:"status"`
	ResourceID     arm.ID            `json:"resourceId"`
	EventTimestamp string            `json:"eventTimestamp"`
	CorrelationID  string            `json:"correlationId"`
}

// write returns the write that a record describes, with its time. It returns false if the record
// has no time.
func (r logRecord) write() (LastWrite, bool) {
	at, err := time.Parse(time.RFC3339Nano, r.EventTimestamp)
	return LastWrite{
		Resource: r.ResourceID, Operation: r.OperationName.Value, At: at, Caller: r.Caller,
		Name: r.Claims["name"], Application: r.Claims["appid"],
		Identity: arm.ID(r.Claims["xms_mirid"]), Correlation: r.CorrelationID,
		object: r.Claims["http://schemas.microsoft.com/identity/claims/objectidentifier"],
	}, err == nil
}

// accepted reports whether a record says that Azure accepted or completed its operation.
func (r logRecord) accepted() bool {
	return strings.EqualFold(r.Status.Value, "Succeeded") ||
		strings.EqualFold(r.Status.Value, "Accepted")
}

// isWrite reports whether the operation is a PUT or PATCH.
func (r logRecord) isWrite() bool {
	return strings.HasSuffix(strings.ToLower(r.OperationName.Value), "/write")
}

type logValue struct {
	Value string `json:"value"`
}

// tableWrite is a write of a route table, or of one route in it, that took effect.
type tableWrite struct {
	table arm.ID
	by    []string // the names of the writer, in lower case
}

// tableWriteOf returns the write of a table that an activity log record describes, or false if it
// describes something else.
func tableWriteOf(raw []byte) (tableWrite, bool) {
	var r logRecord
	if json.Unmarshal(raw, &r) != nil {
		return tableWrite{}, false // an unknown kind of record
	}
	operation := strings.ToLower(r.OperationName.Value)
	if operation != "microsoft.network/routetables/write" &&
		operation != "microsoft.network/routetables/routes/write" {
		return tableWrite{}, false
	}
	if !strings.EqualFold(r.Status.Value, "Succeeded") {
		return tableWrite{}, false // only begun, or refused
	}
	id, err := arm.ParseID(string(r.ResourceID))
	if err != nil {
		return tableWrite{}, false
	}
	if !id.Is(arm.TypeRouteTable) {
		id = id.Parent() // of one route
	}
	w := tableWrite{table: id}
	for _, name := range []string{r.Caller, r.Claims["appid"], r.Claims["xms_mirid"]} {
		if name != "" {
			w.by = append(w.by, strings.ToLower(name))
		}
	}
	return w, id.Is(arm.TypeRouteTable)
}
