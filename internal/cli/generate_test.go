package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/config"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// hclFunctions are the functions of Terraform that the generated code uses.
var hclFunctions = map[string]function.Function{
	"concat": stdlib.ConcatFunc, "compact": stdlib.CompactFunc, "flatten": stdlib.FlattenFunc,
	"lower": stdlib.LowerFunc, "split": stdlib.SplitFunc,
	"join": stdlib.JoinFunc, "length": stdlib.LengthFunc, "slice": stdlib.SliceFunc,
	"values": stdlib.ValuesFunc, "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
}

// evaluation computes the locals of generated files, with values that Terraform would have read or
// created.
func evaluation(t *testing.T, given map[string]cty.Value, paths ...string) (*hcl.EvalContext,
	[]*hclsyntax.Block) {
	t.Helper()
	var blocks []*hclsyntax.Block
	open := map[string]hclsyntax.Expression{}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, diagnostics := hclsyntax.ParseConfig(source, path, hcl.InitialPos)
		if diagnostics.HasErrors() {
			t.Fatal(diagnostics)
		}
		for _, b := range file.Body.(*hclsyntax.Body).Blocks {
			blocks = append(blocks, b)
			if b.Type == "locals" {
				for name, a := range b.Body.Attributes {
					open[name] = a.Expr
				}
			}
		}
	}
	ctx := &hcl.EvalContext{Functions: hclFunctions, Variables: given}
	locals := map[string]cty.Value{}
	for len(open) > 0 {
		before := len(open)
		given["local"] = cty.ObjectVal(locals)
		var failed hcl.Diagnostics
		for name, expression := range open {
			value, diagnostics := expression.Value(ctx)
			if diagnostics.HasErrors() {
				failed = append(failed, diagnostics...)
				continue
			}
			locals[name] = value
			delete(open, name)
		}
		if len(open) == before {
			t.Fatal(failed)
		}
	}
	given["local"] = cty.ObjectVal(locals)
	return ctx, blocks
}

// keeperPrincipal has only the roles that it is given.
var keeperPrincipal = emulator.Principal{Name: "least",
	ClientID: "0a0a0000-0000-4000-8000-000000000003", Secret: "l",
	ObjectID: "0b0b0000-0000-4000-8000-000000000003", NoRoles: true}

// leastRights is the demo, with a keeper that has the generated rights.
type leastRights struct {
	t          *testing.T
	a          *azureOf
	dir, login string
	config     string
	roles      map[string][]string // actions by the role's name
}

const rolesVersion = "2022-04-01"

func (l *leastRights) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *leastRights) roleID(name string) arm.ID {
	i := slices.Index([]string{"reads", "links", "subnets", "targets", "credentials"}, name)
	return arm.ID(fmt.Sprintf(
		"/subscriptions/%s/providers/Microsoft.Authorization/roleDefinitions/c0000000-0000-4000-8000-%012d", l.a.demo.Cluster.Subscription(), i))
}

// define creates a role with some actions.
func (l *leastRights) define(name string, actions []string) {
	l.t.Helper()
	l.must(l.a.op.Put(l.roleID(name), rolesVersion, map[string]any{"properties": map[string]any{
		"roleName": name, "assignableScopes": []any{"/subscriptions/" +
			l.a.demo.Cluster.Subscription()},
		"permissions": []any{map[string]any{"actions": actions}},
	}}))
}

// newLeastRights generates code for the demo's config, after the edits, and assigns the keeper's
// roles accordingly.
func newLeastRights(t *testing.T, edits ...func(config string) string) *leastRights {
	l := &leastRights{t: t, dir: t.TempDir(), roles: map[string][]string{}}
	own := filepath.Join(l.dir, "az")
	a, server, err := startAzure(own, true, emulator.Options{
		Principals: []emulator.Principal{keeperPrincipal}, StrictLists: true,
		RouteBatch: 20 * time.Millisecond,
	})
	l.must(err)
	t.Cleanup(func() { server.Close(); a.e.Close() })
	l.a = a

	// The node subnet links to everything that a subnet can link to.
	group := a.demo.NodeSubnet.Group()
	nat, policy := group+"/providers/Microsoft.Network/natGateways/nat", group+
		"/providers/Microsoft.Network/serviceEndpointPolicies/sep"
	for _, id := range []arm.ID{nat, policy} {
		l.must(a.op.Put(id, "2025-05-01",
			map[string]any{"location": "westeurope", "properties": map[string]any{}}))
	}
	subnet, err := a.op.Get(a.demo.NodeSubnet, "2025-05-01")
	l.must(err)
	properties := subnet["properties"].(map[string]any)
	properties["natGateway"] = map[string]any{"id": string(nat)}
	properties["serviceEndpointPolicies"] = []any{map[string]any{"id": string(policy)}}
	l.must(a.op.Put(a.demo.NodeSubnet, "2025-05-01", subnet))
	l.must(l.balance("10.42.77.0/28", "10.42.77.4"))

	l.config = filepath.Join(l.dir, "routes.yaml")
	l.run(0, "--emulator", own, "init", "--cluster", string(a.demo.Cluster), "--out", l.config)
	l.run(0, "--emulator", own, "promote", string(a.demo.Cluster), "-f", l.config, "--yes")
	for _, edit := range edits {
		raw, err := os.ReadFile(l.config)
		l.must(err)
		l.must(os.WriteFile(l.config, []byte(edit(string(raw))), 0o600))
	}
	l.run(2, "--emulator", own, "sync", "-f", l.config, "--dry-run")
	l.run(0, "iac", "generate", "terraform", "-f", l.config, "--out", filepath.Join(l.dir, "tf"))

	l.logIn(own)
	l.assign(a.demo.Cluster, string(a.demo.NodeSubnet))
	return l
}

// logIn creates the login of the keeper.
func (l *leastRights) logIn(own string) {
	l.t.Helper()
	info, err := emulator.ReadInfo(own)
	l.must(err)
	info.ClientID, info.ClientSecret = keeperPrincipal.ClientID, keeperPrincipal.Secret
	raw, err := json.Marshal(info)
	l.must(err)
	l.login = filepath.Join(l.dir, "login")
	l.must(os.MkdirAll(l.login, 0o755))
	l.must(os.WriteFile(filepath.Join(l.login, emulator.InfoFile), raw, 0o600))
}

// assign evaluates the code and does what Terraform would. subnet is the subnet of the cluster's
// pools, "" if AKS created it.
func (l *leastRights) assign(id arm.ID, subnet string) {
	l.t.Helper()
	cluster, err := l.a.op.Get(id, "2025-10-01")
	l.must(err)
	properties := cluster["properties"].(map[string]any)
	pool := cty.ObjectVal(map[string]cty.Value{"vnet_subnet_id": cty.StringVal(subnet)})
	ctx, _ := evaluation(l.t, map[string]cty.Value{
		"var": cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("routekeeper")}),
		"data": cty.ObjectVal(map[string]cty.Value{
			"azurerm_subscription": cty.ObjectVal(map[string]cty.Value{
				"main": cty.ObjectVal(map[string]cty.Value{
					"id": cty.StringVal("/subscriptions/" + l.a.demo.Cluster.Subscription())})}),
			"azurerm_kubernetes_cluster": cty.ObjectVal(map[string]cty.Value{
				"managed": cty.ObjectVal(map[string]cty.Value{
					id.Name(): cty.ObjectVal(map[string]cty.Value{
						"agent_pool_profile": cty.ListVal([]cty.Value{pool, pool}),
						"node_resource_group": cty.StringVal(
							properties["nodeResourceGroup"].(string))})})}),
		}),
	}, filepath.Join(l.dir, "tf", "keeper.tf"))
	n := 0
	for name, role := range ctx.Variables["local"].GetAttr("keeper_roles").AsValueMap() {
		for _, action := range role.GetAttr("actions").AsValueSlice() {
			l.roles[name] = append(l.roles[name], action.AsString())
		}
		l.define(name, l.roles[name])
		for _, scope := range role.GetAttr("scopes").AsValueMap() {
			n++
			at := arm.ID(fmt.Sprintf(
				"%s/providers/Microsoft.Authorization/roleAssignments/d0000000-0000-4000-8000-%012d", scope.AsString(), n))
			l.must(l.a.op.Put(at, rolesVersion, map[string]any{"properties": map[string]any{
				"roleDefinitionId": string(l.roleID(name)),
				"principalId":      keeperPrincipal.ObjectID}}))
		}
	}
}

// run runs a command line in this process.
func (l *leastRights) run(want int, args ...string) {
	l.t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &errs}
	if code := a.run(context.Background(), args); want >= 0 && code != want {
		l.t.Fatalf("routekeeper %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code,
			want, out.String(), errs.String())
	}
}

// disturb strips both subnets and removes the pod routes from the gateway's table.
func (l *leastRights) disturb() {
	l.t.Helper()
	l.must(l.a.strip(l.a.demo.NodeSubnet))
	l.must(l.a.strip(l.a.demo.GatewaySubnet))
	table, err := l.a.op.Get(l.a.demo.GatewayTable, "2025-05-01")
	l.must(err)
	properties := table["properties"].(map[string]any)
	properties["routes"] = slices.DeleteFunc(properties["routes"].([]any), func(r any) bool {
		return r.(map[string]any)["name"] != l.a.demo.OwnRoute
	})
	l.must(l.a.op.Put(l.a.demo.GatewayTable, "2025-05-01", table))
}

// work makes the keeper do everything, and returns what Azure refused. Without check it ends after
// the first command that was refused something.
func (l *leastRights) work(check bool) (refused []string) {
	l.t.Helper()
	since := l.a.e.LastRequest()
	l.disturb()
	for _, c := range []struct {
		code int
		args []string
	}{
		{0, []string{"init", "--cluster", string(l.a.demo.Cluster), "--out",
			filepath.Join(l.dir, "again.yaml"), "--force"}},
		{0, []string{"init", "--subscription", l.a.demo.Cluster.Subscription(), "--out",
			filepath.Join(l.dir, "all.yaml"), "--force"}},
		{2, []string{"doctor", "-f", l.config}},
		{0, []string{"sync", "-f", l.config, "--yes"}},
		{0, []string{"run", "-f", l.config, "--once"}},
		{0, []string{"doctor", "-f", l.config}},
	} {
		if !check {
			c.code = -1
		}
		l.run(c.code, append([]string{"--emulator", l.login}, c.args...)...)
		if refused = l.refused(since); !check && len(refused) > 0 {
			break
		}
	}
	return refused
}

// refused lists what the keeper was refused since a request.
func (l *leastRights) refused(since int) (refused []string) {
	for _, r := range l.a.e.Requests(since) {
		if r.Principal == keeperPrincipal.Name && r.Status == http.StatusForbidden {
			id := arm.ID(r.Path)
			if strings.Count(r.Path, "/")%2 == 1 { // a list
				id += "/"
			}
			refused = append(refused, r.Method+" "+id.Type())
		}
	}
	slices.Sort(refused)
	return slices.Compact(refused)
}

// notAsked are actions that the emulator does not require: the caller of a write may poll it.
// Whether Azure requires them is not documented.
var notAsked = []string{"Microsoft.Network/locations/operations/read"}

// TestLeastRights: the generated rights suffice for init, doctor, sync and run, and without any
// single one something is refused.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	l := newLeastRights(t)
	l.assignPolicy()
	if refused := l.work(true); len(refused) > 0 {
		t.Fatalf("with all rights, refused: %q", refused)
	}
	for name, actions := range l.roles {
		for _, action := range actions {
			if slices.Contains(notAsked, action) {
				continue
			}
			l.define(name, slices.DeleteFunc(slices.Clone(actions), func(a string) bool {
				return a == action
			}))
			if refused := l.work(false); len(refused) == 0 {
				t.Errorf("without %s nothing is refused", action)
			}
			l.define(name, actions)
		}
	}
	if refused := l.work(true); len(refused) > 0 {
		t.Errorf("with all rights again, refused: %q", refused)
	}
	// What it must never be allowed to do.
	keeper, err := l.a.e.Client(keeperPrincipal)
	l.must(err)
	table, err := l.a.op.Get(l.a.demo.ClusterTable, "2025-05-01")
	l.must(err)
	if err := keeper.Put(l.a.demo.ClusterTable, "2025-05-01", table); err == nil {
		t.Error("it may write the cluster's own table")
	}
	firewall := l.a.demo.NodeSubnet.Parent().Child("subnets", "AzureFirewallSubnet")
	other, err := l.a.op.Get(firewall, "2025-05-01")
	l.must(err)
	if err := keeper.Put(firewall, "2025-05-01", other); err == nil {
		t.Error("it may write a subnet that it does not guard")
	}
}

// TestClusterActions: the cluster's role suffices for its cloud provider, and has nothing else.
func TestClusterActions(t *testing.T) {
	t.Parallel()
	actions := build.Cluster{Blueprint: capacity.Kubenet}.ClusterActions()
	for _, c := range []struct {
		without string
		works   bool
	}{
		{"", true}, {"Microsoft.Network/routeTables/read", false}, {
			"Microsoft.Network/routeTables/write", false},
		{"Microsoft.Network/virtualNetworks/subnets/read", false},
		{"Microsoft.Network/virtualNetworks/subnets/join/action", false},
	} {
		err := makeCluster(t, slices.DeleteFunc(slices.Clone(actions), func(a string) bool {
			return a == c.without
		}))
		if (err == nil) != c.works {
			t.Errorf("without %q: %v", c.without, err)
		}
	}
}

// TestGeneratedConfig: the config in a template's output equals the one that cluster create writes,
// and the manifest contains it, too.
func TestGeneratedConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &leastRights{t: t}
	const subscription = "11111111-1111-1111-1111-111111111111"
	l.run(0, "iac", "generate", "arm", "shop", "--host", "aks", "--out", dir, "--blueprint",
		"kubenet",
		"--application-gateway", "--subscription", subscription, "--location", "westeurope")
	text, err := os.ReadFile(filepath.Join(dir, "main.json"))
	l.must(err)
	doc, err := armtemplate.Parse("main.json", text)
	l.must(err)
	r, err := armtemplate.Evaluate(doc.(*armtemplate.Object), nil, armtemplate.Options{
		Subscription: subscription, ResourceGroup: "shop-rg", Location: "westeurope"})
	l.must(err)
	c, err := build.Cluster{Name: "shop", Subscription: subscription, Location: "westeurope",
		Blueprint: capacity.Kubenet, ApplicationGateway: &build.Gateway{Most: 10},
		Pools: []build.Pool{{Name: "system", VMSize: "Standard_D4s_v5", Count: 3}}}.Complete()
	l.must(err)
	want := routesOf(c)
	output := func(name string) string {
		value, _ := armtemplate.TextOf(r.Outputs.Object(name).Get("value"))
		return value
	}
	configs, err := config.Read(config.File{Name: "routes.yaml", Data: []byte(output("routes"))})
	if err != nil || len(configs) != 1 || !reflect.DeepEqual(configs[0].Spec, want.Spec) {
		t.Errorf("%v\n%s\nwant %+v", err, output("routes"), want.Spec)
	}
	var kinds []string
	for part := range strings.SplitSeq(output("keeperManifest"), "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		l.must(yaml.Unmarshal([]byte(part), &object))
		kinds = append(kinds, object.Kind)
		if object.Kind != "ConfigMap" {
			continue
		}
		in := []byte(object.Data["routes.yaml"])
		configs, err := config.Read(config.File{Name: "routes.yaml", Data: in})
		if err != nil || len(configs) != 1 || !reflect.DeepEqual(configs[0].Spec, want.Spec) {
			t.Errorf("in the manifest: %v\n%s", err, in)
		}
	}
	if got := strings.Join(kinds, " "); got != "Namespace ServiceAccount ConfigMap Deployment" {
		t.Errorf("the manifest has %s", got)
	}
}

// makeCluster creates the generated network, and a cluster in it whose identity has only the given
// actions on its table and subnet. It waits for a route for each node.
func makeCluster(t *testing.T, actions []string) error {
	t.Helper()
	e, err := emulator.New(emulator.Options{CheckClusterIdentity: true,
		RouteBatch: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := e.Client(emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	type m = map[string]any
	sub := "/subscriptions/" + emulator.DefaultSubscription
	group := arm.ID(sub + "/resourceGroups/shop-rg")
	table, vnet := group+"/providers/Microsoft.Network/routeTables/shop-nodes-rt", group+
		"/providers/Microsoft.Network/virtualNetworks/shop-vnet"
	identity, cluster := group+
		"/providers/Microsoft.ManagedIdentity/userAssignedIdentities/shop-cluster", group+
		"/providers/Microsoft.ContainerService/managedClusters/shop"
	put := func(id arm.ID, version string, body m) {
		t.Helper()
		if err := c.Put(id, version, body); err != nil {
			t.Fatal(err)
		}
	}
	put(group, "2024-03-01", m{"location": "westeurope"})
	put(table, "2025-05-01", m{"location": "westeurope", "properties": m{}})
	put(vnet, "2025-05-01",
		m{"location": "westeurope",
			"properties": m{"addressSpace": m{"addressPrefixes": []any{"10.240.0.0/16"}},
				"subnets": []any{
					m{"name": "nodes", "properties": m{"addressPrefix": "10.240.0.0/20",
						"routeTable": m{"id": string(table)}}}}}})
	put(identity, "2024-11-30", m{"location": "westeurope"})
	who, err := c.Get(identity, "2024-11-30")
	if err != nil {
		t.Fatal(err)
	}
	role := sub + "/providers/Microsoft.Authorization/roleDefinitions/c0000000-0000-4000-8000-000000000009"
	put(arm.ID(role), rolesVersion,
		m{"properties": m{"roleName": "shop cluster network", "assignableScopes": []any{sub},
			"permissions": []any{m{"actions": actions}}}})
	subnet := vnet.Child("subnets", "nodes")
	for _, scope := range []arm.ID{table, subnet} {
		put(scope+"/providers/Microsoft.Authorization/roleAssignments/"+
			arm.ID(map[arm.ID]string{table: "d1", subnet: "d2"}[scope]+
				"000000-0000-4000-8000-000000000001"), rolesVersion,
			m{"properties": m{"roleDefinitionId": role,
				"principalId": who["properties"].(m)["principalId"]}})
	}
	err = c.Put(cluster, "2025-10-01", m{
		"location": "westeurope", "identity": m{"type": "UserAssigned",
			"userAssignedIdentities": m{string(identity): m{}}},
		"properties": m{"networkProfile": m{"networkPlugin": "kubenet"},
			"agentPoolProfiles": []any{m{"name": "system", "count": 3, "mode": "System",
				"vnetSubnetID": string(subnet)}}},
	})
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		doc, err := c.Get(table, "2025-05-01")
		if err != nil {
			return err
		}
		if n := len(doc["properties"].(m)["routes"].([]any)); n == 3 {
			return nil
		} else if time.Now().After(deadline) {
			return fmt.Errorf("%d routes", n)
		}
	}
}
