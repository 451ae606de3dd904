package keeper

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/trace"
)

// What Azure's own process breaks while nodes move, for the pods of a surge node alone: until the
// cloud provider has written its route in its next batch, nothing reaches them; then the gateway
// waits until the keeper has copied the route, which takes an interval and the write.
const (
	providerWrites = 30 * time.Second
	keeperCopies   = 10*time.Second + 5*time.Second
)

// tracer traces clusters after every write.
type tracer struct {
	t       *testing.T
	members []*traced
}

// traced is a cluster that migrates, with an Application Gateway whose table has its pod routes.
type traced struct {
	name                               string
	cluster, vnet, table, gatewayTable arm.ID
	before                             []string // its nodes; nil: it is not traced
	surged                             map[string]time.Time
	states, mixed                      int
	waited                             bool // a pair to a surge node was broken
}

func (c *traced) config() v1alpha1.ClusterRoutes {
	config := configure(c.name, c.cluster, c.gatewayTable)
	config.Spec.Guard.Subnets = []v1alpha1.GuardedSubnet{{
		SubnetID: string(c.vnet.Child("subnets", "appgw")), RouteTableID: string(c.gatewayTable)}}
	return config
}

// wrote traces every pair of the cluster that a write concerns.
func (tr *tracer) wrote(id arm.ID, state emulator.State) {
	for _, c := range tr.members {
		group := strings.ToLower(id.ResourceGroup())
		if c.before != nil && (strings.EqualFold(group, c.cluster.ResourceGroup()) ||
			strings.HasPrefix(group, "mc_"+c.name+"-rg_")) {
			tr.trace(c, snapshotOf(tr.t, state, c))
		}
	}
}

func (tr *tracer) trace(c *traced, s *inventory.Snapshot) {
	c.states++
	if s.Cluster(c.cluster).Migrating {
		c.mixed++
	}
	for _, n := range s.Kubernetes[c.cluster.Key()].Nodes {
		if _, known := c.surged[n.Name]; !known && !slices.Contains(c.before, n.Name) {
			c.surged[n.Name] = time.Now()
		}
	}
	m := trace.New(s, trace.Options{}).All(c.cluster)
	if m.Pairs == 0 {
		tr.t.Errorf("%s: no pairs", c.name)
	}
	for _, b := range m.Broken {
		for _, to := range b.To {
			within := providerWrites
			if strings.Contains(b.From[0], "appgw") {
				within += keeperCopies
			}
			since, surge := c.surged[to]
			if c.waited = true; !surge || time.Since(since) > within {
				tr.t.Errorf("%s, surge node: %t (for %v): %s from %v to %s %s: %s", c.name, surge,
					time.Since(since), b.Kind, b.From, to, b.Verdict, b.Why)
			}
		}
	}
}

// snapshotOf reads what trace --all reads of a cluster.
func snapshotOf(t *testing.T, state emulator.State, c *traced) *inventory.Snapshot {
	s := inventory.NewSnapshot()
	list := func(path arm.ID, version string) {
		var answer struct{ Value []json.RawMessage }
		if err := json.Unmarshal(state.Get(path, version), &answer); err != nil {
			return // gone
		}
		for _, raw := range answer.Value {
			if err := s.Add(raw); err != nil {
				t.Error(err)
			}
		}
	}
	if err := s.Add(state.Get(c.cluster, aksAPI)); err != nil {
		t.Error(err)
	}
	k := &inventory.Kubernetes{}
	var err error
	if k.Nodes, err = inventory.DecodeNodes(state.Nodes(c.cluster)); err != nil {
		t.Error(err)
	}
	s.Kubernetes[c.cluster.Key()] = k
	cluster := s.Cluster(c.cluster).Mixed(k.Nodes)
	s.Clusters[c.cluster.Key()] = cluster
	of := c.cluster.Group() + "/providers/Microsoft.Network/"
	for _, kind := range []arm.ID{"virtualNetworks", "routeTables", "applicationGateways"} {
		list(of+kind, networkAPI)
	}
	var sets struct{ Value []struct{ ID arm.ID } }
	if err := json.Unmarshal(state.Get(cluster.NodeGroup()+"/providers/"+arm.TypeScaleSet,
		"2025-04-01"), &sets); err != nil || len(sets.Value) == 0 {
		t.Errorf("%s: no scale sets: %v", c.name, err)
	}
	for _, set := range sets.Value {
		list(set.ID+"/networkInterfaces", "2018-10-01")
	}
	s.InterfacesOf = append(s.InterfacesOf, cluster.NodeGroup())
	return s
}

// TestFleetMigrates: three clusters of the fleet migrate with their gateways in use, one a minute
// after the other, while a keeper keeps the gateways' tables. After every write of anyone, every
// pair of nodes, and of gateway and node, is traced. A pair is broken only as Azure breaks it.
func TestFleetMigrates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := &tracer{t: t}
		opts := slow
		opts.OperationTime, opts.CheckClusterIdentity, opts.Wrote = 0, true, tr.wrote
		w := emptyWorld(t, opts)
		if _, err := emulator.BuildFleet(w.e, emulatortest.Operator); err != nil {
			t.Fatal(err)
		}
		var configs []v1alpha1.ClusterRoutes
		for _, name := range []string{"shop-01", "shop-23", "shop-25"} {
			id := func(kind, suffix string) arm.ID {
				return arm.ResourceID(emulator.DefaultSubscription, name+"-rg", kind, name+suffix)
			}
			c := &traced{name: name, cluster: id(arm.TypeCluster, ""),
				vnet: id(arm.TypeVNet, "-vnet"), table: id(arm.TypeRouteTable, "-rt"),
				gatewayTable: id(arm.TypeRouteTable, "-appgw-rt"), surged: map[string]time.Time{}}
			tr.members, configs = append(tr.members, c), append(configs, c.config())
		}
		k := w.run(10*time.Second, configs...)
		k.since(time.Minute)
		for _, c := range tr.members {
			before := w.get(c.table)["properties"].(object)["routes"].([]any)
			for _, r := range before {
				c.before = append(c.before, inventory.RouteNode(r.(object)["name"].(string)))
			}
			w.migrate(c.cluster, 600)
			k.since(time.Minute)
		}
		k.since(15 * time.Minute)
		for _, c := range tr.members {
			if c.mixed < 5 || !c.waited || len(c.surged) == 0 || c.states == c.mixed {
				t.Errorf("%s: %d states, %d while nodes moved, %d surge nodes, waited: %t", c.name,
					c.states, c.mixed, len(c.surged), c.waited)
			}
			if own := w.routes(c.table); len(own) > 0 || len(c.before) != 3 {
				t.Errorf("%s: of %d routes are left: %v", c.name, len(c.before), own)
			}
		}
	})
}

// migrate starts a cluster's migration to overlay.
func (w *world) migrate(cluster arm.ID, seconds int) {
	w.t.Helper()
	if _, err := w.e.Inject(emulator.Fault{Method: http.MethodPut,
		Path: "/managedClusters/" + cluster.Name() + "$", Slow: seconds}); err != nil {
		w.t.Fatal(err)
	}
	w.edit(cluster, func(p object) {
		p["networkProfile"] = object{"networkPlugin": "azure", "networkPluginMode": "overlay",
			"podCidr": p["networkProfile"].(object)["podCidr"]}
	})
}
