package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// scene is one event in a network, with a check of the result. play gets the gateway's table as it
// is when the scene begins.
type scene struct {
	name, title string
	play        func(context.Context, *stage, table) (detail string, err error)
	nodes       int // how many the cluster has when the scene begins
}

var scenes = []scene{
	{"sync", "The gateway's table gets the cluster's pod routes", playSync, 3},
	{"scale-out", "The cluster grows from 3 to 6 nodes", playScaleOut, 3},
	{"strip", "A redeploy PUTs the node subnet and the gateway subnet without their route tables",
		playStrip, 6},
	{"next-hop", "A node comes back under its name with another address", playNextHop, 6},
	{"unmanaged", "Other writers add routes to the gateway's table", playUnmanaged, 6},
	{"scale-in", "The cluster shrinks to 2 nodes", playScaleIn, 7},
	{"safeguard", "The cluster's route table suddenly reads empty while its nodes exist",
		playSafeguard, 2},
	{"firewall", "A redeploy takes the firewall's table and the security group off an overlay " +
		"cluster's subnet", playFirewall, 2},
	{"quiet", "Three checks with nothing to do", playQuiet, 2},
}

// copied checks that the gateway's table has exactly the wanted pod routes of the cluster's table,
// and that its other routes are still rest.
func (s *stage) copied(want int, rest map[string]string) func() error {
	return func() error {
		source, err := s.table(s.demo.ClusterTable)
		if err != nil {
			return err
		}
		target, err := s.table(s.demo.GatewayTable)
		if err != nil {
			return err
		}
		from, to := source.pods(), target.pods()
		if len(from) != want {
			return fmt.Errorf("the cluster's table has %d pod routes, not %d", len(from), want)
		}
		for prefix, r := range from {
			if to[prefix].hop != r.hop {
				return fmt.Errorf("%s leads to %q in the gateway's table and to %s in the "+
					"cluster's", prefix, to[prefix].hop, r.hop)
			}
		}
		if len(to) != len(from) {
			return fmt.Errorf("the gateway's table has %d pod routes, the cluster's %d", len(to),
				len(from))
		}
		return checkUnmanaged(rest, target.otherRoutes())
	}
}

// checkUnmanaged returns an error if the unmanaged routes have changed.
func checkUnmanaged(before, after map[string]string) error {
	for name, text := range before {
		switch now, there := after[name]; {
		case !there:
			return fmt.Errorf("the unmanaged route %s is gone", name)
		case now != text:
			return fmt.Errorf("the unmanaged route %s was %s and is %s", name, text, now)
		}
	}
	for name, text := range after {
		if _, there := before[name]; !there {
			return fmt.Errorf("an unexpected route appeared: %s", text)
		}
	}
	return nil
}

// unmanaged returns the routes of the gateway's table that are not pod routes.
func (s *stage) unmanaged() (map[string]string, error) {
	t, err := s.table(s.demo.GatewayTable)
	return t.otherRoutes(), err
}

func playSync(ctx context.Context, s *stage, t table) (string, error) {
	rest := t.otherRoutes()
	if len(rest) != 1 {
		return "", fmt.Errorf("the gateway's table should begin with one route of its own, it "+
			"has %d", len(rest))
	}
	return fmt.Sprintf("3 pod routes copied; its own route %s stays; the cluster's 0.0.0.0/0 to "+
		"the firewall is not copied", s.demo.OwnRoute), s.checkUntil(ctx, s.copied(3, rest))
}

// scale sets the number of nodes, through ARM.
func (s *stage) scale(count int) error {
	id := s.demo.Cluster.Child("agentPools", s.demo.Pool)
	doc, err := s.get(id)
	if err != nil {
		return err
	}
	doc["properties"].(map[string]any)["count"] = count
	return s.put(id, doc)
}

func playScaleOut(ctx context.Context, s *stage, t table) (string, error) {
	if err := s.scale(6); err != nil {
		return "", err
	}
	return "three more routes in the gateway's table, 6 in all",
		s.checkUntil(ctx, s.copied(6, t.otherRoutes()))
}

func playStrip(ctx context.Context, s *stage, _ table) (string, error) {
	subnets := []arm.ID{s.demo.NodeSubnet, s.demo.GatewaySubnet}
	before := map[arm.ID]map[string]any{}
	for _, id := range subnets {
		doc, err := s.get(id)
		if err != nil {
			return "", err
		}
		before[id] = doc
		// A template that does not name the table keeps everything else.
		stripped := maps.Clone(doc)
		stripped["properties"] = maps.Clone(doc["properties"].(map[string]any))
		delete(stripped["properties"].(map[string]any), "routeTable")
		if err := s.put(id, stripped); err != nil {
			return "", err
		}
		now, err := s.get(id)
		if err != nil {
			return "", err
		}
		if now["properties"].(map[string]any)["routeTable"] != nil {
			return "", fmt.Errorf("the redeploy did not strip the table from %s", id.Short())
		}
	}
	err := s.checkUntil(ctx, func() error {
		for _, id := range subnets {
			if err := s.unchanged(id, before[id]); err != nil {
				return err
			}
		}
		return nil
	})
	return "both have their tables again; NSG, service endpoints, delegations and a field " +
		"unknown to every SDK are unchanged", err
}

// unchanged compares a resource with what it was before a redeploy, field by field.
func (s *stage) unchanged(id arm.ID, before map[string]any) error {
	now, err := s.get(id)
	if err != nil {
		return err
	}
	x, err := json.Marshal(before)
	if err != nil {
		return err
	}
	y, err := json.Marshal(now)
	if err != nil {
		return err
	}
	differing, err := arm.Differences(x, y)
	if err == nil && len(differing) > 0 {
		err = fmt.Errorf("%s differs from before the redeploy in %v", id.Short(), differing)
	}
	return err
}

func playNextHop(ctx context.Context, s *stage, t table) (string, error) {
	source, err := s.table(s.demo.ClusterTable)
	if err != nil {
		return "", err
	}
	pods := source.pods()
	moved := pods[slices.Sorted(maps.Keys(pods))[1]]
	if err := s.e.Readdress(s.demo.Cluster, inventory.RouteNode(moved.name)); err != nil {
		return "", err
	}
	var now route
	copied := s.copied(len(pods), t.otherRoutes())
	err = s.checkUntil(ctx, func() error {
		target, err := s.table(s.demo.GatewayTable)
		if err != nil {
			return err
		}
		now = target.routes[moved.name]
		if now.hop == moved.hop || now.prefix != moved.prefix {
			return fmt.Errorf("the route %s still leads from %s to %s", moved.name, now.prefix,
				now.hop)
		}
		return copied()
	})
	return fmt.Sprintf("%s led to %s and now leads to %s", moved.prefix, moved.hop, now.hop), err
}

// othersRoutes are the routes that other writers add: name, destination, and next hop; "" is the
// firewall.
var othersRoutes = [][3]string{
	{"all-pods-to-firewall", "10.244.0.0/16", ""},
	{"to-branch-office-2", "10.61.0.0/16", ""},
	// a second cluster, with the same pod CIDR
	{"aks-pool1-87654321-vmss000000____1024410024", "10.244.100.0/24", "10.43.1.4"},
	{"aks-pool1-87654321-vmss000001____1024410124", "10.244.101.0/24", "10.43.1.5"},
}

func playUnmanaged(ctx context.Context, s *stage, t table) (string, error) {
	own := len(t.otherRoutes())
	properties := t.doc["properties"].(map[string]any)
	routes := properties["routes"].([]any)
	for _, r := range othersRoutes {
		routes = append(routes, map[string]any{"name": r[0], "properties": map[string]any{
			"addressPrefix": r[1], "nextHopType": inventory.HopAppliance,
			"nextHopIpAddress": cmp.Or(r[2], s.demo.Firewall),
		}})
	}
	properties["routes"] = routes
	if err := s.put(s.demo.GatewayTable, t.doc); err != nil {
		return "", err
	}
	rest, err := s.unmanaged()
	if err != nil {
		return "", err
	}
	if len(rest) != own+len(othersRoutes) {
		return "", fmt.Errorf("expected %d unmanaged routes, found %d", own+len(othersRoutes),
			len(rest))
	}
	// One more node makes the keeper write the table while these routes are in it.
	pods := len(t.pods()) + 1
	if err := s.scale(pods); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d unmanaged routes, two of them inside the pod CIDR and one around it, "+
			"survive a sync of %d pod routes byte for byte", len(rest), pods),
		s.checkUntil(ctx, s.copied(pods, rest))
}

func playScaleIn(ctx context.Context, s *stage, t table) (string, error) {
	before := len(t.pods())
	if err := s.scale(2); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d of %d routes are gone, confirmed by the scale sets' network "+
			"interfaces; no other route changed", before-2, before),
		s.checkUntil(ctx, s.copied(2, t.otherRoutes()))
}

func playSafeguard(ctx context.Context, s *stage, target table) (string, error) {
	source, err := s.table(s.demo.ClusterTable)
	if err != nil {
		return "", err
	}
	s.e.PauseRoutes(s.demo.Cluster, true)
	pods := source.pods()
	if err := s.remove(s.demo.ClusterTable, source, source.isPod); err != nil {
		return "", err
	}
	why := ""
	held := func() bool {
		i := slices.IndexFunc(s.findings, func(f finding.Finding) bool {
			return f.Code == finding.DeletesWithheld
		})
		if i >= 0 {
			why = s.findings[i].Message
		}
		return i >= 0
	}
	unchanged := func() error {
		now, err := s.table(s.demo.GatewayTable)
		if err != nil {
			return err
		}
		if len(now.pods()) != len(target.pods()) {
			return fmt.Errorf("the gateway's table has %d pod routes left of %d", len(now.pods()),
				len(target.pods()))
		}
		return checkUnmanaged(target.otherRoutes(), now.otherRoutes())
	}
	for range 3 {
		if _, err := s.reconcile(ctx); err != nil {
			return "", err
		}
		if err := unchanged(); err != nil {
			return "", err
		}
		if !held() {
			return "", fmt.Errorf("no finding says why nothing is deleted")
		}
	}
	s.e.PauseRoutes(s.demo.Cluster, false)
	copied := s.copied(len(pods), target.otherRoutes())
	return "meanwhile: " + why + "; once the table is back, all routes are in sync",
		s.checkUntil(ctx, func() error {
			if held() {
				return fmt.Errorf("deletes are still withheld")
			}
			return copied()
		})
}

func playQuiet(ctx context.Context, s *stage, _ table) (string, error) {
	before := s.e.LastRequest()
	for range 3 {
		r, err := s.reconcile(ctx)
		if err != nil {
			return "", err
		}
		if !r.Complete {
			return "", fmt.Errorf("a check did not read everything: %+v", r.Findings)
		}
	}
	reads := 0
	for _, r := range s.e.Requests(before) {
		switch {
		case r.Principal != KeeperPrincipal.Name:
		case r.Method != "GET":
			return "", fmt.Errorf("%s %s with nothing to do", r.Method, r.Path)
		default:
			reads++
		}
	}
	return fmt.Sprintf("nothing is written; %d reads per check", reads/3), nil
}

// prepare brings the network into the state in which a scene begins.
func (s *stage) prepare(ctx context.Context, i int) error {
	s.opts.Pause(false)
	t, err := s.table(s.demo.GatewayTable)
	if err != nil {
		return err
	}
	err = s.remove(s.demo.GatewayTable, t, func(name string) bool {
		return slices.ContainsFunc(othersRoutes, func(r [3]string) bool { return r[0] == name })
	})
	if err != nil {
		return err
	}
	rest, err := s.unmanaged()
	if err != nil {
		return err
	}
	if err := s.scale(scenes[i].nodes); err != nil {
		return err
	}
	if err := s.checkUntil(ctx, s.copied(scenes[i].nodes, rest)); err != nil || i > 0 {
		return err
	}
	// The first scene begins without copies.
	s.opts.Pause(true)
	if _, err := s.reconcile(ctx); err != nil { // no write is under way
		return err
	}
	if t, err = s.table(s.demo.GatewayTable); err != nil {
		return err
	}
	return s.remove(s.demo.GatewayTable, t, t.isPod)
}

// remove takes routes out of a table.
func (s *stage) remove(id arm.ID, t table,
	leaves func(name string) bool) error {
	properties := t.doc["properties"].(map[string]any)
	before := properties["routes"].([]any)
	after := slices.DeleteFunc(slices.Clone(before), func(r any) bool {
		name, _ := r.(map[string]any)["name"].(string)
		return leaves(name)
	})
	if len(after) == len(before) {
		return nil
	}
	properties["routes"] = after
	return s.put(id, t.doc)
}
