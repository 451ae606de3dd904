package generate

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

const shopSubscription = "11111111-1111-1111-1111-111111111111"

// variant is a cluster to write code for.
type variant struct {
	name    string
	cluster build.Cluster
	// found are existing resources, by ID.
	found []arm.Document
}

// variants are all blueprints, plain and with all options.
func variants(t *testing.T) []variant {
	t.Helper()
	var out []variant
	add := func(name string, c build.Cluster) {
		c.Name, c.Subscription, c.Group, c.Location = "shop", shopSubscription, "Shop-RG",
			"westeurope"
		complete, err := c.Complete()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, variant{name: name, cluster: complete})
	}
	system := build.Pool{Name: "system", VMSize: "Standard_D4s_v5", Count: 3}
	several := []build.Pool{
		{Name: "system", VMSize: "Standard_D4s_v5", Count: 3, Least: 2, Most: 5,
			Zones: []string{"1", "2", "3"}},
		{Name: "user", VMSize: "Standard_D8s_v5", Count: 2, MaxPods: 60},
		{Name: "batch", VMSize: "Standard_F8s_v2", Count: 1, Least: 1, Most: 4,
			Zones: []string{"2"}},
	}
	space := []netip.Prefix{netip.MustParsePrefix("10.240.0.0/12"),
		netip.MustParsePrefix("10.130.0.0/16")}
	firewall := netip.MustParseAddr("10.100.0.4")
	for _, b := range capacity.Plugins() {
		add(string(b), build.Cluster{Blueprint: b, Pools: []build.Pool{system}})
		add(string(b)+"-gateway", build.Cluster{Blueprint: b, Pools: []build.Pool{system},
			ApplicationGateway: &build.Gateway{Least: 1, Most: 4}})
		add(string(b)+"-egress",
			build.Cluster{Blueprint: b, Pools: []build.Pool{system}, Egress: firewall})
		add(string(b)+"-all", build.Cluster{Blueprint: b, Pools: several, Egress: firewall,
			Version: "1.33",
			Private: true, NetworkPolicy: "calico", ApplicationGateway: &build.Gateway{Most: 10},
			Space: space, PodCIDR: podCIDR(b)})
	}
	add("overlay-cilium",
		build.Cluster{Blueprint: capacity.Overlay, Pools: several, NetworkPolicy: "cilium"})
	const other = "22222222-2222-2222-2222-222222222222"
	for _, v := range existingIn(t, shopSubscription, other, "net")[:5] {
		v.name += "-elsewhere"
		out = append(out, v)
	}
	return append(out, existingVariants(t, shopSubscription, "net")...)
}

// podCIDR is outside of the wide address space, for blueprints that have one.
func podCIDR(b capacity.Plugin) netip.Prefix {
	if b == capacity.Kubenet || b == capacity.Overlay {
		return netip.MustParsePrefix("172.20.0.0/16")
	}
	return netip.Prefix{}
}

// Values that Azure gives earlier resources, as they appear in bodies.
const (
	clusterPrincipal = "<object ID of the cluster's identity>"
	addonPrincipal   = "<object ID of the add-on's identity>"
	keeperPrincipal  = "<object ID of the keeper's identity>"
	keeperClient     = "<client ID of the keeper's identity>"
)

// flat is a body as its fields.
type flat map[string]string

// bodies are the bodies of resources, by ID.
type bodies map[string]flat

// flatten adds the fields of a value. An empty object is a field, too.
func (f flat) flatten(path string, v any) {
	switch v := v.(type) {
	case object:
		if len(v) == 0 && path != "properties" {
			f[path] = "{}"
		}
		for name, item := range v {
			f.flatten(strings.TrimPrefix(path+"."+name, "."), item)
		}
	case []any:
		if len(v) == 0 {
			f[path] = "[]"
		}
		for i, item := range v {
			f.flatten(fmt.Sprintf("%s[%d]", path, i), item)
		}
	default:
		f[path] = fmt.Sprint(v)
	}
}

// add adds a body. A role definition has its subscription's ID, wherever it is put.
func (b bodies) add(t *testing.T, id arm.ID, body any) {
	t.Helper()
	if id.Is(arm.TypeRoleDefinition) {
		id = arm.ID("/subscriptions/" + id.Subscription() + "/providers/" + arm.TypeRoleDefinition +
			"/" + id.Name())
	}
	if b[id.Key()] != nil {
		t.Errorf("%s is there twice", id)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		t.Fatal(err)
	}
	f := flat{}
	f.flatten("", plain)
	b[id.Key()] = f
}

// created is what cluster create writes, except the resource group.
func created(t *testing.T, c build.Cluster) bodies {
	t.Helper()
	made := build.Made{}
	for id, text := range map[arm.ID]string{
		c.IdentityID(): fmt.Sprintf(`{"properties": {"principalId": %q}}`, clusterPrincipal),
		c.ClusterID(): fmt.Sprintf(
			`{"properties": {"addonProfiles": {"ingressApplicationGateway": `+
				`{"identity": {"objectId": %q}}}}}`, addonPrincipal),
	} {
		made[id.Key()] = arm.Document{ID: id, Raw: []byte(text)}
	}
	out := bodies{}
	for _, s := range c.Steps() {
		if s.ID != c.GroupID() && (!s.Found || s.Associates != "") {
			out.add(t, s.ID, s.Body(made))
		}
	}
	return out
}

// evaluated returns the resources of a template that is deployed to the cluster's group.
func evaluated(t *testing.T, c build.Cluster, template []byte) *armtemplate.Result {
	t.Helper()
	doc, err := armtemplate.Parse("main.json", template)
	if err != nil {
		t.Fatal(err)
	}
	given, err := armtemplate.Parse("given",
		[]byte(`{"image": {"value": "registry.example.com/routekeeper:1.0"}, `+
			`"eventSecret": {"value": "0123456789abcdef"}}`))
	if err != nil {
		t.Fatal(err)
	}
	parameters := given.(*armtemplate.Object)
	known := doc.(*armtemplate.Object).Object("parameters")
	parameters.Members = slices.DeleteFunc(parameters.Members, func(m armtemplate.Member) bool {
		return known.Get(m.Name) == nil
	})
	r, err := armtemplate.Evaluate(doc.(*armtemplate.Object), parameters, armtemplate.Options{
		Subscription: c.Subscription, ResourceGroup: c.Group, Location: c.Location,
		DeploymentName: "main"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range r.Notes {
		t.Errorf("%s: %s", n.Address, n.Text)
	}
	return r
}

// deployed is what a template writes.
func deployed(t *testing.T, r *armtemplate.Result) bodies {
	t.Helper()
	out := bodies{}
	for _, res := range r.Resources {
		if res.Type == typeDeployment {
			continue // its resources follow
		}
		body := object{}
		for _, m := range res.Body.Members {
			switch m.Name {
			case "type", "apiVersion", "name", "comments", "scope", "@options", "dependsOn":
			default:
				body[m.Name] = known(m.Value)
			}
		}
		out.add(t, arm.ID(res.ID), body)
	}
	return out
}

// known is a value of a template; values that Azure gives are placeholders.
func known(v any) any {
	switch v := v.(type) {
	case *armtemplate.Unknown:
		switch {
		case strings.HasSuffix(v.Of, "/shop-keeper") && v.Path == "principalId":
			return keeperPrincipal
		case strings.HasSuffix(v.Of, "/shop-keeper") && v.Path == "clientId":
			return keeperClient
		case strings.HasSuffix(v.Of, "/managedClusters/shop") &&
			strings.HasSuffix(v.Path, ".issuerURL"):
			return issuer
		case strings.HasSuffix(v.Of, "/shop-cluster") && v.Path == "principalId":
			return clusterPrincipal
		case strings.HasSuffix(v.Of, "/managedClusters/shop") &&
			strings.HasSuffix(v.Path, "identity.objectId"):
			return addonPrincipal
		}
		return "<" + v.Of + " " + v.Path + " " + v.Why + ">"
	case []any:
		var out []any
		for _, item := range v {
			out = append(out, known(item))
		}
		return out
	case *armtemplate.Object:
		out := object{}
		for _, m := range v.Members {
			out[m.Name] = known(m.Value)
		}
		return out
	case armtemplate.Opaque:
		return string(v)
	}
	return v
}

// differ reports how the written resources differ from the expected ones, without the resources of
// the keeper, which cluster create does not make.
func differ(t *testing.T, what string, got, want bodies) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] == nil {
			t.Errorf("%s: %s is not written", what, id)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(want[id])) {
			if g, there := got[id][field]; !there {
				t.Errorf("%s: %s: %s is not written, want %s", what, id, field, want[id][field])
			} else if g != want[id][field] {
				t.Errorf("%s: %s: %s is %s, want %s", what, id, field, g, want[id][field])
			}
		}
		for _, field := range slices.Sorted(maps.Keys(got[id])) {
			if _, there := want[id][field]; !there {
				t.Errorf("%s: %s: %s is %s, which create does not write", what, id, field,
					got[id][field])
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if want[id] == nil {
			t.Errorf("%s: %s is written, and create does not make it", what, id)
		}
	}
}

// TestTemplatesSayWhatCreateMakes compares create's bodies with the ARM JSON, and with the Bicep as
// the test's reader parses it, resource by resource and field by field.
func TestTemplatesSayWhatCreateMakes(t *testing.T) {
	for _, v := range variants(t) {
		b := Blueprint{Cluster: v.cluster, Provider: 5}
		want := created(t, v.cluster)
		template := armOf(t, b)
		result := evaluated(t, v.cluster, template)
		differ(t, v.name+" as ARM JSON", withSubnets(t, v, deployed(t, result), want), want)
		inOrder(t, v, result)
		read := evaluated(t, v.cluster, bicepOf(t, b))
		differ(t, v.name+" as Bicep", withSubnets(t, v, deployed(t, read), want), want)
		inOrder(t, v, read)
		head := b.head("main.json")
		group := strings.Join(head, "\n")
		for _, text := range []string{
			"--name " + v.cluster.Group, "--location westeurope --tags " +
				"routekeeper-cluster=shop-rg/shop",
		} {
			if !strings.Contains(group, text) {
				t.Errorf("%s: the command for the resource group does not say %s:\n%s", v.name,
					text, group)
			}
		}
	}
}

func armOf(t *testing.T, b Blueprint) []byte {
	t.Helper()
	files, err := b.ARM()
	if err != nil {
		t.Fatal(err)
	}
	return files[0].Text
}

func bicepOf(t *testing.T, b Blueprint) []byte {
	t.Helper()
	files, err := b.Bicep()
	if err != nil {
		t.Fatal(err)
	}
	return encodeTemplate(t, readBicep(t, files, "main.bicep"))
}

// inOrder checks that the cluster comes after everything that create makes before it, and tables
// before their subnets.
func inOrder(t *testing.T, v variant, r *armtemplate.Result) {
	t.Helper()
	find := func(id arm.ID) *armtemplate.Resource {
		i := slices.IndexFunc(r.Resources, func(o *armtemplate.Resource) bool {
			return arm.ID(o.ID).Equal(id) || id.Is(arm.TypeRoleDefinition) &&
				o.Type == arm.TypeRoleDefinition
		})
		if i < 0 {
			return nil
		}
		return r.Resources[i]
	}
	cluster := find(v.cluster.ClusterID())
	for _, s := range v.cluster.Steps()[1:] {
		if s.ID == v.cluster.ClusterID() {
			break
		}
		if s.Found && s.Associates == "" {
			continue
		}
		if step := find(s.ID); step == nil || !cluster.After(step) {
			t.Errorf("%s: the cluster does not come after %s", v.name, s.ID.Short())
		}
	}
	var subnets []*armtemplate.Resource
	for _, res := range r.Resources {
		if res.Type == arm.TypeSubnet {
			subnets = append(subnets, res)
		}
		shared := res.Type == arm.TypeRouteTable || res.Type == arm.TypeGateway ||
			res.Type == arm.TypeSubnet && !associated(v.cluster, res)
		if shared != once(res) {
			t.Errorf("%s: %s is written again: %t", v.name, res.ID, !once(res))
		}
	}
	for i, a := range subnets {
		for _, b := range subnets[:i] {
			if !a.After(b) && !b.After(a) {
				t.Errorf("%s: %s and %s are written at the same time", v.name, a.Name, b.Name)
			}
		}
	}
}

func once(r *armtemplate.Resource) bool {
	is, _ := r.Body.Object("@options").Get("onlyIfNotExists").(bool)
	return is
}

// TestAllAgree: with a keeper, too, all languages agree.
func TestAllAgree(t *testing.T) {
	for _, v := range variants(t) {
		for _, host := range Hosts() {
			if v.cluster.Blueprint != capacity.Kubenet {
				continue
			}
			b := Blueprint{Cluster: v.cluster, Provider: 5, Host: host}
			template, read := evaluated(t, v.cluster, armOf(t, b)), evaluated(t, v.cluster,
				bicepOf(t, b))
			want := withSubnets(t, v, deployed(t, template), created(t, v.cluster))
			differ(t, v.name+" for "+string(host)+" as Bicep",
				withSubnets(t, v, deployed(t, read), created(t, v.cluster)), want)
			files, err := b.Terraform()
			if err != nil {
				t.Fatal(err)
			}
			applied := readTerraform(t, v.cluster, files).azure()
			delete(applied, v.cluster.GroupID().Key()) // a template is deployed to it
			differ(t, v.name+" for "+string(host)+" as Terraform", applied, want)
			for _, m := range template.Outputs.Members {
				got := fmt.Sprint(known(read.Outputs.Get(m.Name)))
				if want := fmt.Sprint(known(m.Value)); got != want {
					t.Errorf("%s for %s: the output %s is\n%s\nwant\n%s", v.name, host, m.Name, got,
						want)
				}
			}
		}
	}
}
