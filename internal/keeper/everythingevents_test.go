package keeper

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
)

func one[T any](d *everything, of ...T) T { return of[d.by.IntN(len(of))] }

// happens makes something happen.
func (d *everything) happens() {
	d.n++
	m := one(d, d.members...)
	switch n := d.by.IntN(100); {
	case n < 20:
		d.takeAway(m)
	case n < 24:
		d.redeploy(m)
	case n < 34:
		count := 1 + d.by.IntN(6)
		if m.gone.IsZero() {
			d.tell("scale %s to %d", m.name, count)
			if err := d.e.Scale(m.cluster, m.pool, count); err != nil {
				d.tell("%v", err) // it is busy
			}
		}
	case n < 38:
		d.readdress(m)
	case n < 46:
		d.unmanaged(one(d, m.targets...))
	case n < 54:
		d.meddler(one(d, m.targets...))
	case n < 58:
		d.loseRoute(m)
	case n < 61:
		d.replacePool(m)
	case n < 63:
		d.deleteCluster(m)
	case n < 85:
		d.fault(m)
	case n < 88:
		d.rest(time.Duration(1+d.by.IntN(30)) * time.Minute)
	case n < 91:
		d.otherConfigs(m)
	case n < 94 && len(d.lives) == 1: // two keepers at once
		d.tell("a second keeper")
		d.start()
	default:
		d.killAll()
	}
}

// takeAway removes a table from a subnet, sometimes with an event.
func (d *everything) takeAway(m *member) {
	subnets := []arm.ID{m.gateway}
	if m.gone.IsZero() {
		subnets = append(subnets, m.nodes...)
	}
	subnet := one(d, subnets...)
	if !d.once(subnet) {
		return
	}
	d.tell("strip %s", subnet.Short())
	d.strip(subnet)
	d.noteLost(m, subnet)
	if k := d.keeper(); k != nil && d.by.IntN(2) == 0 {
		k.Wake(Event{Caller: "another"}, subnet)
	}
}

// once reports whether a subnet may lose its table now: rarely enough not to be a conflict.
func (d *everything) once(subnet arm.ID) bool {
	recent := slices.DeleteFunc(d.hands[subnet], func(at time.Time) bool {
		return time.Since(at) > 25*time.Minute
	})
	d.hands[subnet] = recent
	if len(recent) >= 2 {
		return false
	}
	d.hands[subnet] = append(recent, time.Now())
	return true
}

// noteLost notes that a subnet has lost its table. Azure runs one operation on a network at a time,
// so the strip delays other repairs in the network, and they delay this one.
func (d *everything) noteLost(m *member, subnet arm.ID) {
	if d.lost[subnet] != nil {
		return
	}
	now := time.Now()
	could := now
	for other, l := range d.lost {
		if other.Parent().Equal(subnet.Parent()) {
			could = could.Add(slow.OperationTime + busyWait)
			if end := now.Add(slow.OperationTime); end.After(l.could) {
				l.could = end
			}
		}
	}
	d.lost[subnet] = &takenAway{m: m, since: now, could: could}
}

// busyWait is how long a write waits at most after the operation that delayed it.
const busyWait = 4 * time.Second

// redeploy deploys a network again, without its tables.
func (d *everything) redeploy(m *member) {
	subnets := []arm.ID{m.gateway}
	if m.kind != madeByAKS {
		subnets = append(subnets, m.nodes...)
	}
	for _, subnet := range subnets {
		if !d.once(subnet) {
			return
		}
	}
	d.tell("redeploy %s", m.vnet.Short())
	d.edit(m.vnet, func(p object) {
		for _, subnet := range p["subnets"].([]any) {
			delete(subnet.(object)["properties"].(object), "routeTable")
		}
	})
	for _, subnet := range subnets {
		d.noteLost(m, subnet)
	}
}

// readdress replaces a node with one with the same name and another address.
func (d *everything) readdress(m *member) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(routesIn(d.raw(m.table)))),
		func(name string) bool {
			return !strings.Contains(name, "____")
		})
	if len(names) == 0 || !m.gone.IsZero() {
		return
	}
	name := inventory.RouteNode(names[d.n%len(names)])
	d.tell("readdress %s", name)
	for _, hop := range nodeRoutes(d.raw(m.table)) {
		d.leftAt.Store(hop, time.Now())
	}
	_ = d.e.Readdress(m.cluster, name) // it may be gone already
}

// unmanaged adds, changes or removes an unmanaged route, and writes the table twice.
func (d *everything) unmanaged(table arm.ID) {
	n := d.by.IntN(4)
	name := fmt.Sprintf("theirs-%d", n)
	d.tell("unmanaged %s in %s", name, table.Short())
	for range 2 {
		d.edit(table, func(p object) {
			routes := slices.DeleteFunc(p["routes"].([]any), func(r any) bool {
				return r.(object)["name"] == name
			})
			if d.by.IntN(3) > 0 {
				routes = append(routes, object{"name": name, "properties": object{
					"addressPrefix": fmt.Sprintf("172.16.%d.0/24",
						n), "nextHopType": "VirtualAppliance",
					"nextHopIpAddress": fmt.Sprintf("10.9.9.%d",
						1+d.by.IntN(200)), "unknown": object{"n": d.n}}})
			}
			p["routes"] = routes
		})
	}
	d.noteTheirs(table)
}

func (d *everything) noteTheirs(table arm.ID) { d.theirs[table] = theirsIn(d.raw(table)) }

// meddler deletes some routes to nodes, and changes others.
func (d *everything) meddler(table arm.ID) {
	d.tell("meddler in %s", table.Short())
	d.edit(table, func(p object) {
		routes := []any{}
		for _, r := range p["routes"].([]any) {
			name, q := r.(object)["name"].(string), r.(object)["properties"].(object)
			if strings.Contains(name, "____") {
				switch d.by.IntN(4) {
				case 0:
					continue
				case 1:
					if hop := q["nextHopIpAddress"].(string); strings.Contains(hop, ".") {
						q["nextHopIpAddress"] = hop[:strings.LastIndexByte(hop, '.')] + ".99"
					}
				}
			}
			routes = append(routes, r)
		}
		p["routes"] = routes
	})
}

// loseRoute removes a route from a cluster's table. The cloud provider does not notice for a while.
func (d *everything) loseRoute(m *member) {
	d.tell("%s loses a route", m.table.Short())
	d.e.PauseRoutes(m.cluster, true)
	if d.raw(m.table) != nil {
		d.edit(m.table, func(p object) {
			if routes := p["routes"].([]any); len(routes) > 1 {
				p["routes"] = routes[:len(routes)-1]
			}
		})
	}
	time.AfterFunc(time.Duration(1+d.by.IntN(20))*time.Minute, func() {
		d.e.PauseRoutes(m.cluster, false)
	})
}

// do makes a call that may be refused, because the cluster is busy.
func (d *everything) do(method string, id arm.ID, body object) bool {
	status, answer := d.op.Do(method, id, api(id), []byte(raw(body)))
	if status >= 300 {
		d.tell("%s %s: %d %s", method, id.Short(), status, answer)
	}
	return status < 300
}

// settle gives a keeper time to read a cluster's document again.
const settle = 7 * time.Minute

// replacePool creates a pool in another subnet, and deletes the old one.
func (d *everything) replacePool(m *member) {
	if !m.gone.IsZero() {
		return
	}
	d.tell("replace pool %s of %s", m.pool, m.name)
	name, subnet := fmt.Sprintf("p%d", d.n), m.spare
	properties := object{"count": 1 + d.by.IntN(4), "mode": "System"}
	if m.kind != madeByAKS {
		d.back(m, subnet)
		properties["vnetSubnetID"] = string(subnet)
	}
	if !d.do(http.MethodPut, m.cluster.Child("agentPools", name),
		object{"properties": properties}) {
		return
	}
	d.excuse(m, settle, "another pool")
	old := m.pool
	if m.kind != madeByAKS {
		m.nodes = append(m.nodes, m.spare)
		m.publish()
	}
	d.pass(2 * time.Minute)
	for !d.do(http.MethodDelete, m.cluster.Child("agentPools", old), nil) {
		d.pass(time.Minute)
	}
	m.pool = name
	if m.kind != madeByAKS {
		d.back(m, m.nodes[0])
		delete(d.lost, m.nodes[0])
		m.spare, m.nodes, m.moved = m.nodes[0], m.nodes[1:], time.Now()
		m.publish()
	}
	d.excuse(m, settle, "another pool")
}

// back puts a cluster's table back on a subnet, as a person does.
func (d *everything) back(m *member, subnet arm.ID) {
	d.edit(subnet, func(p object) { p["routeTable"] = object{"id": string(m.table)} })
}

// deleteCluster deletes a cluster as Terraform does, with its associations, and creates it again
// later.
func (d *everything) deleteCluster(m *member) {
	if !m.gone.IsZero() || !d.do(http.MethodDelete, m.cluster, nil) {
		return
	}
	d.tell("delete %s", m.name)
	m.gone = time.Now()
	m.publish()
	for _, subnet := range m.nodes {
		delete(d.lost, subnet) // the network that AKS created is deleted with the cluster
	}
	d.pass(20 * time.Second)
	if m.kind == madeByAKS {
		m.nodes = nil
		m.publish()
	}
	for _, subnet := range m.nodes {
		d.strip(subnet)
	}
	d.pass(time.Duration(1+d.by.IntN(20)) * time.Minute)
	d.makeAgain(m)
}

func (d *everything) makeAgain(m *member) {
	d.tell("make %s again", m.name)
	for _, subnet := range m.nodes {
		d.back(m, subnet)
	}
	pool := m.body["properties"].(object)["agentPoolProfiles"].([]any)[0].(object)
	if m.kind != madeByAKS {
		pool["vnetSubnetID"] = string(m.nodes[0])
	}
	m.pool = "np"
	m.gone = time.Time{}
	m.publish()
	d.put(m.cluster, m.body)
	time.Sleep(time.Minute)
	d.find(m)
	d.excuse(m, settle, "made again")
	if l := d.lost[m.gateway]; l != nil {
		l.could = time.Now()
	}
}

// fault makes calls of the keepers fail.
func (d *everything) fault(m *member) {
	made := "_" + m.name + "_[^/]*/providers/Microsoft.Network/"
	area := one(d, "network", "table", "target", "cluster", "nics", "log", "lists", "subscription")
	f := emulator.Fault{Count: -1, Seed: d.by.Uint64(), Method: one(d, "", "GET", "PUT")}
	f.Path = map[string]string{
		"network": m.vnet.Name() + "|" + made + "virtualNetworks", "table": m.table.Name() + "$|" +
			made + "routeTables",
		"target": "routeTables/" + m.targets[0].Name() + "$", "cluster": "managedClusters/" +
			m.name + "$",
		"nics": "networkInterfaces|virtualMachineScaleSets", "log": "eventtypes",
		"lists":        "(virtualNetworks|routeTables)$",
		"subscription": "^/subscriptions/" + m.cluster.Subscription(),
	}[area]
	kind := one(d, "hold before", "hold after", "cut before", "cut after", "503", "500", "429 busy",
		"429 arm", "429 provider", "403", "409", "412", "slow", "failing", "stale")
	grace, late := time.Duration(0), time.Duration(0)
	switch kind {
	case "hold before", "hold after":
		f.Hold, grace, late = kind[5:], time.Minute, graceMost
	case "cut before", "cut after":
		// A keeper that has never read its clusters gives up, and is started again.
		f.Cut, late = kind[4:], graceMost
	case "503":
		f.Status, f.RetryAfter = 503, d.by.IntN(40)
	case "500":
		f.Status, f.Rate = 500, 0.3
	case "429 busy":
		f.Status, f.Code, f.RetryAfter = 429, "RetryableError", d.by.IntN(40)
	case "429 arm":
		f.Status, f.Code, f.RetryAfter = 429, "SubscriptionRequestsThrottled", one(d, 17, 86400)
		late = graceMost
	case "429 provider":
		f.Status, f.Code, f.RetryAfter = 429, "TooManyRequests", one(d, 17, 86400)
		late = graceMost
	case "403":
		f.Status, f.Code, grace = 403, "AuthorizationFailed", time.Minute
		late = retryCluster + graceMost
	case "409":
		f.Status, f.Code, f.Method = 409, "AnotherOperationInProgress", "PUT"
	case "412":
		f.Status, f.Code, f.Method = 412, "PreconditionFailed", "PUT"
	case "slow":
		f.Slow, f.Method = 10+d.by.IntN(100), "PUT"
		grace = time.Duration(f.Slow) * time.Second
	case "failing":
		f.Fail, f.Method, f.Code = true, "PUT", one(d, "InternalServerError", "Canceled",
			"OperationPreempted")
	case "stale":
		f.Stale, f.Method = true, "GET"
	}
	// A failure of the network itself prevents repairs of associations. So does throttling of all
	// calls of the subscription to the network provider, or to ARM.
	var excuses []*member
	for _, o := range d.members {
		same := o.cluster.Subscription() == m.cluster.Subscription()
		whole := area == "subscription" && same || area == "lists" && kind == "stale"
		throttled := kind == "429 arm" && (same || area == "lists" || area == "nics" ||
			area == "log") ||
			kind == "429 provider" && (same && area != "cluster" && area != "log" ||
				area == "lists" || area == "nics")
		if area == "network" && o == m || whole || throttled {
			excuses = append(excuses, o)
		}
	}
	until := time.Now().Add(time.Duration(1+d.by.IntN(600)) * time.Second)
	d.tell("fault %s of %s: %s %s until %s", kind, m.name, f.Method, area, until.Format("15:04:05"))
	d.faults = append(d.faults, &fault{until: until, remove: d.inject(f), excuses: excuses,
		grace: graceMost + grace, late: late, what: kind + " " + area})
	if d.by.IntN(2) == 0 {
		d.takeAway(m)
	}
}

// graceMost is how long after a fault a write can still be backing off.
const graceMost = 35 * time.Second

// rest pauses the keepers for a while.
func (d *everything) rest(long time.Duration) {
	d.tell("pause for %s", long)
	d.mu.Lock()
	d.paused = time.Now()
	d.mu.Unlock()
	if d.by.IntN(2) == 0 {
		d.takeAway(one(d, d.members...))
	}
	d.pass(long)
	d.mu.Lock()
	d.paused = time.Time{}
	d.mu.Unlock()
}

// otherConfigs removes a cluster from the config for a while.
func (d *everything) otherConfigs(m *member) {
	if len(d.members) == 1 {
		return
	}
	d.tell("%s leaves the config", m.name)
	m.left = time.Now()
	m.publish()
	d.reload()
	d.pass(time.Duration(1+d.by.IntN(20)) * time.Minute)
	m.left = time.Time{}
	m.publish()
	d.reload()
	d.excuse(m, graceMost, "other configs")
}

func (d *everything) reload() {
	for _, l := range d.lives {
		l.mu.Lock()
		l.k.Reload(d.configs())
		l.mu.Unlock()
	}
}

// killAll kills all keepers at any point, and starts one later: at once, or hours later.
func (d *everything) killAll() {
	d.takeAway(one(d, d.members...))
	d.pass(time.Duration(d.by.IntN(20)) * time.Second)
	for _, l := range slices.Clone(d.lives) {
		d.end(l)
	}
	down := time.Duration(d.by.IntN(60)) * time.Second
	if d.by.IntN(4) == 0 {
		down = time.Duration(d.by.IntN(6)) * time.Hour
	}
	d.tell("killed for %s", down)
	if d.by.IntN(2) == 0 {
		d.takeAway(one(d, d.members...))
	}
	d.pass(down)
	d.tell("started")
	d.start()
}
