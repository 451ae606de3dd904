package diagnose

import (
	"context"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const api = "2025-05-01"

// local is the demo's cluster in an emulator, with its documents as ARM shows them.
type local struct {
	t *testing.T
	e *emulator.Emulator
	d emulator.Demo
	c *azure.Client
}

func newLocal(t *testing.T) *local {
	e := emulatortest.New(t, emulator.Options{})
	d, err := emulator.BuildDemo(e, emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	return &local{t, e, d, emulatortest.Client(t, e, emulatortest.Keeper)}
}

// finds reads everything that a diagnosis needs, and checks that exactly the given codes are found,
// in addition to those of severity Info.
func (l *local) finds(codes ...finding.Code) {
	l.t.Helper()
	ctx := context.Background()
	scope := l.d.Cluster.SubscriptionID()
	s, err := l.c.Survey(ctx, scope)
	if err == nil {
		err = l.c.Examine(ctx, s)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	config := v1alpha1.ClusterRoutes{}
	config.Metadata.Name, config.Spec.ClusterID, config.Spec.RouteTableID =
		"shop", string(l.d.Cluster), string(l.d.ClusterTable)
	config.Spec.Guard.Mode = v1alpha1.GuardObserve
	config.SetDefaults()
	found := Check(Case{Snapshot: s, Clusters: []arm.ID{l.d.Cluster},
		Configs: []v1alpha1.ClusterRoutes{config}})
	var got []finding.Code
	for _, f := range found {
		if f.Severity > finding.Info {
			got = append(got, f.Code)
		}
	}
	if slices.Sort(got); !slices.Equal(slices.Compact(got), codes) {
		l.t.Errorf("found %v, want %v", got, codes)
		for _, f := range found {
			l.t.Logf("%s %s: %s %q", f.Severity, f.Code, f.Message, f.Evidence)
		}
	}
}

// write writes a route into the cluster's route table, as a user might.
func (l *local) write(name, prefix, hop string) {
	l.t.Helper()
	c, err := l.e.Client(emulatortest.Operator)
	if err == nil {
		err = c.Put(l.d.ClusterTable.Child("routes", name), api,
			object{"properties": object{"addressPrefix": prefix, "nextHopType": "VirtualAppliance",
				"nextHopIpAddress": hop}})
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// node is the name of a node, as a route names it.
func (l *local) node() string {
	l.t.Helper()
	s := inventory.NewSnapshot()
	if err := l.c.Read(context.Background(), s,
		inventory.Wanted{Tables: []arm.ID{l.d.ClusterTable}}, azure.ReadOptions{}); err != nil {
		l.t.Fatal(err)
	}
	for _, r := range s.Table(l.d.ClusterTable).Routes() {
		if r.Prefix.Bits() == 24 {
			return inventory.RouteNode(r.Name)
		}
	}
	l.t.Fatal("no pod route")
	return ""
}

func (l *local) paused(paused bool) {
	if !l.e.PauseRoutes(l.d.Cluster, paused) {
		l.t.Fatal("no such cluster")
	}
}

func (l *local) scale(count int) {
	l.t.Helper()
	if err := l.e.Scale(l.d.Cluster, l.d.Pool, count); err != nil {
		l.t.Fatal(err)
	}
}

// TestInTheEmulator: each failure of a cloud provider is found as ARM shows it, and nothing is
// found once it is repaired.
func TestInTheEmulator(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*local)
		finds finding.Code
	}{
		{"new nodes without routes", func(l *local) { l.scale(5) }, finding.NodeWithoutRoute},
		{"routes of deleted nodes", func(l *local) { l.scale(1) }, finding.RouteToGoneNode},
		{"a node comes back with another address", func(l *local) {
			if err := l.e.Readdress(l.d.Cluster, l.node()); err != nil {
				l.t.Fatal(err)
			}
		}, finding.WrongHop},
		{"a route to a firewall inside the pod CIDR", func(l *local) {
			l.write("firewall", "10.244.128.0/17", l.d.Firewall)
		}, finding.RouteInPodCIDR},
		{"a route to a firewall past a node", func(l *local) {
			l.write("firewall", "10.244.1.0/25", l.d.Firewall)
		}, finding.RouteShadows},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLocal(t)
			l.finds()
			l.paused(true)
			tt.spoil(l)
			l.finds(tt.finds)
			l.paused(false)
			l.finds()
		})
	}
}
