package keeper

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// ServeHTTP is Azure as the keeper sees it.
func (k *differing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		k.judge(r.Method, arm.ID(r.URL.Path), r.Header.Get("If-Match"), body)
	}
	k.d.e.ServeHTTP(w, r)
}

// judge checks that a write changes only what it may.
func (k *differing) judge(method string, id arm.ID, etag string, body []byte) {
	d, now := k.d, k.d.raw(id)
	if method != http.MethodPut || etag == "" {
		d.t.Errorf("at %s keeper %d does %s %s, If-Match %q", time.Now(), k.n, method, id, etag)
	}
	if now == nil || etagIn(now) != etag {
		return // Azure refuses it
	}
	if id.Is(arm.TypeSubnet) {
		k.judgeSubnet(id, now, body)
		return
	}
	k.judgeTable(id, now, body)
}

// asks reports whether a config asks for something of a subnet, and whether in place of another.
func (k *differing) asks(c v1alpha1.ClusterRoutes, id arm.ID, property inventory.Property,
	value, has arm.ID) bool {
	g := c.Spec.Guard
	mode := g.Mode
	if property == inventory.PropertyGroup {
		mode = g.OfGroups()
	}
	if mode != v1alpha1.GuardEnforce || has != "" && g.OnOtherTable != v1alpha1.OtherTableReplace {
		return false
	}
	for _, s := range k.d.sides {
		if property == inventory.PropertyTable && s.table != "" && s.subnet.Equal(id) &&
			s.cluster.Equal(arm.ID(c.Spec.ClusterID)) && !s.gone.Load() &&
			value.Equal(arm.ID(cmp.Or(c.Spec.RouteTableID, string(s.table)))) {
			return true
		}
	}
	return slices.ContainsFunc(g.Subnets, func(s v1alpha1.GuardedSubnet) bool {
		return id.Equal(arm.ID(s.SubnetID)) && value.Equal(guardedValue(s, property))
	})
}

func guardedValue(s v1alpha1.GuardedSubnet, property inventory.Property) arm.ID {
	switch property {
	case inventory.PropertyNAT:
		return arm.ID(s.NATGatewayID)
	case inventory.PropertyGroup:
		return arm.ID(s.NetworkSecurityGroupID)
	case inventory.PropertyTable:
	}
	return arm.ID(s.RouteTableID)
}

func (k *differing) judgeSubnet(id arm.ID, now, body []byte) {
	d := k.d
	paths, err := arm.Differences(now, body)
	was, err1 := inventory.DecodeSubnet(now)
	is, err2 := inventory.DecodeSubnet(body)
	if err != nil || err1 != nil || err2 != nil {
		d.t.Errorf("the PUT of %s: %v, %v, %v", id.Short(), err, err1, err2)
		return
	}
	for _, path := range paths {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "properties."), ".")
		property := inventory.Property(name)
		if path == "properties.ipConfigurations" {
			continue
		}
		if !slices.Contains(inventory.Properties, property) ||
			!slices.ContainsFunc(k.had(), func(c v1alpha1.ClusterRoutes) bool {
				return k.asks(c, id, property, is.Has(property), was.Has(property))
			}) {
			d.t.Errorf("at %s keeper %d changes %s of %s from %q to %q", time.Now(), k.n, path,
				id.Short(), was.Has(property), is.Has(property))
		}
		d.count(place{id.Key(), path})
	}
}

func (d *differ) count(at place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes[at]++
	d.puts++
}

func (k *differing) judgeTable(id arm.ID, now, body []byte) {
	d := k.d
	if !reflect.DeepEqual(withoutRoutes(now), withoutRoutes(body)) {
		d.t.Errorf("at %s the PUT of %s changes more than routes", time.Now(), id.Short())
	}
	was, is := theirsIn(now), theirsIn(body)
	for name := range was {
		if is[name] != was[name] {
			if name != "out" || !slices.ContainsFunc(k.had(), func(c v1alpha1.ClusterRoutes) bool {
				return id.Equal(arm.ID(c.Spec.Egress.RouteTableID)) &&
					c.Spec.Egress.Mode == v1alpha1.GuardEnforce
			}) {
				d.t.Errorf("at %s keeper %d changes %s in %s to %q", time.Now(), k.n, was[name],
					id.Short(), is[name])
			}
			d.count(place{id.Key(), name})
		}
	}
	before, after := nodeRoutes(now), nodeRoutes(body)
	for prefix, hop := range after {
		if before[prefix] != hop {
			d.count(place{id.Key(), prefix.String()})
		}
	}
	for prefix, hop := range before {
		next, stays := after[prefix]
		if stays && next == hop {
			continue
		}
		d.count(place{id.Key(), prefix.String()})
		for _, s := range d.sides {
			if d.living(s)[prefix] == hop && !k.prunes(s) {
				d.t.Errorf("at %s keeper %d takes the route %s to %s, a node of %s, off %s (now "+
					"%s)", time.Now(), k.n, prefix, hop, s.name, id.Short(), next)
			}
		}
	}
}

// prunes reports whether the keeper must delete the routes of a cluster: its config, with onRemoval
// Prune, was removed a moment ago.
func (k *differing) prunes(s *side) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.recent, func(r drawn) bool {
		return time.Since(r.until) < leavingFor+2*underway &&
			slices.ContainsFunc(r.configs, func(c v1alpha1.ClusterRoutes) bool {
				return s.cluster.Equal(arm.ID(c.Spec.ClusterID)) &&
					c.Spec.OnRemoval == v1alpha1.RemovalPrune
			})
	})
}

// checkSaid checks that a keeper says what is not as its config asks.
func (k *differing) checkSaid() {
	d := k.d
	for _, c := range k.configs {
		i := slices.IndexFunc(d.sides, func(s *side) bool {
			return s.cluster.Equal(arm.ID(c.Spec.ClusterID))
		})
		if d.sides[i].gone.Load() {
			continue // what a cluster needed is not kept without it
		}
		expect := func(id arm.ID, what string) {
			for _, said := range k.said { // a subnet can be several configs'
				if slices.ContainsFunc(said, func(f finding.Finding) bool {
					return id.Equal(arm.ID(f.Resource)) || id.Parent().Equal(arm.ID(f.Resource))
				}) {
					return
				}
			}
			d.t.Errorf("keeper %d does not say of %s: %s; it says %v", k.n, c.Metadata.Name, what,
				k.said[c.Metadata.Name])
		}
		for _, s := range c.Spec.Guard.Subnets {
			subnet, err := inventory.DecodeSubnet(d.raw(arm.ID(s.SubnetID)))
			if err != nil {
				d.t.Error(err)
				continue
			}
			for _, property := range inventory.Properties {
				want := guardedValue(s, property)
				if want != "" && !want.Equal(subnet.Has(property)) &&
					c.Spec.Guard.Mode != v1alpha1.GuardOff {
					expect(subnet.ID, fmt.Sprintf("%s has %q instead of %q", subnet.ID.Short(),
						subnet.Has(property), want))
				}
			}
		}
		unknown := slices.ContainsFunc(k.said[c.Metadata.Name], func(f finding.Finding) bool {
			return f.Code == finding.TableUnknown // no target of the cluster is written
		})
		for _, target := range c.Spec.Targets {
			if unknown {
				break
			}
			id := arm.ID(target.RouteTableID)
			has := nodeRoutes(d.raw(id))
			for prefix, hop := range d.living(d.sides[i]) {
				if has[prefix] != hop {
					expect(id, fmt.Sprintf("%s lacks %s to %s", id.Short(), prefix, hop))
				}
			}
		}
		for _, r := range c.Spec.Egress.Routes {
			if hops := theirsIn(d.raw(arm.ID(c.Spec.Egress.RouteTableID))); !strings.Contains(
				hops["out"], `"`+r.NextHopIPAddress+`"`) {
				expect(arm.ID(c.Spec.Egress.RouteTableID), "egress goes to "+hops["out"])
			}
		}
	}
}
