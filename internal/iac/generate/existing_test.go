package generate

import (
	"encoding/json"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// existingVariants are clusters in an existing network of a subscription and a resource group.
func existingVariants(t *testing.T, subscription, group string) (out []variant) {
	return existingIn(t, subscription, subscription, group)
}

// existingIn are clusters of a subscription in a network of another one.
func existingIn(t *testing.T, subscription, of, group string) (out []variant) {
	t.Helper()
	id := func(kind, name string) arm.ID {
		return arm.ResourceID(of, group, kind, name)
	}
	vnet := id(arm.TypeVNet, "hub")
	link := func(id arm.ID) string { return `{"id": "` + string(id) + `"}` }
	group0 := arm.GroupID(of, group)
	nsg, theirs := id(arm.TypeSecurityGroup, "nsg"), id(arm.TypeRouteTable, "theirs")
	table := arm.Document{ID: theirs, Raw: []byte(`{"location": "westeurope", "properties": ` +
		`{"routes": [{"name": "egress", "properties": {"addressPrefix": "0.0.0.0/0", ` +
		`"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.100.0.4"}}]}}`)}
	plain := arm.Document{ID: id(arm.TypeRouteTable, "plain"),
		Raw: []byte(`{"location": "westeurope", "properties": {}}`)}
	network := arm.Document{ID: vnet, Raw: []byte(`{"location": "westeurope", "properties": {
		"addressSpace": {"addressPrefixes": ["10.240.0.0/12"]}, "subnets": [
		{"name": "nodes", "properties": {"addressPrefix": "10.240.0.0/20",
			"serviceEndpoints": [{"service": "Microsoft.Storage"}],
			"privateEndpointNetworkPolicies": "Enabled", "notInAnySDK": {"of": [1.5]},
			"networkSecurityGroup": ` + link(nsg) + `}},
		{"name": "pods", "properties": {"addressPrefix": "10.241.0.0/16"}},
		{"name": "agw", "properties": {"addressPrefix": "10.242.0.0/24",
			"networkSecurityGroup": ` + link(nsg) + `}},
		{"name": "tabled", "properties": {"addressPrefix": "10.243.0.0/20",
			"routeTable": ` + link(plain.ID) + `}},
		{"name": "walled", "properties": {"addressPrefix": "10.244.0.0/20",
			"routeTable": ` + link(theirs) + `}}]}}`)}
	found := []arm.Document{
		{ID: group0, Raw: []byte(`{"location": "westeurope"}`)},
		{ID: nsg, Raw: []byte(`{"location": "westeurope", "properties": {}}`)},
		table, plain, network,
	}
	add := func(name string, c build.Cluster, e build.Existing) {
		c.Name, c.Subscription, c.Group, c.Location = "shop", subscription, "Shop-RG", "westeurope"
		c.Pools, c.Existing = []build.Pool{{Name: "system", VMSize: "Standard_D4s_v5", Count: 3}},
			&e
		if c.Blueprint == capacity.Kubenet || c.Blueprint == capacity.Overlay {
			c.PodCIDR = podCIDR(c.Blueprint)
		}
		complete, err := c.Complete()
		if err == nil {
			complete, err = complete.Use(build.Network{VNet: &network,
				Tables: map[string]arm.Document{theirs.Key(): table, plain.ID.Key(): plain}})
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, variant{name, complete, found})
	}
	subnet := func(name string) arm.ID { return vnet.Child("subnets", name) }
	gateway, firewall := &build.Gateway{Most: 4}, netip.MustParseAddr("10.100.0.4")
	add("existing-kubenet", build.Cluster{Blueprint: capacity.Kubenet, ApplicationGateway: gateway},
		build.Existing{Nodes: subnet("nodes"), Gateway: subnet("agw")})
	add("existing-kubenet-table", build.Cluster{Blueprint: capacity.Kubenet,
		ApplicationGateway: gateway}, build.Existing{Nodes: subnet("tabled")})
	add("existing-kubenet-one-table",
		build.Cluster{Blueprint: capacity.Kubenet, ApplicationGateway: gateway},
		build.Existing{Nodes: subnet("nodes"), Gateway: subnet("tabled")})
	add("existing-pod-subnet", build.Cluster{Blueprint: capacity.PodSubnet,
		ApplicationGateway: gateway}, build.Existing{Nodes: subnet("nodes")})
	add("existing-pod-subnet-egress", build.Cluster{Blueprint: capacity.PodSubnet,
		Egress: firewall}, build.Existing{Nodes: subnet("nodes"), Pods: subnet("pods")})
	add("existing-pod-subnet-walled", build.Cluster{Blueprint: capacity.PodSubnetStatic,
		Egress: firewall}, build.Existing{Nodes: subnet("walled"), Pods: subnet("pods")})
	add("existing-overlay", build.Cluster{Blueprint: capacity.Overlay, BuiltInRoles: true},
		build.Existing{Nodes: subnet("nodes")})
	return out
}

// associated reports whether a written subnet exists and only gets a table.
func associated(c build.Cluster, res *armtemplate.Resource) bool {
	for _, s := range c.Steps() {
		if s.Associates != "" && s.ID.Equal(arm.ID(res.ID)) {
			return true
		}
	}
	return false
}

// TestChangesSaid: the head of the code says what it changes in the existing network.
func TestChangesSaid(t *testing.T) {
	want := map[string]string{
		"existing-kubenet": "associates the route table shop-nodes-rt with the existing subnet " +
			"hub/nodes",
		"existing-kubenet-table": "makes the subnet hub/shop-gateway-",
		"existing-overlay":       "changes nothing in it",
	}
	for _, v := range existingVariants(t, shopSubscription, "net") {
		b := Blueprint{Cluster: v.cluster, Provider: 5}
		for language, text := range map[string]string{"arm": string(armOf(t, b)),
			"bicep": headOf(t, b.Bicep), "terraform": headOf(t, b.Terraform)} {
			if !strings.Contains(text, want[v.name]) {
				t.Errorf("%s, %s: the head does not say %q", v.name, language, want[v.name])
			}
		}
	}
}

func headOf(t *testing.T, write func() ([]Output, error)) string {
	t.Helper()
	files, err := write()
	if err != nil {
		t.Fatal(err)
	}
	return string(files[0].Text)
}

// withSubnets replaces the bodies of existing subnets that get a table: a template reads them
// during the deployment, which only TestDeployedInExisting does.
func withSubnets(t *testing.T, v variant, got, want bodies) bodies {
	t.Helper()
	for _, s := range v.cluster.Steps() {
		if s.Associates == "" {
			continue
		}
		if p := got[s.ID.Key()]["properties"]; !strings.HasPrefix(p, "<") {
			t.Errorf("%s: the properties of %s are not read: %q", v.name, s.ID, got[s.ID.Key()])
		}
		got[s.ID.Key()] = want[s.ID.Key()]
	}
	return got
}

func foundVersion(id arm.ID) string {
	if id.Is(arm.TypeResourceGroup) {
		return "2024-11-01"
	}
	return versions[arm.TypeVNet]
}

// propertiesOf are the properties of the existing subnets that a cluster uses.
func propertiesOf(t *testing.T, op *emulator.Client, c build.Cluster) map[arm.ID]object {
	t.Helper()
	out := map[arm.ID]object{}
	for _, s := range c.Steps() {
		if !s.Found || !s.ID.Is(arm.TypeSubnet) {
			continue
		}
		doc, err := op.Get(s.ID, versions[arm.TypeSubnet])
		if err != nil {
			t.Fatal(err)
		}
		out[s.ID] = doc["properties"].(object)
	}
	return out
}

// sameProperties compares existing subnets before and after a deployment: only a table can be new,
// and what uses the subnet.
func sameProperties(t *testing.T, c build.Cluster, before, after map[arm.ID]object) {
	t.Helper()
	for _, s := range c.Steps() {
		was, is := before[s.ID], after[s.ID]
		if was == nil {
			continue
		}
		want := maps.Clone(was)
		if s.Associates != "" {
			want["routeTable"] = object{"id": string(s.Associates)}
		}
		for _, name := range []string{"ipConfigurations", "applicationGatewayIPConfigurations",
			"delegations", "serviceAssociationLinks"} { // Azure's
			delete(want, name)
			delete(is, name)
		}
		got, _ := json.Marshal(is)
		wanted, _ := json.Marshal(want)
		if !strings.EqualFold(string(got), string(wanted)) {
			t.Errorf("%s is %s, want %s", s.ID, got, wanted)
		}
	}
}
