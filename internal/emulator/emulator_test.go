package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	sub   = DefaultSubscription
	group = arm.ID("/subscriptions/" + sub + "/resourceGroups/net-rg")
	vnet  = group + "/providers/Microsoft.Network/virtualNetworks/vnet"
	rt    = group + "/providers/Microsoft.Network/routeTables/rt"
	api   = "2025-05-01"
)

// bench is an emulator and a client of it.
type bench struct {
	t *testing.T
	e *Emulator
	c *Client
}

// withSharedKey saves the time of generating a key.
func withSharedKey(t testing.TB, opts Options) Options {
	opts.Key = SharedKey()
	return opts
}

func newBench(t *testing.T, opts Options) *bench {
	e, err := New(withSharedKey(t, opts))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, err := e.Client(DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, e, c}
	b.put(group, `{"location":"West Europe"}`)
	return b
}

// try makes a call and returns the status and the error code, or "".
func (b *bench) try(method string, id arm.ID, version, body string) (int, string) {
	b.t.Helper()
	status, answer := b.c.Do(method, id, version, []byte(body))
	var doc struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal(answer, &doc) // no error body: no code
	if doc.Error.Code != "" && doc.Error.Message == "" {
		b.t.Errorf("%s %s: the error %s has no message", method, id, doc.Error.Code)
	}
	return status, doc.Error.Code
}

func (b *bench) put(id arm.ID, body string) {
	b.t.Helper()
	if status, code := b.try(http.MethodPut, id, api, body); status != 200 && status != 201 {
		b.t.Fatalf("PUT %s: %d %s", id, status, code)
	}
}

func (b *bench) get(id arm.ID) kernel.Object {
	b.t.Helper()
	doc, err := b.c.Get(id, api)
	if err != nil {
		b.t.Fatal(err)
	}
	return doc
}

// refused expects an error.
func (b *bench) refused(method string, id arm.ID, body string, status int, code string) {
	b.t.Helper()
	if s, c := b.try(method, id, api, body); s != status || c != code {
		b.t.Errorf("%s %s %s: %d %s, want %d %s", method, id.Short(), body, s, c, status, code)
	}
}

func names(docs []kernel.Object) []string {
	var out []string
	for _, d := range docs {
		out = append(out, kernel.Text(d, "name"))
	}
	return out
}

const plainVNet = `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[
	{"name":"a","properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"` + string(rt) +
	`"},"unknown":{"x":1.50}}},
	{"name":"b","properties":{"addressPrefix":"10.0.2.0/24"}}]}}`

func TestRouteTableRefusals(t *testing.T) {
	b := newBench(t, Options{})
	table := func(routes ...string) string {
		return `{"location":"westeurope","properties":{"routes":[` + strings.Join(routes, ",") +
			`]}}`
	}
	r := func(name, prefix, hopType, hop string) string {
		if hop != "" {
			hop = `,"nextHopIpAddress":"` + hop + `"`
		}
		return fmt.Sprintf(`{"name":%q,"properties":{"addressPrefix":%q,"nextHopType":%q%s}}`, name,
			prefix, hopType, hop)
	}
	b.put(rt, table(r("a", "10.1.0.0/24", "virtualappliance", "10.0.0.4"),
		r("b", "Storage.WestEurope", "Internet", ""), r("c", "fd00::/64", "VirtualAppliance",
			"fd00::1")))
	full := make([]string, 401)
	for i := range full {
		full[i] = r(fmt.Sprint("n", i), fmt.Sprintf("10.%d.%d.0/24", i/200+1, i%200), "None", "")
	}
	for _, tt := range []struct {
		body   string
		status int
		code   string
	}{
		{table(r("a", "10.1.0.0/24", "None", ""), r("b", "10.1.0.0/24", "None", "")), 409,
			"RouteConflict"},
		{table(r("a", "10.1.0.0/24", "None", ""), r("A", "10.2.0.0/24", "None", "")), 400,
			"InvalidRequestFormat"},
		{table(r("a", "10.1.0.1/24", "None", "")), 400, "InvalidCIDRNotation"},
		{table(r("a", "nonsense", "None", "")), 400, "InvalidAddressPrefixFormat"},
		{table(r("a", "10.1.0.0/24", "VirtualAppliance", "")), 400, "InvalidNextHopIpAddress"},
		{table(r("a", "10.1.0.0/24", "Internet", "10.0.0.4")), 400, "NextHopIpAddressNotAllowed"},
		{table(r("a", "10.1.0.0/24", "Somewhere", "")), 400, "InvalidRequestFormat"},
		{table(full...), 400, "RouteLimitExceeded"},
		{table(r("a", "fd00::/64", "None", ""), r("b", "fd00:0::/64", "None", "")), 409,
			"RouteConflict"},
		{`{"location":"westeurope","properties":{"routes":{"a":1}}}`, 400, "InvalidRequestFormat"},
		{`{"location":"westeurope","properties":{"routes":["a"]}}`, 400, "InvalidRequestFormat"},
		{`{"location":5}`, 400, "LocationRequired"},
		{`{"properties":{}}`, 400, "LocationRequired"},
		{`{"location":"eastus"}`, 409, "InvalidResourceLocation"},
		{`[]`, 400, "InvalidRequestContent"},
		{`{"location":"westeurope","properties":[]}`, 400, "InvalidRequestContent"},
	} {
		b.refused(http.MethodPut, rt, tt.body, tt.status, tt.code)
	}
	// None of them changed anything.
	if got := names(kernel.ListAt(b.get(rt), "properties", "routes")); !slices.Equal(got,
		[]string{"a", "b", "c"}) {
		t.Errorf("routes %v", got)
	}
	b.put(rt, table(full[:400]...))
}

func TestSubnetRefusals(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(group+"/providers/Microsoft.Network/routeTables/far", `{"location":"eastus"}`)
	c := vnet.Child("subnets", "c")
	for _, tt := range []struct {
		body string
		code string
	}{
		{`{"properties":{"addressPrefix":"10.1.0.0/24"}}`, "NetcfgInvalidSubnet"},
		{`{"properties":{"addressPrefix":"10.0.1.128/25"}}`, "NetcfgSubnetRangesOverlap"},
		{`{"properties":{"addressPrefix":"10.0.3.1/24"}}`, "InvalidCIDRNotation"},
		{`{"properties":{}}`, "InvalidRequestFormat"},
		{`{"properties":{"addressPrefix":"10.0.3.0/24","routeTable":{"id":"` + string(rt) + `x"}}}`,
			"InvalidResourceReference"},
		{`{"properties":{"addressPrefix":"10.0.3.0/24","routeTable":{"id":"` + string(vnet) +
			`"}}}`, "InvalidResourceReference"},
		{`{"properties":{"addressPrefix":"10.0.3.0/24","routeTable":"x"}}`, "InvalidRequestFormat"},
		{`{"properties":{"addressPrefix":"10.0.3.0/24","routeTable":{"id":"` +
			strings.Replace(string(rt), "/rt", "/far", 1) + `"}}}`, "InvalidResourceReference"},
	} {
		b.refused(http.MethodPut, c, tt.body, 400, tt.code)
	}
	b.refused(http.MethodPut, group+"/providers/Microsoft.Network/virtualNetworks/none/subnets/c",
		`{"properties":{"addressPrefix":"10.0.3.0/24"}}`, 404, "ParentResourceNotFound")
	b.refused(http.MethodDelete, rt, "", 400, "InUseRouteTableCannotBeDeleted")
	b.refused(http.MethodGet, c, "", 404, "NotFound")
	b.refused(http.MethodGet, rt+"x", "", 404, "ResourceNotFound")
	b.refused(http.MethodGet, "/subscriptions/"+sub+
		"/resourceGroups/none/providers/Microsoft.Network/routeTables/rt", "", 404,
		"ResourceGroupNotFound")
	b.refused(http.MethodGet, "/subscriptions/other/resourceGroups/net-rg", "", 404,
		"SubscriptionNotFound")
	if status, code := b.try(http.MethodGet, rt, "", ""); status != 400 ||
		code != "MissingApiVersionParameter" {
		t.Errorf("without api-version: %d %s", status, code)
	}
}

// TestWhatStrips covers the ways in which a subnet loses its table, and those in which it keeps it.
func TestWhatStrips(t *testing.T) {
	tests := []struct {
		name    string
		version string
		id      arm.ID
		body    string
		status  int
		subnets string // name=table, of the subnets afterwards
	}{
		{"a subnet PUT without its table", api, vnet.Child("subnets", "a"),
			`{"properties":{"addressPrefix":"10.0.1.0/24"}}`, 200, "a= b="},
		{"a subnet PUT with a null table", api, vnet.Child("subnets", "a"),
			`{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":null}}`, 200, "a= b="},
		{"a subnet PUT with its table", api, vnet.Child("subnets", "a"),
			`{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"` +
				strings.ToUpper(string(rt)) + `"}}}`, 200, "a=rt b="},
		{"a network PUT that lists it without", api, vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[{"name":"a","properties":{"addressPrefix":"10.0.1.0/24"}},{"name":"b","properties":{"addressPrefix":"10.0.2.0/24"}}]}}`, 200, "a= b="},
		{"a network PUT without subnets leaves them", "2023-09-01", vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]}}}`, 200, "a=rt b="},
		{"a network PUT with null subnets leaves them", api, vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":null}}`, 200, "a=rt b="},
		{"before 2023-09-01 it deletes them", "2023-06-01", vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]}}}`, 200, ""},
		{"an empty list deletes them", api, vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[]}}`, 200, ""},
		{"the list is the desired set", api, vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[{"name":"B","properties":{"addressPrefix":"10.0.2.0/24"}},{"name":"d","properties":{"addressPrefix":"10.0.4.0/24"}}]}}`, 200, "b= d="},
		{"one bad subnet refuses all of it", api, vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16"]},"subnets":[{"name":"a","properties":{"addressPrefix":"10.0.1.0/24"}},{"name":"b","properties":{"addressPrefix":"10.0.1.0/25"}}]}}`, 400, "a=rt b="},
		{"a smaller address space must hold them", api, vnet,
			`{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.1.0/24"]}}}`, 400, "a=rt b="},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.put(rt, `{"location":"westeurope"}`)
			b.put(vnet, plainVNet)
			if status, code := b.try(http.MethodPut, tt.id, tt.version,
				tt.body); status != tt.status {
				t.Errorf("%d %s, want %d", status, code, tt.status)
			}
			var got, back []string
			for _, s := range kernel.ListAt(b.get(vnet), "properties", "subnets") {
				table := kernel.LinkOf(s, "routeTable")
				got = append(got, kernel.Text(s, "name")+"="+arm.ID(table).Name())
				if table != "" {
					back = append(back, kernel.Text(s, "id"))
				}
				if single := b.get(arm.ID(kernel.Text(s, "id"))); string(
					kernel.Encode(single)) != string(
					kernel.Encode(s)) {
					t.Errorf("the subnet alone and in its network differ:\n%s\n%s",
						kernel.Encode(single),
						kernel.Encode(s))
				}
			}
			if strings.Join(got, " ") != tt.subnets {
				t.Errorf("subnets %v, want %s", got, tt.subnets)
			}
			// The table's back references are updated.
			var refs []string
			for _, s := range kernel.ListAt(b.get(rt), "properties", "subnets") {
				refs = append(refs, kernel.Text(s, "id"))
			}
			if !slices.Equal(refs, back) {
				t.Errorf("the table names the subnets %v, want %v", refs, back)
			}
		})
	}
}

// TestDocuments: sent fields come back, unknown ones included, in the case of their creation; newer
// fields are hidden from older api-versions, and dropped by their PUTs.
func TestDocuments(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"West Europe","tags":{"a":"b"},"zones":["1"],"properties":{"routes":[{"name":"r","properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None","future":{"n":1.50}}}],"alsoNew":[null,true]}}`)
	doc := b.get(arm.ID(strings.ToLower(string(rt)) + "/"))
	for path, want := range map[string]string{"id": string(rt), "name": "rt",
		"type": arm.TypeRouteTable, "location": "westeurope"} {
		if kernel.Text(doc, path) != want {
			t.Errorf("%s is %q, want %q", path, kernel.Text(doc, path), want)
		}
	}
	properties := kernel.ObjectAt(doc, "properties")
	if string(kernel.Encode(properties["alsoNew"])) != `[null,true]` ||
		string(kernel.Encode(doc["zones"])) != `["1"]` ||
		kernel.Text(properties, "provisioningState") != "Succeeded" {
		t.Errorf("%s", kernel.Encode(doc))
	}
	if r := kernel.ListAt(properties,
		"routes")[0]; string(kernel.Encode(kernel.ObjectAt(r, "properties",
		"future"))) != `{"n":1.50}` ||
		kernel.Text(r, "etag") != kernel.Text(doc, "etag") ||
		kernel.Text(r, "id") != string(rt)+"/routes/r" {
		t.Errorf("%s", kernel.Encode(r))
	}

	b.put(vnet, plainVNet)
	a := vnet.Child("subnets", "a")
	b.put(a, `{"properties":{"addressPrefix":"10.0.1.0/24","sharingScope":"Tenant"}}`)
	status, old := b.c.Do(http.MethodGet, a, "2023-06-01", nil)
	if status != 200 || strings.Contains(string(old), "sharingScope") ||
		!strings.Contains(string(kernel.Encode(b.get(a))), `"sharingScope":"Tenant"`) {
		t.Errorf("at an old api-version: %s", old)
	}
	if status, answer := b.c.Do(http.MethodPut, a, "2023-06-01", old); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if strings.Contains(string(kernel.Encode(b.get(a))), "sharingScope") {
		t.Error("a PUT at an old api-version kept a newer field")
	}
}

func TestETags(t *testing.T) {
	for _, opts := range []Options{{}, {SeparateSubnetETags: true}, {IgnoreSubnetETag: true}} {
		b := newBench(t, opts)
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		with := func(id arm.ID, etag string) int {
			r, err := http.NewRequest(http.MethodPut, "http://x"+string(id)+"?api-version="+api,
				strings.NewReader(string(kernel.Encode(b.get(id)))))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+b.c.token)
			r.Header.Set("If-Match", etag)
			w := &recorder{header: http.Header{}}
			b.e.ServeHTTP(w, r)
			return w.status
		}
		a, other := vnet.Child("subnets", "a"), vnet.Child("subnets", "b")
		before := kernel.Text(b.get(a), "etag")
		if status := with(rt, `W/"nonsense"`); status != http.StatusPreconditionFailed {
			t.Errorf("%+v: a wrong ETag on a table: %d", opts, status)
		}
		if status := with(rt, kernel.Text(b.get(rt), "etag")); status != http.StatusOK {
			t.Errorf("%+v: the right ETag on a table: %d", opts, status)
		}
		if status := with(other, kernel.Text(b.get(other), "etag")); status != http.StatusOK {
			t.Errorf("%+v: the right ETag on a subnet: %d", opts, status)
		}
		// A write of one subnet changes the other's ETag where they share one.
		if changed := kernel.Text(b.get(a), "etag") != before; changed == opts.SeparateSubnetETags {
			t.Errorf("%+v: the sibling's ETag changed: %v", opts, changed)
		}
		want := http.StatusPreconditionFailed
		if opts.IgnoreSubnetETag {
			want = http.StatusOK
		}
		if status := with(a, `W/"nonsense"`); status != want {
			t.Errorf("%+v: a wrong ETag on a subnet: %d, want %d", opts, status, want)
		}
	}
}

func TestLongRunningOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 8 * time.Second})
		b.put(rt, `{"location":"westeurope"}`)
		if state := kernel.Text(b.get(rt), "properties", "provisioningState"); state != "Updating" {
			t.Errorf("state %s", state)
		}
		b.refused(http.MethodPut, rt, `{"location":"westeurope"}`, 429, "RetryableError")
		b.put(vnet, strings.ReplaceAll(plainVNet, string(rt), string(rt)))
		b.refused(http.MethodPut, vnet.Child("subnets", "b"),
			`{"properties":{"addressPrefix":"10.0.2.0/24"}}`, 409, "AnotherOperationInProgress")

		// The operation ends by the clock, without a poll.
		time.Sleep(8 * time.Second)
		if state := kernel.Text(b.get(rt), "properties",
			"provisioningState"); state != "Succeeded" {
			t.Errorf("state %s after the operation", state)
		}
		r, err := http.NewRequest(http.MethodPut, "http://host:1"+string(rt)+"?api-version="+api,
			strings.NewReader(
				`{"location":"westeurope","properties":{"disableBgpRoutePropagation":true}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := &recorder{header: http.Header{}}
		b.e.ServeHTTP(w, r)
		operation := w.header.Get("Azure-AsyncOperation")
		if w.header.Get("Retry-After") != "2" ||
			!strings.HasPrefix(operation, "http://host:1/subscriptions/"+sub+
				"/providers/Microsoft.Network/locations/") ||
			w.header.Get("x-ms-request-id") == "" {
			t.Errorf("headers %v", w.header)
		}
		u, err := url.Parse(operation)
		if err != nil {
			t.Fatal(err)
		}
		poll := func() string { return kernel.Text(b.get(arm.ID(u.Path)), "status") }
		if got := poll(); got != "InProgress" {
			t.Errorf("status %s", got)
		}
		time.Sleep(8 * time.Second)
		if got := poll(); got != "Succeeded" {
			t.Errorf("status %s", got)
		}
	})
}

func TestPaging(t *testing.T) {
	b := newBench(t, Options{PageSize: 3})
	for i := range 8 {
		b.put(rt+arm.ID(fmt.Sprint(i)), `{"location":"westeurope"}`)
	}
	for _, scope := range []arm.ID{group, "/subscriptions/" + sub} {
		var seen []string
		pages := 0
		path, query := string(scope)+"/providers/microsoft.network/ROUTETABLES", ""
		for path != "" {
			r, err := http.NewRequest(http.MethodGet, "http://h"+path+"?api-version="+api+query,
				nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+b.c.token)
			w := &recorder{header: http.Header{}}
			b.e.ServeHTTP(w, r)
			doc, f := kernel.DecodeObject(w.body.Bytes())
			if f != nil {
				t.Fatalf("%s", w.body.Bytes())
			}
			seen = append(seen, names(kernel.ListAt(doc, "value"))...)
			pages++
			path = ""
			if next := kernel.Text(doc, "nextLink"); next != "" {
				u, err := url.Parse(next)
				if err != nil || u.Host != "h" {
					t.Fatalf("nextLink %q", next)
				}
				path, query = u.Path, "&$skiptoken="+url.QueryEscape(u.Query().Get("$skiptoken"))
			}
		}
		if want := []string{"rt0", "rt1", "rt2", "rt3", "rt4", "rt5", "rt6",
			"rt7"}; !slices.Equal(seen, want) || pages != 3 {
			t.Errorf("%s: %v in %d pages", scope, seen, pages)
		}
	}
}

func TestRoutesAsResources(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	etag := kernel.Text(b.get(rt), "etag")
	r := rt.Child("routes", "one")
	b.refused(http.MethodGet, r, "", 404, "NotFound")
	b.put(r, `{"properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None"}}`)
	b.refused(http.MethodPut, rt.Child("routes", "two"),
		`{"properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"None"}}`, 409, "RouteConflict")
	b.put(r, `{"properties":{"addressPrefix":"10.9.0.0/16","nextHopType":"Internet"}}`)
	if got := b.get(r); kernel.Text(got, "properties", "nextHopType") != "Internet" ||
		kernel.Text(b.get(rt), "etag") == etag {
		t.Errorf("%s", kernel.Encode(got))
	}
	if status, _ := b.try(http.MethodDelete, r, api, ""); status != 200 {
		t.Errorf("DELETE: %d", status)
	}
	if status, _ := b.try(http.MethodDelete, r, api, ""); status != 204 {
		t.Errorf("DELETE of an absent one: %d", status)
	}
	if n := len(kernel.ListAt(b.get(rt), "properties", "routes")); n != 0 {
		t.Errorf("%d routes left", n)
	}
}
