package aks

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// How it works. cloudProvider writes a kubenet cluster's routes as cloud-provider-azure does; it
// was compared with the real one. It writes the whole table at once, in batches, from a cached copy
// and with the ETag of that copy. It deletes every route inside the pod CIDR that matches no node,
// whatever its name and next hop, and one batch later every route whose name begins with the
// deleted one's node name. So a route named aks makes all routes of the nodes aks-… disappear for a
// moment, and a node's old pod CIDR makes the route of its new one disappear. A failed write is
// reported to Kubernetes as a success, and retried in each batch with the same copy until the copy
// expires. A wrong next hop is never repaired. The real provider also writes a subnet for a Service
// with a private link service (disablePLSNetworkPolicy in cloud-provider-azure). This one does not.

type cloudProvider struct {
	*AKS
	cluster *cluster

	timer *time.Timer
	// copy is the table as it was last read, and the time of the read.
	copy   kernel.Object
	copied time.Time
	etag   string
	// recreatedNodes were deleted and created again since the last write: one batch deletes and
	// adds their routes.
	recreatedNodes map[*Node]bool
	// deletedNames has the names of the nodes whose routes the last batch deleted. This batch
	// deletes all routes whose names begin with one of them.
	deletedNames []string
}

// retryDelay is the pause after a failed write if the options set no batch time.
const retryDelay = time.Second

// wake makes the provider check its nodes after the batch time, or at once if there is none.
func (p *cloudProvider) wake() {
	if p.kernel.Closed || p.cluster.Paused {
		return
	}
	if p.opts.RouteBatch == 0 {
		p.reconcile()
		return
	}
	p.wakeIn(p.opts.RouteBatch)
}

func (p *cloudProvider) wakeIn(d time.Duration) {
	if p.timer != nil || p.kernel.Closed {
		return // the batch is open already
	}
	p.timer = time.AfterFunc(d, func() {
		defer p.kernel.Lock()()
		p.timer = nil
		cl := p.cluster
		if !p.kernel.Closed && !cl.Paused && p.Clusters[cl.ID.Key()] == cl {
			p.kernel.Guarded("the cloud provider of "+p.cluster.ID.Name(), p.reconcile)
		}
	})
}

func (p *cloudProvider) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.cluster.Paused = true
}

// noteRecreated records a node that was deleted and created again.
func (p *cloudProvider) noteRecreated(n *Node) {
	if p.recreatedNodes == nil {
		p.recreatedNodes = map[*Node]bool{}
	}
	p.recreatedNodes[n] = true
	p.wake()
}

// reconcile writes the routes that the nodes need. With a batch time it checks again after each
// batch, as the route controller does.
func (p *cloudProvider) reconcile() {
	if p.opts.RouteBatch > 0 {
		defer p.wakeIn(p.opts.RouteBatch)
	}
	table := p.read()
	if table == nil {
		p.noteRoutes(nil)
		return
	}
	before := p.deletedNames
	p.deletedNames = nil
	kept, changed := p.keep(kernel.ListAt(table, "properties", "routes"), before)
	routes := append([]any{}, kept...)
	// the routes reported to Kubernetes, including routes that only the next batch writes
	var believed []any
	have := map[string]bool{}
	for _, r := range kept {
		have[p.routeKey(r.(kernel.Object))] = true
	}
	for _, n := range p.cluster.nodes() {
		for _, prefix := range n.PodCIDRs {
			if have[p.keyOf(n, prefix)] {
				continue
			}
			route := p.route(n, prefix)
			switch {
			case route == nil:
			case beginsAs(before, strings.ToLower(n.Name)):
				believed = append(believed, route) // the next batch adds it
			default:
				routes = append(routes, route)
				changed = true
			}
		}
	}
	believed = append(believed, routes...)
	if !changed {
		p.noteRoutes(believed)
		return
	}
	body := kernel.Object{
		"location": table["location"],
		"properties": kernel.Object{
			"disableBgpRoutePropagation": kernel.ObjectAt(table,
				"properties")["disableBgpRoutePropagation"],
			"routes": routes,
		},
	}
	if table["tags"] != nil {
		body["tags"] = table["tags"]
	}
	c := p.cluster.call(http.MethodPut, p.cluster.Table, body)
	c.Header.Set("If-Match", p.etag)
	answer, f := p.admittedPut(c, p.cluster.Table)
	p.kernel.Requests.Add(c, time.Now(), answer, "cloud provider")
	if f != nil {
		// the error is lost: updateRoutes shadows it (cloud-provider-azure#11003)
		p.noteRoutes(believed)
		// The copy is used until it expires, so the next writes fail in the same way.
		level := slog.LevelDebug
		if f.Status == http.StatusForbidden || f.Status == http.StatusUnauthorized {
			level = slog.LevelWarn
		}
		p.kernel.Log.Log(context.Background(), level, "the cloud provider could not write "+
			"its routes", "cluster", p.cluster.ID.Name(), "code", f.Code, "message", f.Message)
		if p.opts.RouteBatch == 0 {
			p.wakeIn(retryDelay)
		}
		return
	}
	p.copy, p.recreatedNodes = nil, nil
	p.noteRoutes(believed)
}

// routesSeen is what the cloud provider reported about a node's routes: condition
// NetworkUnavailable.
type routesSeen struct {
	Since time.Time `json:"routesSeen,omitzero"` // zero: nothing yet
	There bool      `json:"routesThere,omitempty"`
}

// noteRoutes sets the nodes' condition from the routes that the provider believes to be written.
// They may be missing.
func (p *cloudProvider) noteRoutes(routes []any) {
	have := map[string]bool{}
	for _, r := range routes {
		have[p.routeKey(r.(kernel.Object))] = true
	}
	changed := false
	for _, n := range p.cluster.nodes() {
		there := true
		for _, prefix := range n.PodCIDRs {
			there = there && have[p.keyOf(n, prefix)]
		}
		if n.routesSeen.Since.IsZero() || n.routesSeen.There != there {
			n.routesSeen = routesSeen{time.Now(), there}
			changed = true
		}
	}
	if r := p.kernel.Store.Get(p.cluster.ID); changed && r != nil {
		p.kernel.Store.Changed(r)
	}
}

// admittedPut writes a resource in the name of a program that runs in a cluster. It refuses a call
// that a fault for the caller matches. If the options require roles, it also refuses a call that
// the caller may not make.
func (s *AKS) admittedPut(c *kernel.Call, id arm.ID) (answer kernel.Reply, f *kernel.Failure) {
	c.Fault = s.kernel.Faults.Take(c, true)
	defer func() {
		if f != nil {
			answer = f.Reply()
		}
	}()
	if c.Fault != nil && c.Fault.Before() {
		return answer, c.Fault.Failure()
	}
	if s.opts.CheckClusterIdentity {
		if !s.entra.Identity.Has(c.Who) {
			return answer, kernel.Fail(http.StatusUnauthorized, "InvalidAuthenticationToken",
				"The identity %s of the cluster is gone: it gets no token.", c.Who.Resource)
		}
		if f := s.authorization.Authorize(c); f != nil {
			return answer, f
		}
	}
	if f := s.authorization.Govern(c); f != nil {
		return answer, f
	}
	answer, f = s.kernel.PutCall(c, id)
	if f == nil && c.Fault != nil && c.Fault.After() {
		f = c.Fault.Failure() // the caller never learns that the write took effect
	}
	return answer, f
}

// read returns the copy of the table, or reads it again if the copy has expired.
func (p *cloudProvider) read() kernel.Object {
	// The real provider reads the table between its batches, so one copy serves all batches until
	// it expires. Here a batch reads the table, and the copy's last batch runs at the moment when
	// the copy expires. So the copy is used a little longer.
	if p.copy != nil && time.Since(p.copied) < p.opts.RouteCache+p.opts.RouteBatch/20 {
		return p.copy
	}
	r := p.kernel.Store.Get(p.cluster.Table)
	if r == nil {
		p.copy = nil
		return nil
	}
	p.copy, p.copied, p.etag = p.kernel.Document(r, kernel.NetworkVersion), time.Now(), r.LastTag()
	return p.copy
}

// keep returns the routes to keep: all routes outside the pod CIDRs and, of the routes inside, the
// ones whose node has exactly this pod CIDR, wherever they lead. It does not keep the routes inside
// whose names begin with a name that the previous batch deleted, nor the ones of recreated nodes.
func (p *cloudProvider) keep(routes []kernel.Object, before []string) (kept []any, changed bool) {
	byName := map[string]*Node{}
	for _, n := range p.cluster.nodes() {
		byName[strings.ToLower(n.Name)] = n
	}
	for _, r := range routes {
		prefix, err := netip.ParsePrefix(kernel.Text(r, "properties", "addressPrefix"))
		if err != nil || !p.responsible(prefix) {
			kept = append(kept, r)
			continue
		}
		name := strings.ToLower(inventory.RouteNode(kernel.Text(r, "name")))
		n := byName[name]
		switch {
		case beginsAs(before, name):
		case n != nil && !p.recreatedNodes[n] && slices.Contains(n.PodCIDRs, prefix):
			kept = append(kept, r)
			continue
		// without batches, no second batch follows that deletes more
		case p.opts.RouteBatch > 0:
			p.deletedNames = append(p.deletedNames, name)
		}
		changed = true
	}
	return kept, changed
}

func beginsAs(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) })
}

// responsible reports whether a route is the provider's to delete: its first or its last address is
// in a pod CIDR. So the route may be wider than the pod CIDR (isResponsibleForRoute in Kubernetes'
// controllers/route/route_controller.go).
func (p *cloudProvider) responsible(prefix netip.Prefix) bool {
	first, last := ends(prefix)
	return slices.ContainsFunc(p.cluster.PodCIDRs, func(cidr netip.Prefix) bool {
		return cidr.Contains(first) || cidr.Contains(last)
	})
}

// ends returns the first and the last address of a prefix.
func ends(prefix netip.Prefix) (first, last netip.Addr) {
	first = prefix.Masked().Addr()
	raw := first.AsSlice()
	for bit := prefix.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 1 << (7 - bit%8)
	}
	last, _ = netip.AddrFromSlice(raw) // it has the length of an address
	return first, last
}

// route returns the route that a node needs for a pod CIDR; nil if the node has no address of that
// family.
func (p *cloudProvider) route(n *Node, prefix netip.Prefix) kernel.Object {
	for _, a := range n.Addrs {
		if a.Is4() == prefix.Addr().Is4() {
			return kernel.Object{"name": inventory.PodRouteName(n.Name, prefix),
				"properties": kernel.Object{
					"addressPrefix": prefix.String(), "nextHopType": inventory.HopAppliance,
					"nextHopIpAddress": a.String(),
				}}
		}
	}
	return nil
}

// routeKey identifies a route as the provider does: by node, ignoring case, and prefix, but not by
// next hop.
func (p *cloudProvider) routeKey(r kernel.Object) string {
	return strings.ToLower(inventory.RouteNode(kernel.Text(r, "name"))) + " " + kernel.Text(r,
		"properties", "addressPrefix")
}

// keyOf returns the routeKey of the route that a node needs for a pod CIDR.
func (p *cloudProvider) keyOf(n *Node, prefix netip.Prefix) string {
	return strings.ToLower(n.Name) + " " + prefix.String()
}

// resume lets a paused provider continue, with a new copy.
func (p *cloudProvider) resume() {
	p.cluster.Paused, p.copy = false, nil
	if p.cluster.Table != "" {
		p.wake()
	}
}

// PauseRoutes pauses or resumes a cluster's cloud provider.
func (s *AKS) PauseRoutes(clusterID arm.ID, paused bool) bool {
	defer s.kernel.Lock()()
	cl := s.Clusters[clusterID.Key()]
	if cl == nil {
		return false
	}
	cl.Paused = paused
	if !paused {
		cl.provider.resume()
	}
	return true
}
