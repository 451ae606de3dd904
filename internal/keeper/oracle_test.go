package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// oracle judges each write of a keeper before Azure gets it. It reads the resources itself, and
// knows what each write may change.
type oracle struct {
	d     *everything
	under http.Handler
}

func (o oracle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		o.d.judge(r.Method, arm.ID(r.URL.Path), r.Header.Get("If-Match"), body)
	}
	o.under.ServeHTTP(w, r)
}

// cut is a connection to Azure that ends with its keeper.
type cut struct {
	l     *life
	under http.RoundTripper
}

var errCut = errors.New("this keeper is dead")

func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.l.ctx.Err() != nil {
		return nil, errCut
	}
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(c.l.ctx, cancel)
	return c.under.RoundTrip(r.WithContext(ctx))
}

// mortal is a store that survives the keepers. A dead keeper cannot write to it.
type mortal struct {
	l *life
	*paper
}

func (m mortal) Keep(clusters map[string]Lasting) {
	if m.l.ctx.Err() == nil {
		m.paper.Keep(clusters)
	}
}

// raw reads a resource; nil if it does not exist.
func (d *everything) raw(id arm.ID) []byte {
	status, body := d.op.Do(http.MethodGet, id, api(id), nil)
	if status != http.StatusOK {
		return nil
	}
	return body
}

// decoded is the content of a document. The same bytes are decoded once, because most checks find
// no change.
type decoded struct {
	raw    []byte
	nodes  map[netip.Prefix]netip.Addr
	theirs map[string]string
	routes []string // as routes() writes them
	table  arm.ID   // of a subnet
	check  int      // that read it last
}

// read decodes a table or a subnet in its state during this check, which reads each only once.
func (d *everything) read(id arm.ID) *decoded {
	last := d.readings[id]
	if last != nil && last.check == d.checks {
		return last
	}
	raw := d.raw(id)
	if last != nil && bytes.Equal(last.raw, raw) {
		last.check = d.checks
		return last
	}
	r := &decoded{raw: raw, check: d.checks}
	d.readings[id] = r
	if id.Is(arm.TypeSubnet) {
		if subnet, err := inventory.DecodeSubnet(raw); err == nil {
			r.table = subnet.RouteTable
		}
		return r
	}
	r.nodes, r.theirs = nodeRoutes(raw), theirsIn(raw)
	if table, err := inventory.DecodeRouteTable(raw); err == nil {
		for _, route := range table.Routes() {
			r.routes = append(r.routes, route.Destination()+">"+route.NextHop())
		}
		slices.Sort(r.routes)
	}
	return r
}

const (
	// underway is how long a write may continue after its decision.
	underway = 3 * time.Minute
	// trusted is how old a keeper's knowledge of a cluster's existence may be when it writes.
	trusted = 5 * time.Second
)

// judge checks that a write changes only what it may.
func (d *everything) judge(method string, id arm.ID, etag string, body []byte) {
	d.mu.Lock()
	paused := d.paused
	d.mu.Unlock()
	m, kept := d.keeps(id)
	now := d.raw(id)
	switch {
	case method != http.MethodPut || m == nil || !kept:
		d.t.Errorf("at %s a keeper does %s %s, which is none of its business", time.Now(), method,
			id)
		return
	case !paused.IsZero() && time.Since(paused) > underway:
		d.t.Errorf("at %s %s is written, in the pause since %s", time.Now(), id.Short(), paused)
	case etag == "":
		d.t.Errorf("%s is written without If-Match", id.Short())
	}
	if now == nil || etag != etagIn(now) {
		return // Azure refuses it
	}
	if id.Is(arm.TypeSubnet) {
		d.judgeSubnet(m, id, now, body)
	} else {
		d.judgeTable(id, now, body)
	}
}

// keeps finds the cluster for which a resource may be written, if one is configured, or was a
// moment ago.
func (d *everything) keeps(id arm.ID) (m *member, kept bool) {
	for _, o := range d.members {
		now := o.published.Load()
		if now.left.IsZero() || time.Since(now.left) < underway {
			for subnet := range now.subnets {
				if subnet.Equal(id) {
					return o, true
				}
			}
			if slices.ContainsFunc(o.targets, id.Equal) {
				return o, true
			}
			if o.spare.Equal(id) { // a pool can have left it
				return o, true
			}
		}
	}
	return nil, false
}

func (d *everything) judgeSubnet(m *member, id arm.ID, now, body []byte) {
	paths, err := arm.Differences(now, body)
	// Which interfaces are in the subnet is read-only, and no part of its ETag: nodes can come and
	// go between the keeper's GET and its PUT.
	paths = slices.DeleteFunc(paths, func(path string) bool {
		return path == "properties.ipConfigurations"
	})
	if err != nil || len(paths) > 0 && !slices.Equal(paths, []string{"properties.routeTable"}) {
		d.t.Errorf("at %s the PUT of %s changes %v, %v", time.Now(), id.Short(), paths, err)
	}
	subnet, err := inventory.DecodeSubnet(body)
	known := m.published.Load()
	want := known.table
	if id.Equal(m.gateway) {
		want = m.targets[0]
	}
	if err != nil || !subnet.RouteTable.Equal(want) {
		d.t.Errorf("at %s %s gets the table %q, %v", time.Now(), id.Short(), subnet.RouteTable, err)
	}
	if len(paths) > 0 && !known.gone.IsZero() && time.Since(known.gone) > trusted &&
		known.left.IsZero() {
		d.t.Errorf("at %s the table is put back on %s, whose cluster is gone since %s", time.Now(),
			id.Short(), known.gone)
	}
}

// volatile matches the fields that every write of a route changes.
var volatile = regexp.MustCompile(`"(etag|provisioningState)":"(\\.|[^"])*",?`)

// routesIn returns the routes of a table by name, as JSON.
func routesIn(table []byte) map[string]string {
	var doc struct {
		Properties struct {
			Routes []json.RawMessage `json:"routes"`
		} `json:"properties"`
	}
	if json.Unmarshal(table, &doc) != nil {
		return nil
	}
	all := map[string]string{}
	for _, r := range doc.Properties.Routes {
		var name struct{ Name string }
		_ = json.Unmarshal(r, &name) // a route that is not an object has no name
		all[name.Name] = strings.ReplaceAll(volatile.ReplaceAllString(string(r), ""), ",}", "}")
	}
	return all
}

// nodeRoutes returns a table's routes with names of a cloud provider: next hops by prefix.
func nodeRoutes(table []byte) map[netip.Prefix]netip.Addr {
	all := map[netip.Prefix]netip.Addr{}
	if table == nil {
		return all
	}
	if t, err := inventory.DecodeRouteTable(table); err == nil {
		for _, r := range t.Routes() {
			if strings.Contains(r.Name, "____") {
				all[r.Prefix] = r.Hop
			}
		}
	}
	return all
}

func etagIn(doc []byte) string {
	var head struct{ ETag string }
	_ = json.Unmarshal(doc, &head) // a document without a location has none
	return head.ETag
}

// theirsIn returns the routes whose names no cloud provider gives.
func theirsIn(table []byte) map[string]string {
	all := routesIn(table)
	for name := range all {
		if strings.Contains(name, "____") {
			delete(all, name)
		}
	}
	return all
}

func (d *everything) judgeTable(id arm.ID, now, body []byte) {
	if !reflect.DeepEqual(withoutRoutes(now), withoutRoutes(body)) {
		d.t.Errorf("at %s the PUT of %s changes more than routes:\n%s\n%s", time.Now(), id.Short(),
			now, body)
	}
	if was, is := theirsIn(now), theirsIn(body); !reflect.DeepEqual(was, is) {
		d.t.Errorf("at %s the PUT of %s changes unmanaged routes:\n%v\n%v", time.Now(), id.Short(),
			was, is)
	}
	after := nodeRoutes(body)
	for prefix, hop := range nodeRoutes(now) {
		next, stays := after[prefix]
		if stays && next == hop {
			continue
		}
		if m := d.living(prefix, hop); m != nil && d.needs(m, prefix, hop) {
			d.t.Errorf("at %s the route %s to %s, a living node of %s, leaves %s (now %v)",
				time.Now(), prefix,
				hop, m.name, id.Short(), next)
		}
		if stays && d.living(prefix, next) == nil && !d.justLeft(next) {
			d.t.Errorf("at %s the route %s in %s gets the next hop %s, which no node has",
				time.Now(), prefix,
				id.Short(), next)
		}
	}
}

// withoutRoutes is a table without the fields that a write of routes changes.
func withoutRoutes(table []byte) (doc object) {
	if json.Unmarshal(table, &doc) != nil {
		return nil
	}
	delete(doc, "etag")
	p, _ := doc["properties"].(object)
	delete(p, "routes")
	delete(p, "provisioningState")
	delete(p, "subnets") // another write can have associated it meanwhile
	return doc
}

// living finds the cluster with a pod CIDR that has a node with an address. Networks that AKS
// created have the same addresses.
func (d *everything) living(prefix netip.Prefix, address netip.Addr) *member {
	for _, m := range d.members {
		if m.owns(prefix) && m.published.Load().gone.IsZero() && d.addresses(m)[address] {
			return m
		}
	}
	return nil
}

// justLeft reports whether a node may have had an address until a moment ago: a write relies on
// network interfaces that were read before.
func (d *everything) justLeft(address netip.Addr) bool {
	at, left := d.leftAt.Load(address)
	return left && time.Since(at.(time.Time)) < 15*time.Second
}

// owns reports whether a prefix belongs to a node of a cluster.
func (m *member) owns(prefix netip.Prefix) bool {
	n := m.name[1:]
	return strings.HasPrefix(prefix.String(), "10.15"+n+".") ||
		strings.HasPrefix(prefix.String(), "fd12:3456:789"+n+":")
}

// addresses are the addresses of a cluster's nodes: those of the network interfaces in its scale
// sets.
func (d *everything) addresses(m *member) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	list := func(id arm.ID, version string) []any {
		status, body := d.op.Do(http.MethodGet, id, version, nil)
		var doc struct{ Value []any }
		if status != http.StatusOK || json.Unmarshal(body, &doc) != nil {
			return nil // it is gone
		}
		return doc.Value
	}
	group := d.nodeGroup(m)
	for _, set := range list(group+"/providers/Microsoft.Compute/virtualMachineScaleSets",
		"2024-07-01") {
		id := arm.ID(set.(object)["id"].(string))
		for _, nic := range list(id+"/networkInterfaces", "2018-10-01") {
			for _, c := range nic.(object)["properties"].(object)["ipConfigurations"].([]any) {
				text, _ := c.(object)["properties"].(object)["privateIPAddress"].(string)
				if a, err := netip.ParseAddr(text); err == nil {
					all[a] = true
				}
			}
		}
	}
	return all
}

// needs reports whether a node with this address needs a route for this prefix. It does not if the
// cluster's table shows another prefix for it now.
func (d *everything) needs(m *member, prefix netip.Prefix, hop netip.Addr) bool {
	own := nodeRoutes(d.raw(m.published.Load().table))
	if own[prefix] == hop {
		return true
	}
	for other, led := range own {
		if led == hop && other.Addr().Is4() == prefix.Addr().Is4() {
			return false
		}
	}
	return own[prefix] == netip.Addr{} // another node has the prefix now
}

// raw is an object as JSON.
func raw(o any) string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(text)
}
