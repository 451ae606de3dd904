package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
)

type object = map[string]any

const networkAPI = "2025-05-01"

func (d *day) get(id arm.ID) object {
	d.t.Helper()
	doc, err := d.op.Get(id, networkAPI)
	if err != nil {
		d.t.Fatal(err)
	}
	return doc
}

func (d *day) put(id arm.ID, version string, doc object) {
	d.t.Helper()
	if err := d.op.Put(id, version, doc); err != nil {
		d.t.Fatal(err)
	}
}

// edit changes a resource that it has just read.
func (d *day) edit(id arm.ID, change func(properties object)) {
	d.t.Helper()
	doc := d.get(id)
	change(doc["properties"].(object))
	d.put(id, networkAPI, doc)
}

// volatile matches the fields that every write of a route changes.
var volatile = regexp.MustCompile(`"(etag|provisioningState)":"(\\.|[^"])*",?`)

// routes returns the current routes of a table by name.
func (d *day) routes(table arm.ID) map[string]string {
	d.t.Helper()
	status, body := d.op.Do(http.MethodGet, table, networkAPI, nil)
	if status != http.StatusOK {
		d.t.Fatalf("GET %s: %d %s", table, status, body)
	}
	all := map[string]string{}
	for _, r := range gjson.GetBytes(body, "properties.routes").Array() {
		all[r.Get("name").String()] = volatile.ReplaceAllString(r.Raw, "")
	}
	return all
}

func pick[T any](d *day, of []T) T { return of[d.by.IntN(len(of))] }

// happens makes something happen.
func (d *day) happens() {
	d.n++
	switch n := d.by.IntN(100); {
	case n < 18:
		subnet := pick(d, d.guarded)
		d.edit(subnet, func(p object) { delete(p, "routeTable") })
	case n < 23: // a whole network is deployed again, without its tables
		d.edit(pick(d, d.guarded).Parent(), func(p object) {
			for _, subnet := range p["subnets"].([]any) {
				delete(subnet.(object)["properties"].(object), "routeTable")
			}
		})
	case n < 38:
		if err := d.e.Scale(arm.ID(pick(d, d.configs).Spec.ClusterID),
			pick(d, []string{"np", "nodepool1"}), 1+d.by.IntN(6)); err != nil &&
			!strings.Contains(err.Error(), "no pool") {
			d.t.Fatal(err)
		}
	case n < 44:
		d.readdress()
	case n < 54:
		d.unmanaged(pick(d, d.targets()))
	case n < 62:
		d.meddler(pick(d, d.targets()))
	case n < 86:
		d.fault()
	case n < 90:
		d.pause(time.Duration(5+d.by.IntN(40)) * time.Minute)
	case n < 94:
		d.end()
		time.Sleep(time.Duration(d.by.IntN(600)) * time.Second)
		d.start()
	default:
		d.kill()
	}
}

// readdress replaces a node with one with the same name and another address.
func (d *day) readdress() {
	i := d.by.IntN(len(d.guarded))
	var nodes []string
	for name := range d.routes(d.tables[d.guarded[i].Key()]) {
		if strings.Contains(name, "____") {
			nodes = append(nodes, inventory.RouteNode(name))
		}
	}
	if len(nodes) == 0 {
		return
	}
	for _, c := range d.configs { // find its cluster
		_ = d.e.Readdress(arm.ID(c.Spec.ClusterID), nodes[0])
	}
}

// unmanaged adds, changes or removes an unmanaged route.
func (d *day) unmanaged(table arm.ID) {
	name := fmt.Sprintf("foreign-%d", d.by.IntN(4))
	d.edit(table, func(p object) {
		routes := []any{}
		for _, r := range p["routes"].([]any) {
			if r.(object)["name"] != name {
				routes = append(routes, r)
			}
		}
		if d.by.IntN(3) > 0 {
			route := object{"addressPrefix": fmt.Sprintf("192.168.%s.0/24", name[len(name)-1:]),
				"nextHopType": inventory.HopAppliance, "nextHopIpAddress": fmt.Sprintf("10.42.3.%d",
					4+d.n%200), "unknown": object{"n": d.n}}
			if d.by.IntN(2) == 0 {
				route = object{"addressPrefix": route["addressPrefix"],
					"nextHopType": inventory.HopNone}
			}
			routes = append(routes, object{"name": name, "properties": route})
		}
		p["routes"] = routes
	})
	delete(d.foreign[table.Key()], name)
	if raw, there := d.routes(table)[name]; there {
		d.foreign[table.Key()][name] = raw
	}
}

// meddler deletes or changes managed routes.
func (d *day) meddler(table arm.ID) {
	d.edit(table, func(p object) {
		routes := []any{}
		for _, r := range p["routes"].([]any) {
			route := r.(object)
			if name, _ := route["name"].(string); strings.Contains(name, "____") {
				switch d.by.IntN(4) {
				case 0:
					continue
				case 1:
					hop := route["properties"].(object)["nextHopIpAddress"].(string)
					// in the same subnet, so it still belongs to the cluster
					route["properties"].(object)["nextHopIpAddress"] =
						hop[:strings.LastIndexByte(hop, '.')] + ".99"
				}
			}
			routes = append(routes, route)
		}
		p["routes"] = routes
	})
}

// fault makes calls of the keeper fail for a while.
func (d *day) fault() {
	f := pick(d, []emulator.Fault{
		{Status: 503, Count: 6}, {Status: 500, Count: 3, Method: "PUT"}, {Status: 502, Rate: 0.3,
			Count: -1},
		{Status: 429, Code: "SubscriptionRequestsThrottled", RetryAfter: 17, Count: 2}, {
			Status: 429, Code: "RetryableError", RetryAfter: 5, Method: "PUT", Count: 3},
		{Status: 409, Code: "AnotherOperationInProgress", Method: "PUT", Count: 2}, {Status: 412,
			Code: "PreconditionFailed", Method: "PUT", Count: 2},
		{Status: 403, Code: "AuthorizationFailed", Method: "PUT", Count: 2}, {Status: 403,
			Code: "AuthorizationFailed", Path: "/routeTables", Method: "GET", Count: 5},
		{Status: 404, Code: "ResourceNotFound", Path: "/subnets/", Count: 1},
		{Cut: "before", Count: 3}, {Cut: "after", Method: "PUT", Count: 2}, {Cut: "after",
			Rate: 0.2, Count: -1},
		{Hold: "before", Count: 2}, {Hold: "after", Method: "PUT", Count: 1},
		{Slow: 40, Method: "PUT", Count: 2}, {Slow: 200, Method: "PUT", Count: 1}, {Fail: true,
			Code: "InternalServerError", Method: "PUT", Count: 2},
		{Stale: true, Method: "GET", Count: 3}, {Stale: true, Method: "GET", Rate: 0.3, Count: -1},
	})
	f.Principal, f.Seed = emulatortest.Keeper.Name, d.by.Uint64()
	remove, err := d.e.Inject(f)
	if err != nil {
		d.t.Fatal(err)
	}
	if d.by.IntN(2) == 0 { // so that there is something to write
		subnet := pick(d, d.guarded)
		d.edit(subnet, func(p object) { delete(p, "routeTable") })
	}
	time.AfterFunc(time.Duration(1+d.by.IntN(20))*time.Minute, remove)
}

// pause pauses the keeper, and waits.
func (d *day) pause(long time.Duration) {
	d.mu.Lock()
	d.paused = true
	d.mu.Unlock()
	from := time.Now()
	time.Sleep(long)
	d.mu.Lock()
	d.paused = false
	d.mu.Unlock()
	d.quiet = append(d.quiet, span{from, time.Now()})
}

// kill makes the next write kill the program, before or after its effect, and starts another one
// after a while.
func (d *day) kill() {
	l := d.now
	l.mu.Lock()
	l.death = pick(d, []string{"before", "after"})
	l.mu.Unlock()
	subnet := pick(d, d.guarded)
	d.edit(subnet, func(p object) { delete(p, "routeTable") })
	select {
	case <-l.died:
	case <-time.After(20 * time.Minute): // it had nothing to write, or could not
		l.mu.Lock()
		l.death = ""
		l.mu.Unlock()
		return
	}
	d.end()
	time.Sleep(time.Duration(d.by.IntN(600)) * time.Second)
	d.start()
}

// calm ends all faults, and waits.
func (d *day) calm() {
	d.e.ClearFaults()
	time.Sleep(90 * time.Minute)
	d.collect()
	d.end()
}

// collect stores the relevant requests before the emulator forgets them.
func (d *day) collect() {
	for _, r := range d.e.Requests(d.since) {
		d.since = r.N
		id, err := arm.ParseID(r.Path)
		if r.Principal != emulatortest.Keeper.Name || err != nil || !id.Is(arm.TypeSubnet) &&
			!id.Is(arm.TypeRouteTable) {
			if r.Principal == emulatortest.Keeper.Name && r.Method != http.MethodGet {
				d.t.Errorf("the keeper did %s %s", r.Method, r.Path)
			}
			continue
		}
		if r.Method == http.MethodPut && !json.Valid(r.Body) {
			d.t.Fatalf("the log has lost what was sent: %+v", r)
		}
		d.calls = append(d.calls, r)
	}
}
