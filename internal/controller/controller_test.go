package controller

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/daemon"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	subscription = "/subscriptions/11111111-1111-1111-1111-111111111111"
	groupA       = subscription + "/resourceGroups/a"
	groupAB      = subscription + "/resourceGroups/ab"
	clusterA     = groupA + "/providers/Microsoft.ContainerService/managedClusters/c"
	tableA       = groupA + "/providers/Microsoft.Network/routeTables/copies"
	tableAB      = groupAB + "/providers/Microsoft.Network/routeTables/copies"
	tableNodes   = subscription +
		"/resourceGroups/MC_a_c_westeurope/providers/Microsoft.Network/routeTables/own"
)

// of is the document of the cluster.
var of = arm.Document{ID: clusterA}

// TestScopes: an ID is in a scope if it is at or below it, segment by segment, whatever its case.
func TestScopes(t *testing.T) {
	scopes, err := ReadScopes([]byte("team: [" + strings.ToUpper(groupA) + "]\nall: ['*']\n"))
	if err != nil {
		t.Fatal(err)
	}
	const balancer = "/providers/Microsoft.Network/loadBalancers/lb/frontendIPConfigurations/f"
	for _, c := range []struct {
		namespace string
		spec      v1alpha1.Spec
		why       string
	}{
		{"team", v1alpha1.Spec{ClusterID: clusterA, RouteTableID: tableNodes,
			Targets: []v1alpha1.Target{{RouteTableID: tableA}}}, ""},
		{"team", v1alpha1.Spec{ClusterID: clusterA,
			Targets: []v1alpha1.Target{{RouteTableID: tableA}, {RouteTableID: tableAB}}},
			"spec.targets[1].routeTableID: "},
		{"team", v1alpha1.Spec{ClusterID: clusterA, RouteTableID: tableAB}, "spec.routeTableID: "},
		{"team", v1alpha1.Spec{ClusterID: strings.Replace(clusterA, "/a/", "/ab/", 1)},
			"spec.clusterID: "},
		{"team", v1alpha1.Spec{ClusterID: clusterA, Guard: v1alpha1.Guard{
			Subnets: []v1alpha1.GuardedSubnet{{SubnetID: groupA + "/x", RouteTableID: tableAB}}}},
			"spec.guard.subnets[0].routeTableID: "},
		{"team", v1alpha1.Spec{ClusterID: clusterA, Guard: v1alpha1.Guard{
			Subnets: []v1alpha1.GuardedSubnet{{SubnetID: groupAB + "/x", RouteTableID: tableA}}}},
			"spec.guard.subnets[0].subnetID: "},
		{"team", v1alpha1.Spec{Guard: v1alpha1.Guard{ // no cluster: its subnets decide
			Subnets: []v1alpha1.GuardedSubnet{{SubnetID: groupA + "/x", RouteTableID: tableA}}}},
			""},
		{"team", v1alpha1.Spec{Guard: v1alpha1.Guard{
			Subnets: []v1alpha1.GuardedSubnet{{SubnetID: groupAB + "/x", RouteTableID: tableA}}}},
			"spec.guard.subnets[0].subnetID: "},
		{"team", v1alpha1.Spec{ClusterID: clusterA,
			Egress: v1alpha1.Egress{RouteTableID: tableA, FirewallID: groupA + balancer}}, ""},
		{"team", v1alpha1.Spec{ClusterID: clusterA, Egress: v1alpha1.Egress{RouteTableID: tableA,
			FirewallID: groupAB + balancer}}, "spec.egress.firewallID: "},
		{"all", v1alpha1.Spec{ClusterID: clusterA, RouteTableID: tableAB}, ""},
		{"other", v1alpha1.Spec{ClusterID: clusterA}, "spec.clusterID: "},
	} {
		if why := scopes.check(c.namespace, &c.spec); !strings.HasPrefix(why, c.why) ||
			(why == "") != (c.why == "") {
			t.Errorf("%s, %+v: %q, want %q", c.namespace, c.spec, why, c.why)
		}
	}
	cluster := &inventory.Cluster{Document: of, NodeResourceGroup: "MC_a_c_westeurope"}
	for _, c := range []struct {
		of  *inventory.Cluster
		id  arm.ID
		may bool
	}{
		{cluster, tableA, true}, {cluster, tableNodes, true}, {cluster, tableAB, false},
		{nil, tableNodes, false}, // its node resource group is not known
		{&inventory.Cluster{Document: of, NodeResourceGroup: "other"}, tableNodes, false},
		{&inventory.Cluster{Document: of}, "", true},
	} {
		if why := scopes.mayWrite("team", c.of, c.id); (why == "") != c.may {
			t.Errorf("%+v, %s: %q", c.of, c.id, why)
		}
	}
	for _, wrong := range []string{"", "team", "team: []", "team: [shop]", "[a]",
		"team: [/subscriptions/]"} {
		if _, err := ReadScopes([]byte(wrong)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestWithhold: without a valid lease associations are repaired and nothing else is written, and
// with one only what the scopes allow.
func TestWithhold(t *testing.T) {
	scopes := Scopes{"team": {groupA}}
	c := &controller{o: Options{Scopes: scopes}, lease: &lease{valid: time.Hour}}
	route := keeper.Intent{Change: plan.Change{Cluster: "team.shop", Verb: plan.Create,
		Resource: tableA}, Source: tableA}
	table := keeper.Intent{Change: plan.Change{Cluster: "team.shop", Verb: plan.Associate,
		Resource: groupA + "/subnet", New: &plan.Value{RouteTable: tableA}}}
	if c.withhold(route) == "" || c.withhold(table) != "" {
		t.Error("without a lease a route is written, or an association is not")
	}
	c.lease.renewed = time.Now()
	if why := c.withhold(route) + c.withhold(table); why != "" {
		t.Error(why)
	}
	route.Source, table.New = tableAB, &plan.Value{RouteTable: tableAB}
	for _, i := range []keeper.Intent{route, table} {
		if why := c.withhold(i); !strings.Contains(why, tableAB) {
			t.Errorf("%q", why)
		}
	}
}

// TestHealthy: a leader whose keeper is stuck is not healthy. One that waits for the lease, or has
// no objects, is.
func TestHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controller{dirty: make(chan struct{}, 1)}
		expect := func(want error) {
			t.Helper()
			if err := c.healthy(); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		expect(nil)
		ctx, cancel := context.WithCancel(t.Context())
		stuck, idle := errors.New("no check has ended"), 0
		go c.follow(ctx, daemon.Running{Idle: func() { idle++ }, Refused: func([]string) {},
			Live: func() error { return stuck }})
		time.Sleep(time.Minute)
		expect(stuck)
		cancel()
		synctest.Wait()
		expect(nil)
		if idle < 2 {
			t.Errorf("without objects, idle was called %d times in a minute", idle)
		}
	})
}

// TestJudge: only where the cluster's egress is in the table is it not guarded from inside.
func TestJudge(t *testing.T) {
	config := v1alpha1.ClusterRoutes{Spec: v1alpha1.Spec{ClusterID: clusterA, RouteTableID: tableA}}
	own := arm.GroupID("11111111-1111-1111-1111-111111111111", "nodes")
	egress := `{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0",` +
		`"nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.0.4"}}`
	for name, test := range map[string]struct {
		own      arm.ID
		outbound string
		routes   string
		unread   bool
		want     judgement
	}{
		"outside": {"", "userDefinedRouting", egress, false, judgement{made: true}},
		"inside":  {own, "loadBalancer", "", false, judgement{made: true}},
		"by the table": {own, "loadBalancer", egress, false,
			judgement{made: true, refuse: "10.0.0.4"}},
		"by its type": {own, "userDefinedRouting", "", false,
			judgement{true, "userDefinedRouting"}},
		"unread": {own, "loadBalancer", "", true, judgement{}},
	} {
		s := inventory.NewSnapshot()
		s.Clusters[arm.ID(clusterA).Key()] = &inventory.Cluster{Document: of, Plugin: "kubenet",
			NodeResourceGroup: "nodes", Outbound: test.outbound}
		if !test.unread {
			table, err := inventory.DecodeRouteTable([]byte(`{"id":"` + tableA +
				`","properties":{"routes":[` + test.routes + `]}}`))
			if err != nil {
				t.Fatal(err)
			}
			s.Tables[arm.ID(tableA).Key()] = table
		}
		got := judge(test.own, keeper.Result{Seen: plan.Facts{Snapshot: s}}, &config)
		if got.made != test.want.made || (got.refuse == "") != (test.want.refuse == "") ||
			!strings.Contains(got.refuse, test.want.refuse) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestStatusOf: a condition keeps its time until it changes, and a refused object says why.
func TestStatusOf(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	object := &ClusterRoutes{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
	s := shown{generation: 2, conditions: []v1alpha1.Condition{{Type: "Ready", Status: "True"},
		{Type: "Guarded", Status: "True"}}, targets: []v1alpha1.TargetStatus{{RouteTableID: tableA,
		Expected: 3, Correct: 2}, {RouteTableID: tableAB, Expected: 3, Correct: 3}}}
	if _, known := statusOf(object, s, false, refusal{}, "", now); known {
		t.Error("a status before the first check")
	}
	first, _ := statusOf(object, s, true, refusal{}, "", now)
	if first.Routes != "5/6" || first.ObservedGeneration != 2 || len(first.Conditions) != 2 {
		t.Errorf("%+v", first)
	}
	object.Status = first
	later := now.Add(time.Hour)
	if again, _ := statusOf(object, s, true, refusal{}, "", later); !reflect.DeepEqual(again,
		first) {
		t.Errorf("%+v, want %+v", again, first)
	}
	inside, _ := statusOf(object, s, true, refusal{}, "egress", later)
	if g := inside.Conditions[1]; g.Status != "False" || g.Reason != "EgressInTable" ||
		g.LastTransitionTime != stamp(later) ||
		inside.Conditions[0].LastTransitionTime != stamp(now) {
		t.Errorf("%+v", inside.Conditions)
	}
	object.Generation = 3
	refused, _ := statusOf(object, s, true,
		refusal{reason: "OutOfScope", message: "not yours", generation: 3}, "", later)
	if len(refused.Conditions) != 3 || refused.Routes != "" || refused.LastError != "not yours" ||
		refused.ObservedGeneration != 3 || refused.Conditions[0].Reason != "OutOfScope" {
		t.Errorf("%+v", refused)
	}
}

// TestBuild: an object without a valid scope or spec affects no other. A deleted one with
// onRemoval: Prune stays guarded, and its targets are not written, until its cluster was read. Then
// an order replaces it.
func TestBuild(t *testing.T) {
	dirty := 0
	s := newSet(Options{Scopes: Scopes{"team": {Everything}}}, func() { dirty++ })
	one := func(namespace, name, cluster string) ClusterRoutes {
		return ClusterRoutes{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			UID: types.UID(namespace + name)}, Spec: v1alpha1.Spec{ClusterID: clusterA + cluster,
			Targets: []v1alpha1.Target{{RouteTableID: tableA}}}}
	}
	wrong := one("team", "wrong", "2")
	wrong.Spec.PodCIDRs = []string{"nonsense"}
	configs, _ := s.build([]ClusterRoutes{one("team", "fine", "1"), wrong,
		one("other", "fine", "3")})
	if len(configs) != 1 || configs[0].Metadata.Name != "team.fine" ||
		s.refused["team.wrong"].reason != "Invalid" ||
		!strings.HasPrefix(s.refused["team.wrong"].message, "spec.podCIDRs[0]: ") ||
		s.refused["other.fine"].reason != "NamespaceNotAllowed" {
		t.Errorf("%+v, %+v", configs, s.refused)
	}
	gone := one("team", "fine", "1")
	gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	gone.Spec.OnRemoval, gone.Finalizers = v1alpha1.RemovalPrune, []string{v1alpha1.Finalizer}
	configs, orders := s.build([]ClusterRoutes{gone})
	if len(orders) != 0 || len(configs) != 1 ||
		configs[0].Spec.Guard.Mode != v1alpha1.GuardEnforce ||
		configs[0].Spec.Targets[0].Policy != v1alpha1.PolicyObserve {
		t.Fatalf("before a check: %+v, %+v", configs, orders)
	}
	s.read[arm.ID(clusterA+"1").Key()] = true
	configs, orders = s.build([]ClusterRoutes{gone})
	if len(orders) != 1 || len(configs) != 0 ||
		orders[0].Config.Spec.Targets[0].Policy != v1alpha1.PolicySync {
		t.Fatalf("after a check: %+v, %+v", configs, orders)
	}
	if done, _ := s.removed(&gone); done {
		t.Error("it is removed before the order ended")
	}
	s1 := shown{conditions: []v1alpha1.Condition{{Type: "Ready", Status: "True"},
		{Type: "Guarded", Status: "True"}, {Type: "Synced", Status: "True"}}}
	shows := func(reason, guarded, message string) {
		t.Helper()
		got := s.leaving(&gone).showIn(s1)
		for i, c := range got.conditions {
			if c.Type == "Guarded" && c.Status != guarded || c.Type != "Guarded" && (c.Status !=
				"False" || c.Reason != reason || !strings.Contains(c.Message, message)) {
				t.Errorf("condition %d: %+v", i, c)
			}
		}
		if (got.failed == "") != (reason == "Removing") {
			t.Errorf("lastError %q", got.failed)
		}
	}
	shows("Removing", "False", "its routes are deleted")
	orders[0].Ended(errors.New("no"))
	shows("RemovalFailed", "True", "stay in the targets for now: no; set spec.onRemoval")
	if done, failed := s.removed(&gone); done || failed == nil {
		t.Error("a failed removal is done")
	}
	if configs, orders = s.build([]ClusterRoutes{gone}); len(configs) != 1 || len(orders) != 0 ||
		configs[0].Spec.Guard.Mode != v1alpha1.GuardEnforce || s.pruned(&gone) {
		t.Errorf("after a failure: %+v, %+v", configs, orders)
	}
	s.removals["teamfine"].again = time.Time{}
	if _, orders = s.build([]ClusterRoutes{gone}); len(orders) != 1 {
		t.Fatalf("it is not tried again: %+v", orders)
	}
	orders[0].Ended(nil)
	if done, _ := s.removed(&gone); !done || dirty != 2 || !s.pruned(&gone) {
		t.Errorf("done %v, the set was made again %d times", done, dirty)
	}
}
