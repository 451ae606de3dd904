package emulator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// universe is a resource group with a few names for everything, so that the clients write the same
// resources.
type universe struct {
	b     *bench
	group arm.ID
	ids   []arm.ID
	// seen are the ETags that each of the two clients has read last.
	seen [2]map[arm.ID]string
}

func newUniverse(b *bench, n int) *universe {
	u := &universe{b: b, group: arm.GroupID(sub, fmt.Sprint("g", n)),
		seen: [2]map[arm.ID]string{{}, {}}}
	b.put(u.group, `{"location":"westeurope"}`)
	add := func(resourceType string, names ...string) {
		for _, name := range names {
			u.ids = append(u.ids, u.group+arm.ID("/providers/"+resourceType+"/"+name))
		}
	}
	add(arm.TypeVNet, "v0", "v1")
	for _, vnet := range u.ids[:2] {
		for _, s := range []string{"s0", "s1", "s2", "GatewaySubnet"} {
			u.ids = append(u.ids, vnet.Child("subnets", s))
		}
		u.ids = append(u.ids, vnet.Child("virtualNetworkPeerings", "p"))
	}
	add(arm.TypeRouteTable, "t0", "t1", "t0/routes/r0", "t0/routes/r1")
	add(arm.TypeSecurityGroup, "n0", "n1", "n0/securityRules/r0")
	add(arm.TypeNATGateway, "nat")
	add(arm.TypePublicIP, "p0", "p1")
	add(arm.TypeInterface, "i0", "i1", "i2")
	add(arm.TypeGateway, "a0", "a1")
	// The first resources.
	for i, vnet := range u.ids[:2] {
		b.put(vnet, fmt.Sprintf(
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.%d.0.0/16"]},"subnets":[
			{"name":"s0","properties":{"addressPrefix":"10.%d.0.0/29"}},{"name":"s1","properties":{"addressPrefix":"10.%d.1.0/29"}}]}}`, i, i, i))
	}
	for _, id := range slices.Concat(u.of(arm.TypeRouteTable), u.of(arm.TypeSecurityGroup),
		u.of(arm.TypePublicIP),
		u.of(arm.TypeNATGateway)) {
		b.put(id, `{"location":"westeurope"}`)
	}
	return u
}

func (u *universe) of(resourceType string) []arm.ID {
	return slices.DeleteFunc(slices.Clone(u.ids), func(id arm.ID) bool {
		return !id.Is(resourceType)
	})
}

// call makes a call and returns the status.
func (u *universe) call(method string, id arm.ID, body, ifMatch string) (int, []byte) {
	r := httptest.NewRequest(method, "http://h"+string(id)+"?api-version="+api,
		strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+u.b.c.token)
	if ifMatch != "" {
		r.Header.Set("If-Match", ifMatch)
	}
	w := httptest.NewRecorder()
	u.b.e.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

// seenDoc is a document as it was read.
type seenDoc struct {
	raw string
	o   kernel.Object
}

func (d seenDoc) etag() string { return kernel.Text(d.o, "etag") }

// readAll reads everything.
func (u *universe) readAll(before map[arm.ID]seenDoc) map[arm.ID]seenDoc {
	out := map[arm.ID]seenDoc{}
	for _, id := range u.ids {
		status, body := u.call(http.MethodGet, id, "", "")
		switch was := before[id]; {
		case status != http.StatusOK:
		case was.raw == string(body):
			out[id] = was
		default:
			o, _ := kernel.DecodeObject(body)
			out[id] = seenDoc{string(body), o}
		}
	}
	return out
}

// body draws a document, often a bad one.
func (u *universe) body(t *rapid.T, id arm.ID) string {
	link := func(field, resourceType string) string {
		targets := u.of(resourceType)
		i := rapid.IntRange(-1, len(targets)-1).Draw(t, field)
		if i < 0 {
			return ""
		}
		return fmt.Sprintf(`,"%s":{"id":"%s"}`, field, targets[i])
	}
	space := func() byte { // mostly the network's own
		own := rapid.SampledFrom([]byte{'0', '1', 'x', 'x', 'x', 'x'}).Draw(t, "space")
		if name := family(id).Name(); own == 'x' {
			own = name[len(name)-1]
		}
		return own
	}
	subnet := func() string {
		prefix := rapid.SampledFrom([]string{"10.%c.0.0/29", "10.%c.1.0/29", "10.%c.2.0/29",
			"10.%c.0.0/24"}).Draw(t, "prefix")
		return fmt.Sprintf(`"addressPrefix":"%s"`, fmt.Sprintf(prefix, space())) +
			link("routeTable", arm.TypeRouteTable) + link("natGateway", arm.TypeNATGateway) +
			link("networkSecurityGroup", arm.TypeSecurityGroup)
	}
	route := func() string {
		return fmt.Sprintf(`{"addressPrefix":"%s","nextHopType":"%s"}`,
			rapid.SampledFrom([]string{"0.0.0.0/0", "10.9.0.0/16", "10.9.1.0/24"}).Draw(t, "to"),
			rapid.SampledFrom([]string{"Internet", "None"}).Draw(t, "hop"))
	}
	place := func() string {
		targets := u.of(arm.TypeSubnet)
		static := rapid.SampledFrom([]string{"", "",
			`,"privateIPAllocationMethod":"Static","privateIPAddress":"10.0.0.4"`,
			`,"privateIPAllocationMethod":"Static","privateIPAddress":"10.1.0.6"`}).Draw(t,
			"static")
		return fmt.Sprintf(`"subnet":{"id":"%s"}%s`, rapid.SampledFrom(targets).Draw(t, "subnet"),
			static)
	}
	p := ""
	switch strings.ToLower(id.Type()) {
	case strings.ToLower(arm.TypeVNet):
		p = fmt.Sprintf(`"addressSpace":{"addressPrefixes":["10.%c.0.0/16"]}`, space())
		if rapid.Bool().Draw(t, "lists subnets") {
			var all []string
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"s0", "s1",
				"s2"}), 0, 3, func(s string) string { return s }).Draw(t, "subnets") {
				all = append(all, fmt.Sprintf(`{"name":"%s","properties":{%s}}`, name, subnet()))
			}
			p += `,"subnets":[` + strings.Join(all, ",") + `]`
		}
	case strings.ToLower(arm.TypeSubnet):
		p = subnet()
	case strings.ToLower(network.TypePeering):
		p = `"x":1` + link("remoteVirtualNetwork", arm.TypeVNet)
	case strings.ToLower(arm.TypeRouteTable):
		p = `"routes":[{"name":"r0","properties":` + route() + `},{"name":"r1","properties":` +
			route() + `}]`
	case strings.ToLower(arm.TypeRouteTable + "/routes"):
		return `{"properties":` + route() + `}`
	case strings.ToLower(arm.TypeSecurityGroup + "/securityRules"):
		return fmt.Sprintf(
			`{"properties":{"priority":%d,"direction":"Inbound","access":"Allow","protocol":"*"}}`,
			rapid.IntRange(99, 101).Draw(t, "priority"))
	case strings.ToLower(arm.TypeNATGateway):
		p = fmt.Sprintf(`"publicIpAddresses":[{"id":"%s"}]`,
			rapid.SampledFrom(u.of(arm.TypePublicIP)).Draw(t, "address"))
	case strings.ToLower(arm.TypeInterface):
		p = `"enableIPForwarding":true,"ipConfigurations":[{"name":"c0","properties":{` + place() +
			link("publicIPAddress", arm.TypePublicIP) + `}}`
		if rapid.Bool().Draw(t, "two") {
			p += `,{"name":"c1","properties":{` + place() + `}}`
		}
		p += `]` + link("networkSecurityGroup", arm.TypeSecurityGroup)
	case strings.ToLower(arm.TypeGateway):
		p = fmt.Sprintf(`"gatewayIPConfigurations":[{"name":"g","properties":{"subnet":{"id":"%s"}}}]`, rapid.SampledFrom(u.of(arm.TypeSubnet)).Draw(t, "subnet"))
	}
	return `{"location":"westeurope","properties":{` + p + `}}`
}

// family are the resources that share an ETag: a network with all its parts, or a document with its
// parts.
func family(id arm.ID) arm.ID {
	for strings.Count(id.Type(), "/") > 1 {
		id = id.Parent()
	}
	return id
}

// TestTwoClients: whatever two clients do, links and back references agree, no subnets overlap, no
// address is used twice, an ETag changes exactly with its resource, and a refused call changes
// nothing.
func TestTwoClients(t *testing.T) {
	t.Parallel()
	lots := Bucket{Size: 1e9, PerSecond: 1e9}
	b := newBench(t,
		Options{LogBodies: 1, Buckets: Buckets{Reads: lots, Writes: lots, Deletes: lots}})
	n, done := 0, map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n++
		u := newUniverse(b, n)
		before := u.readAll(nil)
		for range rapid.IntRange(10, 40).Draw(t, "steps") {
			client := u.seen[rapid.IntRange(0, 1).Draw(t, "client")]
			id := rapid.SampledFrom(u.ids).Draw(t, "resource")
			match := rapid.SampledFrom([]string{"", "", "", "", "seen", "now", "*"}).Draw(t,
				"If-Match")
			switch match {
			case "seen":
				match = client[id]
			case "now":
				match = before[id].etag()
			}
			method, body := http.MethodDelete, ""
			if rapid.IntRange(0, 4).Draw(t, "verb") > 0 {
				method, body = http.MethodPut, u.body(t, id)
			}
			status, answer := u.call(method, id, body, match)
			done[fmt.Sprint(method, " ", status)]++
			what := fmt.Sprintf("%s %s %s If-Match %q: %d %s", method, id, body, match, status,
				answer)
			after := u.readAll(before)
			client[id] = after[id].etag()
			checkETags(t, what, id, method, status, match, before, after)
			checkLinks(t, what, after)
			checkAddresses(t, what, after)
			before = after
		}
		if status, answer := u.call(http.MethodDelete, u.group, "", ""); status != http.StatusOK ||
			len(u.readAll(nil)) != 0 {
			t.Fatalf("DELETE of the group: %d %s", status, answer)
		}
	})
	for _, kind := range []string{"PUT 200", "PUT 201", "PUT 400", "PUT 412", "DELETE 200",
		"DELETE 204", "DELETE 400"} {
		if done[kind] == 0 {
			t.Errorf("no %s among %v: the test does not reach what it is for", kind, done)
		}
	}
}

func checkETags(t *rapid.T, what string, id arm.ID, method string, status int, match string, before,
	after map[arm.ID]seenDoc) {
	changed := status == http.StatusOK || status == http.StatusCreated
	if matched := match == "" || match == "*" && before[id].raw != "" ||
		match == before[id].etag(); !matched && changed {
		t.Fatalf("%s\nthe ETag was %s", what, before[id].etag())
	}
	for other := range after {
		was, is := before[other], after[other]
		switch {
		case was.raw == "":
			if !changed || !family(other).Equal(family(id)) {
				t.Fatalf("%s\nmade %s", what, other)
			}
		case changed && family(other).Equal(family(id)):
			if was.etag() == is.etag() {
				t.Fatalf("%s\n%s is changed and has its ETag still", what, other)
			}
		case was.etag() != is.etag():
			t.Fatalf("%s\n%s is not changed and has another ETag", what, other)
		case !changed && was.raw != is.raw:
			t.Fatalf("%s\nchanged %s from %s\nto %s", what, other, was.raw, is.raw)
		}
	}
	for other := range before {
		if after[other].raw == "" &&
			(method == http.MethodDelete && !changed || !family(other).Equal(family(id))) {
			t.Fatalf("%s\n%s is gone", what, other)
		}
	}
}

// checkLinks compares the links of documents with the back references, and a network with its
// parts.
func checkLinks(t *rapid.T, what string, docs map[arm.ID]seenDoc) {
	want, got := map[string]bool{}, map[string]bool{}
	for id, doc := range docs {
		o := doc.o
		properties := kernel.ObjectAt(o, "properties")
		for _, ref := range network.ReferencesIn(id, o) {
			if docs[ref.Target()].raw == "" {
				t.Fatalf("%s\n%s links to %s, which is not there", what, ref.Holder, ref.Target())
			}
			back := strings.TrimSuffix(ref.Link.Back, "[]")
			holder := string(ref.Holder)
			if back == "" { // an address of a subnet, in upper case
				back, holder = "ipConfigurations", network.ShownConfiguration(ref.Holder, true)
			}
			want[fmt.Sprintln(ref.Target(), back, holder)] = true
		}
		for _, l := range network.Links {
			name := strings.TrimSuffix(l.Back, "[]")
			if name == "" {
				name = "ipConfigurations"
			}
			if !id.Is(l.To) {
				continue
			}
			for _, holder := range append(ids(properties, name),
				kernel.Text(properties, name, "id")) {
				if holder != "" {
					got[fmt.Sprintln(id, name, holder)] = true
				}
			}
		}
		for _, list := range []string{"subnets", "virtualNetworkPeerings"} {
			for _, part := range kernel.ListAt(properties, list) {
				if id.Is(arm.TypeVNet) &&
					string(kernel.Encode(part)) != docs[arm.ID(kernel.Text(part, "id"))].raw {
					t.Fatalf("%s\ninside %s: %s\nby itself: %s", what, id, kernel.Encode(part),
						docs[arm.ID(kernel.Text(part, "id"))].raw)
				}
			}
		}
	}
	for _, pair := range []struct {
		a, b map[string]bool
		how  string
	}{{want, got, "is not shown"}, {got, want, "is shown and not so"}} {
		for link := range pair.a {
			if !pair.b[link] {
				t.Fatalf("%s\n%s %s", what, link, pair.how)
			}
		}
	}
}

func checkAddresses(t *rapid.T, what string, docs map[arm.ID]seenDoc) {
	held := map[string]arm.ID{}
	prefixes := map[arm.ID][]netip.Prefix{}
	for id, doc := range docs {
		o := doc.o
		if id.Is(arm.TypeSubnet) {
			for _, p := range network.PrefixesOf(o) {
				if !network.Covered(p, network.AddressSpace(docs[id.Parent()].o)) {
					t.Fatalf("%s\n%s is outside of its network", what, id)
				}
				for _, q := range prefixes[id.Parent()] {
					if p.Overlaps(q) {
						t.Fatalf("%s\n%s overlaps with a sibling", what, id)
					}
				}
				prefixes[id.Parent()] = append(prefixes[id.Parent()], p)
			}
		}
		for _, ref := range network.ReferencesIn(id, o) {
			address := kernel.Text(ref.Part, "privateIPAddress")
			if !ref.Link.Takes() || !id.Is(arm.TypeInterface) {
				continue
			}
			subnet := docs[ref.Target()].o
			a, err := netip.ParseAddr(address)
			if err != nil || !network.PrefixesOf(subnet)[0].Contains(a) {
				t.Fatalf("%s\n%s has the address %q in %v", what, ref.Holder, address,
					network.PrefixesOf(subnet))
			}
			key := string(ref.Target().Parent()) + " " + address
			if other, taken := held[key]; taken {
				t.Fatalf("%s\n%s and %s both have %s", what, other, ref.Holder, address)
			}
			held[key] = ref.Holder
		}
		if public := kernel.Text(o, "properties", "ipAddress"); public != "" {
			if other, taken := held[public]; taken {
				t.Fatalf("%s\n%s and %s both have %s", what, other, id, public)
			}
			held[public] = id
		}
	}
}
