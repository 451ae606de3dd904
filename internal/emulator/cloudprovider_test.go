package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// provided makes a cluster of one node with AKS's times, and waits until its route is written. It
// returns when the provider has just read the table again.
func provided(t *testing.T, opts Options) *bench {
	opts.RouteBatch, opts.RouteCache = 30*time.Second, 2*time.Minute
	opts.Buckets = Buckets{Reads: Bucket{Size: unlimited, PerSecond: 1},
		Clusters: Bucket{Size: unlimited, PerSecond: 1}}
	b := withNetwork(t, opts)
	b.put(aksID, clusterBody(``, `,"count":1`))
	time.Sleep(31 * time.Second)
	if n := len(b.podRoutes(rt)); n != 1 {
		t.Fatalf("%d routes", n)
	}
	time.Sleep(30 * time.Second) // the provider's copy is a second old now
	return b
}

// wrote are the statuses of the cloud provider's writes since a request.
func (b *bench) wrote(since int) []int {
	var out []int
	for _, r := range b.e.Requests(since) {
		if r.Note == "cloud provider" {
			out = append(out, r.Status)
		}
	}
	return out
}

// touch writes the table unchanged, which changes its ETag.
func (b *bench) touch() { b.put(rt, string(kernel.Encode(b.get(rt)))) }

func TestStaleCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := provided(t, Options{})
		since := b.e.LastRequest()
		b.touch()
		if err := b.e.Scale(aksID, "np", 2); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for len(b.podRoutes(rt)) < 2 && time.Since(start) < 10*time.Minute {
			time.Sleep(time.Second)
		}
		want := []int{412, 412, 412, 412, 200} // until its copy is two minutes old
		if got := b.wrote(since); !slices.Equal(got, want) {
			t.Errorf("%v, after %s", got, time.Since(start))
		}
	})
}

// TestPrefixDeletes: a route without a node whose name is a prefix of the nodes' names makes their
// routes disappear, one batch later; and a node that is created again with another pod CIDR loses
// its new route once. Both are written again. Compared with the real one.
func TestPrefixDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := provided(t, Options{})
		doc := b.get(rt)
		p := kernel.ObjectAt(doc, "properties")
		name := kernel.Text(kernel.ListAt(p, "routes")[0], "name")
		p["routes"] = append(kernel.ListAt(p, "routes"),
			kernel.Object{"name": name[:3], "properties": kernel.Object{
				"addressPrefix": "10.244.200.0/24", "nextHopType": "VirtualAppliance",
				"nextHopIpAddress": "10.0.1.4",
			}})
		b.put(rt, string(kernel.Encode(doc)))
		var counts []int
		for range 20 {
			time.Sleep(15 * time.Second)
			if n := len(b.podRoutes(rt)); len(counts) == 0 || counts[len(counts)-1] != n {
				counts = append(counts, n)
			}
		}
		want := []int{2, 1, 0, 1} // both, the node's, none, the node's
		if !slices.Equal(counts, want) {
			t.Errorf("%v routes, want %v", counts, want)
		}
	})
}

func TestDeletesAndCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := provided(t, Options{})
		foreign := func(name, prefix string) kernel.Object {
			return kernel.Object{"name": name, "properties": kernel.Object{"addressPrefix": prefix,
				"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.0.1.99"}}
		}
		// rewrite adds an unmanaged route inside the pod CIDR and spells the node's route in upper
		// case.
		rewrite := func() {
			doc := b.get(rt)
			p := kernel.ObjectAt(doc, "properties")
			var routes []any
			for _, r := range kernel.ListAt(p, "routes") {
				r["name"] = strings.ToUpper(kernel.Text(r, "name"))
				routes = append(routes, r)
			}
			p["routes"] = append(routes, any(foreign("mine", "10.244.200.0/24")))
			b.put(rt, string(kernel.Encode(doc)))
		}
		spelled := func() (out []string) {
			for _, r := range kernel.ListAt(b.get(rt), "properties", "routes") {
				name := kernel.Text(r, "name")
				switch {
				case name == "mine":
				case name == strings.ToUpper(name):
					name = "UPPER"
				default:
					name = "lower"
				}
				out = append(out, name)
			}
			return out
		}
		rewrite()
		time.Sleep(5 * time.Minute)
		if got, want := spelled(), []string{"UPPER"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestStrangersInPodCIDR: a route inside the pod CIDR that belongs to no node is deleted, whatever
// its name and wherever it leads; also one that only begins or ends there. A node's own route stays
// with a wrong next hop, and a route outside the pod CIDR stays.
func TestStrangersInPodCIDR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := provided(t, Options{})
		const appliance = `"nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.1.4"`
		doc := b.get(rt)
		p := kernel.ObjectAt(doc, "properties")
		node := kernel.ListAt(p, "routes")[0]
		kernel.ObjectAt(node, "properties")["nextHopIpAddress"] = "10.0.1.99"
		routes, want := []any{node}, []string{kernel.Text(node, "name")}
		for _, r := range []struct {
			name, prefix, hop string
			stays             bool
		}{
			{"stranger", "10.244.200.0/24", appliance, false},
			{"hole", "10.244.201.0/24", `"nextHopType":"None"`, false},
			{"aks-gone-vmss000000____10244202024", "10.244.202.0/24", appliance, false},
			{"part", "10.244.204.128/25", appliance, false},
			{"whole", "10.244.0.0/16", appliance, false},
			{"begins", "10.244.0.0/15", appliance, false},
			{"around", "10.240.0.0/12", appliance, true},
			{"outside", "10.245.0.0/24", appliance, true},
			{"default", "0.0.0.0/0", appliance, true},
		} {
			route, f := kernel.DecodeObject([]byte(`{"name":"` + r.name +
				`","properties":{"addressPrefix":"` + r.prefix + `",` + r.hop + `}}`))
			if f != nil {
				t.Fatal(f)
			}
			if routes = append(routes, route); r.stays {
				want = append(want, r.name)
			}
		}
		p["routes"] = routes
		b.put(rt, string(kernel.Encode(doc)))
		time.Sleep(3 * time.Minute) // its copy expires
		var got []string
		for _, r := range kernel.ListAt(b.properties(rt), "routes") {
			got = append(got, kernel.Text(r, "name"))
			if hop := kernel.Text(r, "properties", "nextHopIpAddress"); got[len(
				got)-1] == kernel.Text(node, "name") && hop != "10.0.1.99" {
				t.Errorf("the wrong next hop of the node's route became %s", hop)
			}
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("the table has %q, want %q", got, want)
		}
	})
}

func TestDualStackRoutes(t *testing.T) {
	b := newBench(t, Options{RouteLimit: 6})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["10.0.0.0/16","fd00:1::/48"]},"subnets":[{"name":"a","properties":{"addressPrefixes":["10.0.1.0/24","fd00:1::/64"],"routeTable":{"id":"`+string(rt)+`"}}}]}}`)
	dual := `,"ipFamilies":["IPv4","IPv6"]`
	// two routes each
	b.refused(http.MethodPut, aksID, clusterBody(dual, `,"count":4`), 400,
		"AgentPoolMaxCountExceeded")
	b.put(aksID, clusterBody(dual, `,"count":3`))
	if got := b.podRoutes(rt); len(got) != 6 {
		t.Errorf("%q", got)
	}
}

// TestCloudControllerCalls are the reads and writes of cloud-provider-azure's controller, over
// plain HTTP, as the cluster's managed identity, with its api-versions.
func TestCloudControllerCalls(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, `,"count":2`))
	b.e.PauseRoutes(aksID, true)
	set, who := b.e.aks.Clusters[aksID.Key()].Pools[0].ScaleSet, b.e.aks.Clusters[aksID.Key()].Who
	b.put(group+"/providers/Microsoft.Authorization/roleAssignments/9a000000-0000-4000-8000-000000000001", `{"properties":{"principalId":"`+who.ObjectID+`",
		"roleDefinitionId":"/subscriptions/`+sub+
		// Network Contributor
		`/providers/Microsoft.Authorization/roleDefinitions/4d97b98b-1d4f-4787-a291-c67834d212e7"}}`)
	server := httptest.NewServer(b.e)
	defer server.Close()
	identity := url.Values{"resource": {"https://management.azure.com/"},
		"api-version": {"2019-08-01"}, "client_id": {who.ClientID}}
	answer, err := http.Get(server.URL + "/msi/token?" + identity.Encode())
	if err != nil {
		t.Fatal(err)
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	err = json.NewDecoder(answer.Body).Decode(&token)
	answer.Body.Close()
	if err != nil || token.AccessToken == "" {
		t.Fatalf("%v, no token", err)
	}
	do := func(method, path, query, ifMatch string, body kernel.Object) (int, kernel.Object) {
		t.Helper()
		var sent io.Reader = http.NoBody
		if body != nil {
			sent = bytes.NewReader(kernel.Encode(body))
		}
		r, err := http.NewRequest(method, server.URL+path+"?"+query, sent)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token.AccessToken)
		r.Header.Set("Content-Type", "application/json")
		if ifMatch != "" {
			r.Header.Set("If-Match", ifMatch)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		doc, _ := kernel.DecodeObject(raw)
		return answer.StatusCode, doc
	}
	status, doc := do(http.MethodGet, "/subscriptions/"+sub+"/providers/Microsoft.Compute",
		"api-version=2021-04-01", "", nil)
	if status != 200 ||
		!slices.ContainsFunc(kernel.ListAt(doc, "resourceTypes"), func(o kernel.Object) bool {
			return kernel.Text(o, "resourceType") == "virtualMachineScaleSets"
		}) {
		t.Errorf("the provider: %d %s", status, kernel.Encode(doc))
	}
	nodes := string(set.Group())
	if status, doc = do(http.MethodGet, nodes+
		"/providers/Microsoft.Compute/virtualMachineScaleSets", "api-version=2025-04-01", "",
		nil); status != 200 || len(kernel.ListAt(doc, "value")) != 1 {
		t.Fatalf("scale sets: %d %s", status, kernel.Encode(doc))
	}
	status, doc = do(http.MethodGet, string(set)+"/virtualMachines",
		"%24expand=instanceView&api-version=2025-04-01", "", nil)
	machines := kernel.ListAt(doc, "value")
	if status != 200 || len(machines) != 2 {
		t.Fatalf("machines: %d %s", status, kernel.Encode(doc))
	}
	// The provider makes a node's route from the machine and its interface, in one write of the
	// whole table.
	_, table := do(http.MethodGet, string(rt), "api-version=2025-05-01", "", nil)
	etag := kernel.Text(table, "etag")
	routes := []any{}
	for i, m := range machines {
		if len(kernel.ListAt(m, "properties", "instanceView", "statuses")) == 0 {
			t.Errorf("no instance view: %s", kernel.Encode(m))
		}
		nic := arm.ID(kernel.Text(kernel.ListAt(m, "properties", "networkProfile",
			"networkInterfaces")[0], "id"))
		lower := fmt.Sprintf(
			"%s/providers/microsoft.Compute/virtualMachineScaleSets/%s/virtualMachines/%s/networkInterfaces/%s", nodes, set.Name(), kernel.Text(m, "instanceId"), nic.Name())
		status, doc := do(http.MethodGet, lower, "api-version=2018-10-01", "", nil)
		if status != 200 {
			t.Fatalf("interface: %d %s", status, kernel.Encode(doc))
		}
		address := kernel.Text(kernel.ListAt(doc, "properties", "ipConfigurations")[0],
			"properties", "privateIPAddress")
		name := kernel.Text(m, "properties", "osProfile", "computerName")
		prefix := fmt.Sprintf("10.244.%d.0/24", i+10)
		routes = append(routes,
			kernel.Object{"name": name + "____" + strings.NewReplacer(".", "", "/",
				"").Replace(prefix),
				"properties": kernel.Object{"addressPrefix": prefix,
					"nextHopType":      "VirtualAppliance",
					"nextHopIpAddress": address}})
	}
	body := kernel.Object{"id": string(rt), "name": rt.Name(), "location": "westeurope",
		"etag":       etag,
		"properties": kernel.Object{"routes": routes}}
	if status, doc := do(http.MethodPut, string(rt), "api-version=2025-05-01", etag,
		body); status != 200 || kernel.Text(doc, "etag") == etag {
		t.Errorf("PUT: %d %s", status, kernel.Encode(doc))
	}
	if status, doc := do(http.MethodPut, string(rt), "api-version=2025-05-01", etag,
		body); status != 412 ||
		kernel.Text(doc, "error", "code") != "PreconditionFailedEtagMismatch" {
		t.Errorf("PUT with the old ETag: %d %s", status, kernel.Encode(doc))
	}
	want := []string{"000000____1024410024 10.244.10.0/24 10.0.1.4",
		"000001____1024411024 10.244.11.0/24 10.0.1.5"}
	if got := b.podRoutes(rt); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
