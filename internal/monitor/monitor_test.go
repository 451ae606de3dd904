package monitor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/plan"
)

const (
	one = "/subscriptions/11111111-1111-1111-1111-111111111111"
	hub = "/subscriptions/22222222-2222-2222-2222-222222222222"

	vnet    = one + "/resourceGroups/net-rg/providers/Microsoft.Network/virtualNetworks/shop-vnet"
	own     = one + "/resourceGroups/net-rg/providers/Microsoft.Network/routeTables/shop-rt"
	cluster = one + "/resourceGroups/shop-rg/providers/Microsoft.ContainerService/managedClusters/shop"
	target  = hub + "/resourceGroups/hub-rg/providers/Microsoft.Network/routeTables/hub-rt"
	managed = one + "/resourceGroups/MC_shop"
)

func config(change func(*v1alpha1.Spec)) []v1alpha1.ClusterRoutes {
	c := v1alpha1.ClusterRoutes{Metadata: v1alpha1.Metadata{Name: "shop"},
		Spec: v1alpha1.Spec{ClusterID: cluster, RouteTableID: own,
			Targets: []v1alpha1.Target{{RouteTableID: target}}}}
	if change != nil {
		change(&c.Spec)
	}
	return []v1alpha1.ClusterRoutes{c}
}

// snapshot is a cluster whose node subnets have a table.
func snapshot(t *testing.T, table arm.ID) *inventory.Snapshot {
	t.Helper()
	s := inventory.NewSnapshot()
	err := s.Add([]byte(`{"id":"` + cluster +
		`","properties":{"nodeResourceGroup":"MC_shop","networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},
		"agentPoolProfiles":[{"name":"a","count":1,"vnetSubnetID":"` + vnet +
		`/subnets/nodes"},{"name":"b","count":1,"vnetSubnetID":"` + strings.ToUpper(vnet) +
		`/subnets/more"}]}}`))
	for _, name := range []string{"nodes", "more"} {
		if err == nil {
			err = s.Add([]byte(`{"id":"` + vnet + `/subnets/` + name +
				`","properties":{"addressPrefix":"10.1.0.0/24","routeTable":{"id":"` +
				string(table) + `"}}}`))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func scopesOf(w Watched) (all []string) {
	for _, s := range w.Subscriptions {
		for _, id := range s.IDs {
			if !strings.EqualFold(id.Subscription(), s.Subscription) {
				return []string{string(id) + " is not in subscription " + s.Subscription}
			}
			all = append(all, id.Key())
		}
	}
	return all
}

func lower(texts ...string) []string { return sorted(texts) }

func TestWatch(t *testing.T) {
	all := lower(cluster, managed, own, vnet, target)
	for _, c := range []struct {
		name    string
		change  func(*v1alpha1.Spec)
		prepare func(*inventory.Snapshot)
		want    []string
		unknown string
	}{
		{"a cluster, its networks and tables, in two subscriptions", nil, nil, all, ""},
		{"what the node resource group holds is watched with it", func(s *v1alpha1.Spec) {
			s.RouteTableID = managed +
				"/providers/Microsoft.Network/routeTables/aks-agentpool-12345678-routetable"
		}, nil, lower(cluster, managed, vnet, target), ""},
		{"a guarded subnet's network and table", func(s *v1alpha1.Spec) {
			s.Guard.Subnets = []v1alpha1.GuardedSubnet{
				{SubnetID: hub + "/resourceGroups/hub-rg/providers/Microsoft.Network/virtualNetworks/hub/subnets/gw", RouteTableID: target}}
		}, nil, append(slices.Clone(all), lower(hub+
			"/resourceGroups/hub-rg/providers/Microsoft.Network/virtualNetworks/hub")...), ""},
		{"a cluster that is not there", nil, func(s *inventory.Snapshot) {
			delete(s.Clusters, arm.ID(cluster).Key())
			s.Unread[arm.ID(cluster).Key()] = inventory.Unread{ID: cluster, Absent: true,
				Status: 404}
		}, lower(cluster, own, target), "cluster shop does not exist"},
		{"an unknown table", func(s *v1alpha1.Spec) { s.RouteTableID = "" },
			func(s *inventory.Snapshot) {
				known := s.Learn(cluster)
				known.LogRead, known.ManagedRead = true, true
			}, lower(cluster, managed, vnet, target), "the route table of cluster shop is unknown"},
	} {
		configs := config(c.change)
		s := snapshot(t, arm.ID(configs[0].Spec.RouteTableID))
		if c.prepare != nil {
			c.prepare(s)
		}
		w, err := Watch(s, configs)
		got := scopesOf(w)
		slices.Sort(got)
		slices.Sort(c.want)
		if err != nil || !slices.Equal(got, c.want) ||
			!strings.Contains(strings.Join(w.Unknown, "; "), c.unknown) ||
			c.unknown == "" && len(w.Unknown) > 0 {
			t.Errorf("%s: %v\n%s\nunknown: %q\nwant\n%s", c.name, err, strings.Join(got, "\n"),
				w.Unknown, strings.Join(c.want, "\n"))
		}
	}
	s := inventory.NewSnapshot()
	s.Unread[arm.ID(cluster).Key()] = inventory.Unread{ID: cluster, Status: 403,
		Code: "AuthorizationFailed", Message: "no"}
	if _, err := Watch(s, config(nil)); err == nil ||
		!strings.Contains(err.Error(), "AuthorizationFailed") {
		t.Errorf("an unread cluster: %v", err)
	}
}

// TestCoarse: many scopes become groups, and many groups the subscription; everything stays inside.
func TestCoarse(t *testing.T) {
	for _, c := range []struct{ tables, groups, want int }{{maxScopes, 3, maxScopes},
		{maxScopes + 1, 3, 3}, {maxScopes + 1, maxScopes + 1, 1}} {
		var ids []arm.ID
		for i := range c.tables {
			ids = append(ids, arm.ResourceID(arm.ID(one).Subscription(),
				fmt.Sprintf("g%d", i%c.groups), arm.TypeRouteTable, fmt.Sprintf("t%d", i)))
		}
		got := coarse(outermost(inventory.SortIDs(slices.Clone(ids))))
		if len(got) != c.want {
			t.Errorf("%+v: %d scopes", c, len(got))
		}
		for _, id := range ids {
			if !slices.ContainsFunc(got, func(scope arm.ID) bool { return within(id, scope) }) {
				t.Errorf("%+v: %s is watched no more", c, id)
			}
		}
	}
	if within(one+"/resourceGroups/net-rg2", one+"/resourceGroups/net-rg") ||
		!within(vnet+"/subnets/x", arm.ID(strings.ToUpper(vnet))) {
		t.Error("within")
	}
}

func TestWebhook(t *testing.T) {
	secure := Webhook{ObjectID: "o", Audience: "api://x"}
	for _, c := range []struct {
		address, secret string
		with            Webhook
		url, shown      string // url is empty if it is refused; shown is then in the refusal
	}{
		{"https://k.example.com/events", "correct-horse-battery", Webhook{},
			"https://k.example.com/events/correct-horse-battery", "https://k.example.com/…"},
		{"https://k.example.com/keeper/events/", "correct-horse-battery", Webhook{},
			"https://k.example.com/keeper/events/correct-horse-battery", "https://k.example.com/…"},
		{"https://k.example.com:8443/events/correct-horse-battery", "", Webhook{},
			"https://k.example.com:8443/events/correct-horse-battery",
			"https://k.example.com:8443/…"},
		{"https://k.example.com/events", "", secure, "https://k.example.com/events",
			"https://k.example.com/events"},
		{"http://127.0.0.1:8080/events", "", secure, "http://127.0.0.1:8080/events",
			"http://127.0.0.1:8080/events"},
		{"https://k.example.com/events", "", Webhook{}, "", "could not authenticate the caller"},
		{"https://k.example.com/events", "", Webhook{ObjectID: "o"}, "", "needs both"},
		{"https://k.example.com/events", "", Webhook{Tenant: "o"}, "", "needs both"},
		{"https://k.example.com/events/a", "correct-horse-battery", Webhook{}, "", "another one"},
		{"https://k.example.com/events/a/b", "", Webhook{}, "", "takes events at /events"},
		{"https://k.example.com/eventsx", "", secure, "", "takes events at /events"},
		{"http://k.example.com/events", "", secure, "", "http:// would send"},
		{"https://me:pw@k.example.com/events", "", secure, "", "not an address"},
		{"https://k.example.com/events?code=x", "", secure, "", "not an address"},
		{"k.example.com/events", "", secure, "", "not an address"},
	} {
		w, err := ParseWebhook(c.address, c.secret, c.with)
		switch {
		case c.url == "" && (err == nil || !strings.Contains(err.Error(), c.shown)):
			t.Errorf("%s: %v, want %q", c.address, err, c.shown)
		case c.url != "" && (err != nil || w.URL != c.url || w.String() != c.shown):
			t.Errorf("%s: %v, %s, %s", c.address, err, w.URL, w)
		}
	}
}

// there simulates Azure: it stores the documents.
type there []arm.Document

func (a *there) carryOut(t *testing.T, changes []Change) {
	t.Helper()
	for _, c := range changes {
		at := slices.IndexFunc(*a, func(d arm.Document) bool { return d.ID.Equal(c.Resource) })
		if c.Verb == plan.Create {
			raw, err := sjson.SetBytes(c.Body, "id", c.Resource)
			if err != nil || at >= 0 {
				t.Fatal(err, at)
			}
			*a = append(*a, arm.Document{ID: c.Resource, Raw: raw})
			continue
		}
		raw, err := c.Edit((*a)[at])
		if err != nil {
			t.Fatal(err)
		}
		if c.Verb == plan.Delete {
			*a = slices.Delete(*a, at, at+1)
			continue
		}
		(*a)[at].Raw = raw
		if left := c.Left((*a)[at]); len(left) > 0 {
			t.Errorf("%s: still %q", c.Resource, left)
		}
	}
}

func verbs(changes []Change) string {
	var all []string
	for _, c := range changes {
		kind, _, _ := strings.Cut(strings.TrimPrefix(c.Resource.Type(), "Microsoft.Insights/"), "s")
		all = append(all, string(c.Verb)+" "+kind+" "+c.Resource.ResourceGroup())
	}
	return strings.Join(all, ", ")
}

func TestPlan(t *testing.T) {
	groups := []arm.ID{one + "/resourceGroups/ops", hub + "/resourceGroups/hubops"}
	install := func(webhook Webhook) Installation {
		i, err := New("", groups, webhook)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	i := install(Webhook{URL: "https://k.example.com/events/s3cret"})
	w, err := Watch(snapshot(t, own), config(nil))
	if err != nil {
		t.Fatal(err)
	}
	plan := func(i Installation, w Watched, have there, want string) []Change {
		t.Helper()
		changes, err := i.Plan(w, have)
		if err != nil || verbs(changes) != want {
			t.Errorf("%v: %s, want %s", err, verbs(changes), want)
		}
		for _, c := range changes {
			if strings.Contains(strings.Join(c.Why, " "), "s3cret") {
				t.Errorf("the secret is shown: %q", c.Why)
			}
		}
		return changes
	}
	var azure there
	azure.carryOut(t, plan(i, w, azure, "create actionGroup ops, create activityLogAlert ops, "+
		"create actionGroup hubops, create activityLogAlert hubops"))
	plan(i, w, azure, "")

	// Another spelling by Azure means the same. A difference in meaning is reported.
	rule := func(d arm.Document) bool {
		return d.ID.Is(arm.TypeAlertRule) && d.ID.ResourceGroup() == "ops"
	}
	with := func(path, value string) there {
		changed := slices.Clone(azure)
		at := slices.IndexFunc(changed, rule)
		raw, err := sjson.SetRawBytes(changed[at].Raw, path, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		changed[at].Raw = raw
		return changed
	}
	operations, err := json.Marshal(Operations())
	if err != nil {
		t.Fatal(err)
	}
	same := `[{"field":"Status","equals":"succeeded","containsAny":null},{"field":"operationName","containsAny":` + strings.ToUpper(string(operations)) + `},{"field":"category","equals":"Administrative","anyOf":null}]`
	plan(i, w, with("properties.condition.allOf", same), "")
	for path, value := range map[string]string{
		"properties.condition.allOf":      strings.Replace(same, `"succeeded"`, `"Failed"`, 1),
		"properties.condition.allOf.-1":   `{"field":"caller","equals":"me"}`,
		"properties.enabled":              "false",
		"properties.scopes.0":             `"` + one + `/resourceGroups/another"`,
		"properties.actions.actionGroups": "[]",
	} {
		azure := with(path, value)
		azure.carryOut(t, plan(i, w, azure, "update activityLogAlert ops"))
		plan(i, w, azure, "")
	}
	// Without its tags it belongs to another owner, also if it loses them meanwhile.
	if _, err := i.Plan(w, with("tags", "{}")); err == nil ||
		!strings.Contains(err.Error(), "does not belong to this installation") {
		t.Errorf("without tags: %v", err)
	}
	changes := plan(i, w, with("properties.enabled", "false"), "update activityLogAlert ops")
	if _, err := changes[0].Edit(with("tags", `{"managed-by":"others"}`)[slices.IndexFunc(azure,
		rule)]); err == nil {
		t.Error("what lost its tags in the meantime is written")
	}
	// A document in which an edit would not be visible is not touched.
	if _, err := i.Plan(w, with("properties.Enabled", "false")); err == nil ||
		!strings.Contains(err.Error(), "cannot be edited safely") {
		t.Errorf("a doubled key: %v", err)
	}

	// If not everything is known, nothing is removed; otherwise it is.
	less, err := Watch(snapshot(t, managed+"/providers/Microsoft.Network/routeTables/x"),
		config(func(s *v1alpha1.Spec) {
			s.RouteTableID = managed + "/providers/Microsoft.Network/routeTables/x"
		}))
	if err != nil {
		t.Fatal(err)
	}
	plan(i, less, azure, "update activityLogAlert ops")
	less.Unknown = []string{"something"}
	plan(i, less, azure, "")

	// A secure webhook instead, and another keeper with its own.
	secure := install(Webhook{URL: "https://k.example.com/events", ObjectID: "o",
		Audience: "api://x", Tenant: "t"})
	changed := slices.Clone(azure)
	changed.carryOut(t,
		plan(secure, w, changed, "update actionGroup ops, update actionGroup hubops"))
	plan(secure, w, changed, "")
	changed.carryOut(t, plan(i, w, changed, "update actionGroup ops, update actionGroup hubops"))
	plan(i, w, changed, "")
	if two, err := New("two", groups, i.webhook); err != nil || len(two.Removal(azure)) > 0 {
		t.Errorf("another keeper's: %v, %s", err, verbs(two.Removal(azure)))
	}

	// Another path is reported as such, without showing it. If Azure does not show the path, it
	// counts as right.
	elsewhere := install(Webhook{URL: "https://k.example.com/events/s3cret-too"})
	if why := plan(elsewhere, w, azure,
		"update actionGroup ops, update actionGroup hubops")[0].Why; len(why) != 1 ||
		why[0] != "posts to another path of https://k.example.com/…" {
		t.Errorf("another path: %q", why)
	}
	if why := plan(secure, w, azure,
		"update actionGroup ops, update actionGroup hubops")[0].Why; why[0] !=
		"posts to https://k.example.com/events instead of https://k.example.com/…" {
		t.Errorf("another address: %q", why)
	}
	hidden := slices.Clone(azure)
	for at, d := range hidden {
		if d.ID.Is(arm.TypeActionGroup) {
			if hidden[at].Raw, err = sjson.SetBytes(d.Raw,
				"properties.webhookReceivers.0.serviceUri", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	plan(elsewhere, w, hidden, "")

	// A subscription with nothing to watch any more, a missing group, and the end.
	single, err := Watch(snapshot(t, own), config(func(s *v1alpha1.Spec) { s.Targets = nil }))
	if err != nil {
		t.Fatal(err)
	}
	plan(i, single, azure, "delete activityLogAlert hubops, delete actionGroup hubops")
	here, err := New("", groups[:1], i.webhook)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Plan(w, azure); err == nil ||
		!strings.Contains(err.Error(), "subscription 22222222") {
		t.Errorf("no group for a subscription: %v", err)
	}
	azure.carryOut(t, i.Removal(azure))
	if len(azure) > 0 {
		t.Errorf("%d are left", len(azure))
	}
	for _, bad := range []string{"Two", "a/b", "-", strings.Repeat("x", 41)} {
		if _, err := New(bad, groups, i.webhook); err == nil {
			t.Errorf("the name %q is taken", bad)
		}
	}
	if _, err := New("", append(groups, one+"/resourceGroups/more"), i.webhook); err == nil {
		t.Error("two groups in one subscription are taken")
	}
}
