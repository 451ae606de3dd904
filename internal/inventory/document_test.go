package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// realTable is an existing table of a kubenet cluster with egress, exported from Azure.
func realTable(t testing.TB) []byte {
	raw, err := os.ReadFile("../../testdata/arm/routetable-byo-kubenet-with-egress.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// flatten moves the properties of a resource and its routes up next to their names, as `az … show`
// prints them.
func flatten(t testing.TB, raw []byte) []byte {
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	up := func(m map[string]any) {
		for k, v := range m["properties"].(map[string]any) {
			m[k] = v
		}
		delete(m, "properties")
		m["resourceGroup"] = "aks-rg"
	}
	up(doc)
	for _, r := range doc["routes"].([]any) {
		up(r.(map[string]any))
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDecodeRealTable(t *testing.T) {
	shapes := map[string][]byte{
		"ARM":        realTable(t),
		"flattened":  flatten(t, realTable(t)),
		"with a BOM": append([]byte("\xef\xbb\xbf"), realTable(t)...),
		"in other cases": bytes.Replace(realTable(t),
			[]byte("Microsoft.Network/routeTables/aks-fwrt\""),
			[]byte("microsoft.network/ROUTETABLES/aks-fwrt\""), 1),
	}
	for name, raw := range shapes {
		t.Run(name, func(t *testing.T) {
			table, err := DecodeRouteTable(raw)
			if err != nil {
				t.Fatal(err)
			}
			if table.Location != "eastus" ||
				table.ETag != `W/"2b1e6a4e-6d3b-4a47-9d3b-0f5a4c1d7e01"` ||
				table.ID.Name() != "aks-fwrt" ||
				len(table.Subnets) != 1 || table.Subnets[0].Short() != "aks-vnet/aks-subnet" {
				t.Errorf("%+v", table)
			}
			var got []string
			for _, r := range table.Routes() {
				got = append(got, r.Name+" "+r.Destination()+" "+r.NextHop())
			}
			want := []string{
				"aks-fwinternet 157.56.178.157/32 Internet",
				"aks-fwrn 0.0.0.0/0 10.42.2.4",
				"aks-nodepool1-40643304-vmss000000____102440024 10.244.0.0/24 10.42.1.7",
				"aks-nodepool1-40643304-vmss000001____102442024 10.244.2.0/24 10.42.1.6",
				"aks-nodepool1-40643304-vmss000002____102441024 10.244.1.0/24 10.42.1.5",
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("routes\n%q\nwant\n%q", got, want)
			}
		})
	}
}

func TestDecodeRouteTableMistakes(t *testing.T) {
	const id = `"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/t"`
	for text, want := range map[string]string{
		"":              "it is empty, expected a JSON object",
		"[]":            "expected a JSON object, found array",
		"{":             "line 1: not JSON",
		"{\n\"id\": x}": "line 2: not JSON",
		"\xff\xfe{\x00": "not UTF-8 text (a file redirected by Windows PowerShell " +
			"is UTF-16: save it as UTF-8)",
		"{}":           "no field id: expected one resource of type Microsoft.Network/routeTables",
		`{"value":[]}`: "no field id",
		`{"id":"rt"}`:  `id: "rt" is not a resource ID`,
		`{"id":"/subscriptions/s"}`: "is a Microsoft.Resources/subscriptions, expected a " +
			"Microsoft.Network/routeTables",
		`{` + id + `,"routes":{}}`:   "routes: found object where",
		`{` + id + `,"routes":[{}]}`: "routes[0]: a route needs a name and an addressPrefix",
		`{` + id + `,"routes":[{"name":"a","addressPrefix":"10.0.0.0/8"},{"name":"A","addressPrefix":"11.0.0.0/8"}]}`: "routes[1]: another route is also named A",
	} {
		_, err := DecodeRouteTable([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestOddRoutesAreKept(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","properties":{"addressPrefix":"Storage.WestEurope","nextHopType":"Internet"}}`:                                       "Storage.WestEurope>Internet",
		`{"name":"a","properties":{"addressPrefix":"10.0.0.1/8","nextHopType":"None"}}`:                                                   "10.0.0.1/8>None",
		`{"name":"a","properties":{"addressPrefix":"10.0.0.0/8","nextHopType":"VirtualAppliance","nextHopIpAddress":""}}`:                 "10.0.0.0/8>VirtualAppliance",
		`{"name":"a","properties":{"addressPrefix":"fd00::/8","nextHopType":"virtualappliance","nextHopIpAddress":"FD00::1"}}`:            "fd00::/8>fd00::1",
		`{"name":"a","properties":{"addressPrefix":"10.0.0.0/8","nextHopType":"Internet","nextHopIpAddress":"10.0.0.1"}}`:                 "10.0.0.0/8>Internet",
		`{"name":"a","addressPrefix":"10.0.0.0/8","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.0.1","resourceGroup":"flat"}`: "10.0.0.0/8>10.0.0.1",
	} {
		r, err := DecodeRoute([]byte(text))
		if got := r.Destination() + ">" + r.NextHop(); err != nil || got != want ||
			string(r.Raw) != text {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestEditsChangeOneThing: an edit leaves everything else unchanged, byte for byte: numbers,
// spaces, order and unknown fields.
func TestEditsChangeOneThing(t *testing.T) {
	const table = arm.ID(
		"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/rt")
	const head = `{ "name":"x", "id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/x",
	 "properties" : {"addressPrefix":"10.0.0.0/24", "future":{"n":1.50e1,"big":12345678901234567890, "t":"<&>é"},`
	const tail = ` "serviceEndpoints":[ {"service":"Microsoft.Storage"} ]}, "etag":"W/\"1\"" }`
	for before, after := range map[string]string{
		head + `"routeTable":{"id":"/old"},` + tail: head + `"routeTable":{"id":"` + string(table) +
			`"},` + tail,
		head + tail: head + strings.Replace(tail, "]}", `],"routeTable":{"id":"`+string(table)+
			`"}}`, 1),
	} {
		got, err := SetProperties([]byte(before), map[Property]arm.ID{PropertyTable: table})
		if err != nil || string(got) != after {
			t.Errorf("%v\n got %s\nwant %s", err, got, after)
		}
	}
	// Several at once: a lost one is added, and one that is there is replaced.
	nat, group := arm.ResourceID("s", "g", arm.TypeNATGateway, "nat"),
		arm.ResourceID("s", "g", arm.TypeSecurityGroup, "nsg")
	got, err := SetProperties([]byte(head+`"networkSecurityGroup":{"id":"/old"},`+tail),
		map[Property]arm.ID{PropertyNAT: nat, PropertyGroup: group})
	after := head + `"networkSecurityGroup":{"id":"` + string(group) + `"},` +
		strings.Replace(tail, "]}", `],"natGateway":{"id":"`+string(nat)+`"}}`, 1)
	if err != nil || string(got) != after {
		t.Errorf("%v\n got %s\nwant %s", err, got, after)
	}

	raw := realTable(t)
	parsed, err := DecodeRouteTable(raw)
	if err != nil {
		t.Fatal(err)
	}
	hop := netip.MustParseAddr("10.42.1.99")
	moved, err := parsed.Routes()[3].With(parsed.Routes()[3].Prefix, hop)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(string(parsed.Routes()[3].Raw), "10.42.1.6", "10.42.1.99",
		1); string(moved.Raw) != want {
		t.Errorf("the moved route is\n%s\nwant\n%s", moved.Raw, want)
	}
	routes := append(append([]Route(nil), parsed.Routes()[:3]...), moved,
		NewRoute("new", netip.MustParsePrefix("10.244.9.0/24"), hop))
	out, err := SetRoutes(raw, routes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range parsed.Routes()[:3] {
		if !bytes.Contains(out, r.Raw) {
			t.Errorf("the route %s did not come through", r.Name)
		}
	}
	paths, err := arm.Differences(raw, out)
	name := parsed.Routes()[3].Name
	want := []string{"properties.routes[" + parsed.Routes()[4].Name + "]", "properties.routes[" +
		name + "].properties.nextHopIpAddress", "properties.routes[new]"}
	if slices.Sort(want); err != nil || !reflect.DeepEqual(paths, want) {
		t.Errorf("differences %v, %v", paths, err)
	}
	if lost, err := arm.Lost(raw, out); err != nil ||
		!reflect.DeepEqual(lost,
			[]string{"properties.routes[" + name + "].properties.nextHopIpAddress",
				"properties.routes[" + parsed.Routes()[4].Name + "]"}) {
		t.Errorf("lost %v, %v", lost, err)
	}
	start := bytes.Index(raw, []byte(`"routes": [`))
	end := bytes.Index(raw, []byte(`"subnets": [`))
	if !bytes.HasPrefix(out, raw[:start]) || !bytes.HasSuffix(out, raw[end:]) {
		t.Error("bytes outside the routes changed")
	}
}

func TestEditsRefuseWhatTheyCannotDoSafely(t *testing.T) {
	// Duplicate keys: readers take the last one, editors the first.
	doubled := `{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/x","properties":{},"properties":{"addressPrefix":"10.0.0.0/24"}}`
	table := map[Property]arm.ID{PropertyTable: arm.ResourceID("s", "g", arm.TypeRouteTable, "rt")}
	if out, err := SetProperties([]byte(doubled), table); err == nil {
		t.Errorf("edited to %s", out)
	}
	doubled = `{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/rt","properties":{"routes":[]},"properties":{"routes":[{"name":"a","properties":{"addressPrefix":"10.0.0.0/8"}}]}}`
	if out, err := SetRoutes([]byte(doubled), nil); err == nil {
		t.Errorf("edited to %s", out)
	}
	// A field that a document omits may exist, and a PUT would remove it.
	const network = `{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/`
	for _, properties := range []string{
		`}`, `,"properties":null}`, `,"properties":{}}`, `,"properties":{"routes":null}}`,
	} {
		if out, err := SetRoutes([]byte(network+`routeTables/rt"`+properties), nil); err == nil {
			t.Errorf("edited to %s", out)
		}
	}
	for _, properties := range []string{`}`, `,"properties":null}`} {
		subnet := network + `virtualNetworks/v/subnets/x"` + properties
		if out, err := SetProperties([]byte(subnet), table); err == nil {
			t.Errorf("edited to %s", out)
		}
	}
}

func TestDifferences(t *testing.T) {
	a := `{"etag":"1","a":1,"b":{"c":[1,{"d":"x"}],"provisioningState":"Updating"},"e":null}`
	for b, want := range map[string]string{
		a: "[]",
		`{"e":null,"b":{"provisioningState":"Succeeded","c":[1,{"d":"x"}]},"a":1,"etag":"2"}`: "[]",
		`{"a":1.0,"b":{"c":[1,{"d":"y"}]},"e":null}`:                                          "[a b.c[1].d]",
		`{"a":"1","b":{"c":[1]}}`:                                                             "[a b.c e]",
		`{"a":1,"b":[],"e":{},"f":1}`:                                                         "[b e f]",
		`{"a":2,"\u0061":1,"b":{"c":[1,{"d":"\u0078"}]},"e":null}`:                            "[]",
	} {
		got, err := arm.Differences([]byte(a), []byte(b))
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", b, got, err, want)
		}
	}
	if _, err := arm.Differences([]byte(a), []byte("{\n\"a\":}")); err == nil ||
		!strings.HasPrefix(err.Error(), "line 2: not JSON") {
		t.Error(err)
	}
}

func TestDecodeSubnetAndVNet(t *testing.T) {
	const vnet = `{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v","etag":"W/\"v\"","properties":{"subnets":[
	  {"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes","properties":{"addressPrefixes":["10.0.0.0/24","fd00::/64"],"routeTable":{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/rt"}}},
	  {"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/gw","properties":{"addressPrefix":"10.0.1.0/24","routeTable":null,"serviceAssociationLinks":[{"id":"/x"}],
	    "applicationGatewayIPConfigurations":[{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationGateways/agw/gatewayIPConfigurations/c"}],
	    "ipConfigurations":[{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/applicationGateways/agw/frontendIPConfigurations/f"}]}}]}}`
	doc, err := DecodeVNet([]byte(vnet))
	if err != nil || len(doc.Subnets) != 2 || doc.ETag != `W/"v"` {
		t.Fatalf("%+v %v", doc, err)
	}
	if s := doc.Subnets[0]; s.RouteTable.Name() != "rt" || len(s.Prefixes) != 2 ||
		s.ID.Short() != "v/nodes" || !json.Valid(s.Raw) || s.Services {
		t.Errorf("%+v", s)
	}
	if s := doc.Subnets[1]; s.RouteTable != "" || len(s.Gateways) != 1 ||
		s.Gateways[0].Name() != "agw" || !s.Services {
		t.Errorf("%+v", s)
	}
}

func TestPodRouteNames(t *testing.T) {
	for _, tt := range []struct{ node, prefix, want string }{
		// as captured on a real cluster
		{"aks-nodepool1-12355964-vmss000001", "10.244.1.0/24",
			"aks-nodepool1-12355964-vmss000001____102441024"},
		{"aks-a-1-vmss00000z", "fd12:3456:789a::/80", "aks-a-1-vmss00000z____fd123456789a80"},
	} {
		if got := PodRouteName(tt.node, netip.MustParsePrefix(tt.prefix)); got != tt.want ||
			RouteNode(got) != tt.node || RouteNode(tt.node) != tt.node {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// TestSetRoutesProperty: any routes read back as they were set.
func TestSetRoutesProperty(t *testing.T) {
	raw := realTable(t)
	rapid.Check(t, func(t *rapid.T) {
		var routes []Route
		for i := range rapid.IntRange(0, 20).Draw(t, "n") {
			addr := netip.AddrFrom4([4]byte{10, byte(i), rapid.Byte().Draw(t, "b"), 0})
			routes = append(routes,
				NewRoute(fmt.Sprintf("r%d-%s", i,
					rapid.StringMatching(`[a-zA-Z0-9_.é"<-]{0,9}`).Draw(t, "name")),
					netip.PrefixFrom(addr, 24), addr))
		}
		out, err := SetRoutes(raw, routes)
		if err != nil {
			t.Fatal(err)
		}
		table, err := DecodeRouteTable(out)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range table.Routes() {
			if new := routes[i].document(); !r.sameFields(routes[i]) || !bytes.Equal(r.Raw, new) {
				t.Fatalf("%s became %s", new, r.Raw)
			}
		}
	})
}

func FuzzDecodeRouteTable(f *testing.F) {
	f.Add(realTable(f))
	f.Add(flatten(f, realTable(f)))
	f.Add([]byte(`{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/t","properties":null,"routes":[{"name":"a","addressPrefix":"::/0","properties":{}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		table, err := DecodeRouteTable(raw)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		if _, err := arm.ParseID(string(table.ID)); err != nil {
			t.Fatal(err)
		}
		for _, r := range table.Routes() {
			if r.Name == "" || r.Destination() == "" {
				t.Fatalf("%+v", r)
			}
			again, err := DecodeRoute(r.Raw)
			if err != nil || !again.sameFields(r) {
				t.Fatalf("%s reads as %+v, then %+v, %v", r.Raw, r, again, err)
			}
		}
		// Setting the same routes must either change nothing that is read, or be refused.
		if out, err := SetRoutes(raw, table.Routes()); err == nil {
			if again, err := DecodeRouteTable(out); err != nil ||
				len(again.Routes()) != len(table.Routes()) {
				t.Fatalf("%v: %s became %s", err, raw, out)
			}
		}
	})
}

// TestNICsOfPools: the number of nodes that were seen in each pool, by AKS's names.
func TestNICsOfPools(t *testing.T) {
	n := &NICs{Holder: map[netip.Addr]string{}}
	for i, holder := range []string{
		// dual-stack: one node
		"aks-np-12345678-vmss instance 0", "aks-np-12345678-vmss instance 0",
		"AKS-NP-12345678-vmss instance 1", "aks-np2-12345678-vmss instance 0", "aksnp instance 3",
		"aksnpwin instance 0", "aks-np-12345678-nic-0", "private-endpoint.nic",
	} {
		n.Holder[netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})] = holder
	}
	for pool, want := range map[string]int{"np": 4, "np2": 1, "npwin": 1, "other": 0} {
		if got := n.Of(pool, netip.MustParseAddr("10.9.9.9")); got != want {
			t.Errorf("pool %s: %d, want %d", pool, got, want)
		}
	}
	n.Holder[netip.MustParseAddr("fd00::4")] = "aks-np-12345678-vmss instance 0"
	if got := n.Of("np", netip.MustParseAddr("fd00::9")); got != 1 {
		t.Errorf("IPv6 addresses of %d nodes, want 1", got)
	}
}

// TestRoutesAreOfTheDocument: memory holds a table's routes only once.
func TestRoutesAreOfTheDocument(t *testing.T) {
	raw := []byte(`{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/t","name":"t","properties":{"routes":[` +
		`{"name":"a","properties":{"addressPrefix":"10.0.0.0/24","nextHopType":"None"}},  {"name":"b","properties":{"addressPrefix":"10.0.1.0/24","nextHopType":"None"},"more":{"of":"it"}}]}}`)
	table, err := DecodeRouteTable(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"name":"a","properties":{"addressPrefix":"10.0.0.0/24","nextHopType":"None"}}`,
		`{"name":"b","properties":{"addressPrefix":"10.0.1.0/24","nextHopType":"None"},"more":{"of":"it"}}`} {
		got := table.Routes()[i].Raw
		at := bytes.Index(raw, got)
		if string(got) != want || at < 0 || &raw[at] != &got[0] || cap(got) != len(got) {
			t.Errorf("route %d is %s, not a part of the document", i, got)
		}
	}
}

// TestMachineSets: machines are counted by scale set, each once, whatever addresses they have.
func TestMachineSets(t *testing.T) {
	const group = "/subscriptions/s/resourceGroups/"
	nic := func(group, machine string) string {
		return group + "/providers/Microsoft.Compute/virtualMachineScaleSets/aks-np-1-vmss/virtualMachines/" + machine +
			"/networkInterfaces/nic/ipConfigurations/"
	}
	var configurations []string
	for _, id := range []string{
		nic(group+"MC_a", "0") + "v4", nic(group+"MC_a", "0") + "v6", nic(group+"mc_A", "1") +
			"v4", nic(group+"MC_b", "0") + "v4",
		group + "MC_a/providers/Microsoft.Network/networkInterfaces/jumphost/ipConfigurations/c",
	} {
		configurations = append(configurations, fmt.Sprintf(`{"id":%q}`, id))
	}
	subnet, err := DecodeSubnet(fmt.Appendf(nil, `{"id":%q,"properties":{"ipConfigurations":[%s]}}`,
		group+"net/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes",
		strings.Join(configurations, ",")))
	if err != nil {
		t.Fatal(err)
	}
	want := []MachineSet{
		{strings.ToLower(group) + "mc_a", "aks-np-1-vmss", 2},
		{strings.ToLower(group) + "mc_b", "aks-np-1-vmss", 1},
		{strings.ToLower(group) + "mc_a", "jumphost", 1},
	}
	if got := subnet.MachineSets(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	want[0].Count = 1
	if got := subnet.WithConfigurations(subnet.Configurations()[:1]).MachineSets(); !slices.Equal(
		got, want[:1]) {
		t.Errorf("%v, want %v", got, want[:1])
	}
}

// TestOtherRoutes: a table with other routes has them in order, and the table that it was made from
// stays as it is.
func TestOtherRoutes(t *testing.T) {
	route := func(name string) Route {
		return Route{Name: name, Prefix: netip.MustParsePrefix(name), HopType: HopNone}
	}
	all := []Route{route("10.2.0.0/16"), {Name: "tag", Tag: "Storage"}, route("10.1.0.0/16"),
		route("10.3.0.0/16")}
	in := func(table *RouteTable) string {
		var names []string
		for _, i := range table.ByPrefix() {
			names = append(names, table.Routes()[i].Name)
		}
		return strings.Join(names, " ")
	}
	read, err := DecodeRouteTable([]byte(`{"id":"/subscriptions/s/resourceGroups/g/providers/` +
		`Microsoft.Network/routeTables/t","properties":{"routes":[` +
		`{"name":"b","properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None"}},` +
		`{"name":"a","properties":{"addressPrefix":"10.8.0.0/16","nextHopType":"None"}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]*RouteTable{"empty": {}, "read": read} {
		was := in(from)
		for n, want := range []string{"", "10.2.0.0/16", "10.2.0.0/16", "10.1.0.0/16 10.2.0.0/16",
			"10.1.0.0/16 10.2.0.0/16 10.3.0.0/16"} {
			table := from.WithRoutes(all[:n])
			if in(table) != want || in(table.WithRoutes(nil)) != "" || in(from) != was {
				t.Errorf("%s, %d routes: %q, expected %q; it was made from %q", name, n, in(table),
					want, in(from))
			}
		}
	}
}
