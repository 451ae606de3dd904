package azure

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/arm"
)

// lister chooses between one list and single reads, and remembers what lists cost.
type lister struct {
	*caller
	mu    sync.Mutex
	lists map[string]listCost
}

// wanted is one document to read, by a list or by GETs.
type wanted struct {
	id arm.ID
	// gets are the resources to GET instead; if there are none, GET the document itself.
	gets []arm.ID
	// parts are the parts of the document that are wanted, where they can be read on their own.
	parts []arm.ID
}

func (w wanted) ids() []arm.ID {
	if len(w.gets) > 0 {
		return w.gets
	}
	return []arm.ID{w.id}
}

// listCost is what earlier lists of a type in a scope have cost.
type listCost struct {
	calls int // pages, and GETs of documents that the list left out
	until time.Time
	took  time.Duration // the slowest page
}

// listMemory is how long a listCost is used: tables come and go, and permissions change.
const listMemory = time.Hour

// listWithin is how long a page of a list of virtual networks, or a network with several subnets,
// may take before GETs replace it. hungMemory is how long the list or network is then avoided.
// While the GETs run, the list is tried again. If it is only slow, it may from then on take slack
// times as long as it took.
const listWithin, hungMemory, slack = 2 * time.Second, time.Minute, 2

// refusedCost is the cost of a list, or of the GET of a virtual network, that was refused or hangs.
const refusedCost = math.MaxInt32

// read gets documents with the fewest calls: GETs, a list per resource group, or a list per
// subscription, by what lists have cost so far. It GETs whatever a list leaves out, because a list
// shows only what the identity may see. It calls each for every document found and for every
// *Error, one at a time.
func (c *lister) read(ctx context.Context, resourceType, version string, all []wanted,
	each report) error {
	bySubscription := map[string][]wanted{}
	for _, w := range all {
		key := w.id.SubscriptionID().Key()
		bySubscription[key] = append(bySubscription[key], w)
	}
	serial := make(chan struct{}, 1)
	tell := func(w wanted, id arm.ID, body []byte, fault *Error) {
		serial <- struct{}{}
		defer func() { <-serial }()
		each(w, id, body, fault)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, some := range bySubscription {
		g.Go(func() error { return c.readSubscription(ctx, resourceType, version, some, tell) })
	}
	return g.Wait()
}

// report receives a document, or why it was not read.
type report func(w wanted, id arm.ID, body []byte, fault *Error)

// readSubscription reads documents of one subscription in the cheapest way.
func (c *lister) readSubscription(ctx context.Context, resourceType, version string, some []wanted,
	tell report) error {
	perGroup := 0
	for _, members := range byGroup(some) {
		perGroup += min(sumCost(members), c.costOf(members[0].id.Group(), resourceType))
	}
	whole := some[0].id.SubscriptionID()
	inGroups := func(ctx context.Context, rest []wanted) error {
		return c.readGroups(ctx, resourceType, version, rest, tell)
	}
	if c.costOf(whole, resourceType) < perGroup {
		return c.readScope(ctx, whole, resourceType, version, some, perGroup, tell, inGroups)
	}
	return inGroups(ctx, some)
}

// readGroups reads documents of one subscription by lists of its resource groups. It then GETs the
// remaining ones for all groups together. Otherwise more than parallel calls would be sent before
// the first answer said that few tokens remain.
func (c *lister) readGroups(ctx context.Context, resourceType, version string, some []wanted,
	tell report) error {
	var mu sync.Mutex
	var left []wanted
	later := func(_ context.Context, rest []wanted) error {
		mu.Lock()
		defer mu.Unlock()
		left = append(left, rest...)
		return nil
	}
	g, lists := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, members := range byGroup(some) {
		group, direct := members[0].id.Group(), sumCost(members)
		g.Go(func() error {
			if c.costOf(group, resourceType) < direct {
				return c.readScope(lists, group, resourceType, version, members, direct, tell,
					later)
			}
			return later(lists, members)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return c.readEach(ctx, left, tell)
}

func byGroup(some []wanted) map[string][]wanted {
	groups := map[string][]wanted{}
	for _, w := range some {
		groups[w.id.Group().Key()] = append(groups[w.id.Group().Key()], w)
	}
	return groups
}

// parallel is how many calls of one kind run at once in a subscription. A call that takes longer
// than slotFor no longer counts, so calls that hang do not delay others.
const parallel, slotFor = 8, 2 * time.Second

func sumCost(all []wanted) int {
	sum := 0
	for _, w := range all {
		sum += len(w.ids())
	}
	return sum
}

// readScope lists a scope, and GETs what the list does not show. It gives up if the list is refused
// or costs more than the other way would: lists of resource groups, or GETs. So learning the cost
// of a list at most doubles the cost.
func (c *lister) readScope(ctx context.Context,
	scope arm.ID, resourceType, version string, some []wanted, otherwise int, tell report,
	otherWay func(context.Context, []wanted) error) error {
	missing := map[string]wanted{}
	for _, w := range some {
		missing[w.id.Key()] = w
	}
	cost, gaveUp := 0, false
	var slowest time.Duration
	next := c.address(scope, "/providers/"+resourceType, version)
	within := ctx
	// repairs of associations wait for this list
	if resourceType == arm.TypeVNet && mannerOf(ctx).answer > 0 {
		within = withCall(ctx, func(m *manner) { m.answer = c.patienceOf(scope) })
	}
	for next != "" && len(missing) > 0 && !gaveUp {
		asked := time.Now()
		page, err := c.get(within, next)
		slowest = max(slowest, time.Since(asked))
		fault, fatal := asFault(err)
		if fatal != nil {
			return fatal
		}
		cost++
		if fault != nil {
			// The list hangs, or its connection is broken. GETs may work.
			if fault.Status == 0 && !fault.login() && mannerOf(ctx).answer > 0 {
				c.learnFor(scope, resourceType, refusedCost, hungMemory)
				go c.tryList(context.WithoutCancel(ctx), scope, resourceType, next)
				return c.readEach(ctx, insteadOf(slices.Collect(maps.Values(missing))), tell)
			}
			if fault.Status == 0 || fault.late { // other calls will get no answer either
				for _, w := range missing {
					for _, id := range w.ids() {
						tell(w, id, nil, fault)
					}
				}
				return nil
			}
			// A refused list does not show what is missing. A list that failed for another reason
			// may work next time.
			gaveUp = true
			if fault.Refused() || fault.Status == http.StatusNotFound {
				cost = refusedCost
			}
			// permissions are inherited: if it is refused here, it is refused above
			if fault.Refused() {
				c.learn(scope.SubscriptionID(), resourceType, refusedCost)
			}
			break
		}
		values, link, fault := readPage(page, next)
		if fault != nil {
			c.log.Info("a list cannot be read, trying another call", "scope", string(scope),
				"error", fault.Error())
			gaveUp = true
			break
		}
		for _, raw := range values {
			// Skip values without an ID. The ID comes before the long fields, so only the ID is
			// parsed here.
			id := arm.ID(gjson.GetBytes(raw, "id").String())
			if w, ok := missing[id.Key()]; ok {
				delete(missing, id.Key())
				tell(w, id, raw, nil)
			}
		}
		next = link
		gaveUp = next != "" && cost > otherwise
	}
	rest := make([]wanted, 0, len(missing))
	for _, w := range some {
		if _, ok := missing[w.id.Key()]; ok {
			rest = append(rest, w)
		}
	}
	if gaveUp {
		c.learn(scope, resourceType, cost)
		return otherWay(ctx, rest)
	}
	err := c.readEach(ctx, rest, func(w wanted, id arm.ID, body []byte, fault *Error) {
		if fault == nil {
			cost++ // the list should have shown it
		}
		tell(w, id, body, fault)
	})
	c.learn(scope, resourceType, cost)
	c.learnTime(scope, resourceType, slowest)
	return err
}

// mostParts is the greatest number of document parts that are read on their own.
const mostParts = 64

// insteadOf returns what to read instead of a list that hangs: the parts of its documents if these
// are few, because the GETs of whole documents may hang, too.
func insteadOf(some []wanted) []wanted {
	n := 0
	for _, w := range some {
		n += len(w.parts)
	}
	for i := range some {
		if n <= mostParts {
			some[i].gets = some[i].parts
		}
	}
	return some
}

// tryList finds out whether a list that did not answer in time hangs or is only slow. A slow list
// is used again.
func (c *lister) tryList(ctx context.Context, scope arm.ID, resourceType, page string) {
	asked := time.Now()
	if _, err := c.get(ctx, page); err == nil {
		c.learn(scope, resourceType, 1)
		c.learnTime(scope, resourceType, time.Since(asked))
	}
}

// patienceOf returns how long a page of a scope's list of virtual networks may take.
func (c *lister) patienceOf(scope arm.ID) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(max(listWithin, slack*c.lists[scope.Key()+" "+arm.TypeVNet].took), answerWithin)
}

// learnTime records how long the slowest page of a list took.
func (c *lister) learnTime(scope arm.ID, resourceType string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.lists[scope.Key()+" "+resourceType]
	known.took = took
	c.lists[scope.Key()+" "+resourceType] = known
}

// readEach reads documents by GETs.
func (c *lister) readEach(ctx context.Context, some []wanted, tell report) error {
	g, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, parallel)
	serial := make(chan struct{}, 1)
	for _, w := range some {
		for _, id := range w.ids() {
			slots <- struct{}{}
			g.Go(func() error {
				release := sync.OnceFunc(func() { <-slots })
				timer := time.AfterFunc(slotFor, release)
				defer func() { timer.Stop(); release() }()
				within := ctx
				if id.Is(arm.TypeVNet) && mannerOf(ctx).answer > 0 { // its subnets' GETs may work
					within = withCall(ctx, func(m *manner) { m.answer = listWithin })
				}
				doc, err := c.getResource(within, id)
				fault, fatal := asFault(err)
				if fatal != nil {
					return fatal
				}
				serial <- struct{}{}
				defer func() { <-serial }()
				tell(w, id, doc.Raw, fault)
				return nil
			})
		}
	}
	return g.Wait()
}

// costOf returns how many calls a list is expected to take: one, until more is known.
func (c *lister) costOf(scope arm.ID, resourceType string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.lists[scope.Key()+" "+resourceType]; ok && time.Now().Before(known.until) {
		return known.calls
	}
	return 1
}

func (c *lister) learn(scope arm.ID, resourceType string, calls int) {
	c.learnFor(scope, resourceType, calls, listMemory)
}

func (c *lister) learnFor(scope arm.ID, resourceType string, calls int, believed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := scope.Key() + " " + resourceType
	c.lists[key] = listCost{calls: calls, until: time.Now().Add(believed), took: c.lists[key].took}
}

// maxPages limits a list that does not end.
const maxPages = 10_000

// listAll reads every page of a list, until each returns false.
func (c *caller) listAll(ctx context.Context, first string,
	each func(json.RawMessage) (more bool)) error {
	whole, err := c.listSome(ctx, first, maxPages, each)
	if err == nil && !whole {
		return &Error{Method: http.MethodGet, ID: idOf(first), Status: http.StatusOK,
			Message: "the list does not end"}
	}
	return err
}

// listSome works like listAll for a limited number of pages. whole is false if the list has more.
func (c *caller) listSome(ctx context.Context, next string, pages int,
	each func(json.RawMessage) (more bool)) (whole bool, err error) {
	for range pages {
		page, err := c.get(ctx, next)
		if err != nil {
			return false, err
		}
		values, link, fault := readPage(page, next)
		if fault != nil {
			return false, fault
		}
		for _, raw := range values {
			if !each(raw) {
				return true, nil
			}
		}
		if next = link; next == "" {
			return true, nil
		}
	}
	return false, nil
}

// readPage reads a page of a list and the link to the next.
func readPage(page Reply, address string) (values []json.RawMessage, next string, fault *Error) {
	var doc struct {
		Value    []json.RawMessage `json:"value"`
		NextLink string            `json:"nextLink"`
	}
	switch err := json.Unmarshal(page.Body, &doc); {
	case err != nil:
		return nil, "", &Error{Method: http.MethodGet, ID: idOf(address), Status: page.Status,
			Message: "the answer is not a list"}
	case doc.NextLink == address:
		return nil, "", &Error{Method: http.MethodGet, ID: idOf(address), Status: page.Status,
			Message: "a page of the list links to itself"}
	}
	return doc.Value, doc.NextLink, nil
}
