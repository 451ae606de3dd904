package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const aksID = group + "/providers/Microsoft.ContainerService/managedClusters/c"

// podRoutes reads a table's routes as "name prefix hop", without the common part of the names of
// all nodes.
func (b *bench) podRoutes(id arm.ID) []string {
	b.t.Helper()
	var out []string
	for _, r := range kernel.ListAt(b.get(id), "properties", "routes") {
		name := kernel.Text(r, "name")
		if _, number, isNode := strings.Cut(name, "-vmss"); isNode {
			name = number
		}
		p := kernel.ObjectAt(r, "properties")
		out = append(out, name+" "+kernel.Text(p, "addressPrefix")+" "+
			kernel.Text(p, "nextHopIpAddress"))
	}
	return out
}

const existing = `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet","serviceCidr":"172.16.0.0/16","dnsServiceIP":"172.16.0.10"},"agentPoolProfiles":[{"name":"np","count":%d,"vnetSubnetID":"` + string(vnet) + `/subnets/a"}]}}`

func TestBroughtTable(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope","tags":{"keep":"me"},"properties":{"routes":[{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.9.4"}}]}}`)
	b.put(vnet, plainVNet)
	b.put(aksID, fmt.Sprintf(existing, 2))
	want := []string{"egress 0.0.0.0/0 10.0.9.4", "000000____102440024 10.244.0.0/24 10.0.1.4",
		"000001____102441024 10.244.1.0/24 10.0.1.5"}
	if got := b.podRoutes(rt); !slices.Equal(got, want) {
		t.Errorf("routes\n%q\nwant\n%q", got, want)
	}
	if kernel.ObjectAt(b.get(rt), "tags")["keep"] != "me" {
		t.Error("the table's tags are lost")
	}
	doc := b.get(aksID)
	p := kernel.ObjectAt(doc, "properties")
	if kernel.Text(p, "nodeResourceGroup") != "MC_net-rg_c_westeurope" ||
		kernel.Text(p, "networkProfile", "podCidr") != "10.244.0.0/16" ||
		kernel.Text(doc, "identity", "principalId") == "" {
		t.Errorf("%s", kernel.Encode(doc))
	}
	// No managed table is made if the subnet has a table, and the addresses are used in the subnet.
	if tables := kernel.ListAt(b.get("/subscriptions/"+sub+
		"/resourceGroups/mc_net-rg_c_westeurope/providers/Microsoft.Network/routeTables"),
		"value"); len(tables) != 0 {
		t.Errorf("managed tables: %v", names(tables))
	}
	b.refused(http.MethodDelete, vnet.Child("subnets", "a"), "", 400, "InUseSubnetCannotBeDeleted")

	// Scaling in deletes the last nodes; scaling out continues the numbers, and uses new pod CIDRs
	// before old ones.
	b.put(aksID.Child("agentPools", "np"), `{"properties":{"count":1}}`)
	b.put(aksID.Child("agentPools", "np"), `{"properties":{"count":3}}`)
	want = []string{"egress 0.0.0.0/0 10.0.9.4", "000000____102440024 10.244.0.0/24 10.0.1.4",
		"000002____102442024 10.244.2.0/24 10.0.1.5", "000003____102443024 10.244.3.0/24 10.0.1.6"}
	if got := b.podRoutes(rt); !slices.Equal(got, want) {
		t.Errorf("routes\n%q\nwant\n%q", got, want)
	}

	// Deleting the cluster leaves the existing table, with its routes.
	if status, code := b.try(http.MethodDelete, aksID, "2025-10-01", ""); status != 204 {
		t.Fatalf("%d %s", status, code)
	}
	b.refused(http.MethodGet, "/subscriptions/"+sub+"/resourceGroups/mc_net-rg_c_westeurope", "",
		404, "ResourceGroupNotFound")
	if got := b.podRoutes(rt); !slices.Equal(got, want) {
		t.Errorf("after the delete: %q", got)
	}
	if status, code := b.try(http.MethodPut, vnet.Child("subnets", "a"), api,
		`{"properties":{"addressPrefix":"10.0.7.0/24"}}`); status != 200 {
		t.Errorf("the addresses are not free again: %d %s", status, code)
	}
}

func TestScaleSetsAndNICs(t *testing.T) {
	b := newBench(t, Options{PageSize: 2})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(aksID, fmt.Sprintf(existing, 3))
	sets := kernel.ListAt(b.get("/subscriptions/"+sub+
		"/resourceGroups/MC_net-rg_c_westeurope/providers/Microsoft.Compute/virtualMachineScaleSets"), "value")
	if len(sets) != 1 || !strings.HasPrefix(kernel.Text(sets[0], "name"), "aks-np-") ||
		fmt.Sprint(kernel.ObjectAt(sets[0], "sku")["capacity"]) != "3" {
		t.Fatalf("%s", kernel.Encode(sets))
	}
	set := arm.ID(kernel.Text(sets[0], "id"))
	first := b.get(set + "/networkInterfaces")
	if n := len(kernel.ListAt(first, "value")); n != 2 ||
		!strings.Contains(kernel.Text(first, "nextLink"), "skiptoken=2") {
		t.Errorf("%d NICs on the first page, next %q", n, kernel.Text(first, "nextLink"))
	}
	nic := b.get(set + "/virtualMachines/1/networkInterfaces/" + arm.ID(set.Name()))
	configuration := kernel.ListAt(nic, "properties", "ipConfigurations")[0]
	if kernel.Text(configuration, "properties", "privateIPAddress") != "10.0.1.5" ||
		kernel.ObjectAt(nic, "properties")["enableIPForwarding"] != true {
		t.Errorf("%s", kernel.Encode(nic))
	}
	if vm := b.get(set + "/virtualMachines/2"); !strings.HasSuffix(
		kernel.Text(vm, "properties", "osProfile", "computerName"), "vmss000002") {
		t.Errorf("%s", kernel.Encode(vm))
	}
	b.refused(http.MethodGet, set+"/virtualMachines/7", "", 404, "NotFound")
}

// TestCloudProvider writes the whole table in batches from its copy; another client's write in
// between makes it fail with 412 until the copy expires.
func TestCloudProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{RouteBatch: 30 * time.Second, RouteCache: 2 * time.Minute,
			Buckets: Buckets{Reads: Bucket{Size: 1e6, PerSecond: 1}}})
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		b.put(aksID, fmt.Sprintf(existing, 1))
		writes := func() (ok, stale int) {
			for _, r := range b.e.Requests(0) {
				if r.Note == "cloud provider" {
					switch r.Status {
					case 200:
						ok++
					case 412:
						stale++
					}
				}
			}
			return ok, stale
		}
		time.Sleep(29 * time.Second)
		if ok, _ := writes(); ok != 0 {
			t.Error("it wrote before the batch time was over")
		}
		time.Sleep(32 * time.Second) // past the batch at 60 s
		// The provider's copy is new now. Another client adds a route; then a node is added.
		doc := b.get(rt)
		p := kernel.ObjectAt(doc, "properties")
		p["routes"] = append(p["routes"].([]any),
			kernel.Object{"name": "inside",
				"properties": kernel.Object{"addressPrefix": "10.244.77.0/24",
					"nextHopType": "VirtualAppliance", "nextHopIpAddress": "10.0.1.99"}},
			kernel.Object{"name": "outside",
				"properties": kernel.Object{"addressPrefix": "10.77.0.0/16",
					"nextHopType": "None"}})
		b.put(rt, string(kernel.Encode(doc)))
		if err := b.e.Scale(aksID, "np", 2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(70 * time.Second)
		if ok, stale := writes(); ok != 1 || stale == 0 {
			t.Errorf("%d writes, %d of them stale", ok, stale)
		}
		time.Sleep(90 * time.Second)
		want := []string{"000000____102440024 10.244.0.0/24 10.0.1.4", "outside 10.77.0.0/16 ",
			"000001____102441024 10.244.1.0/24 10.0.1.5"}
		if got := b.podRoutes(rt); !slices.Equal(got, want) {
			t.Errorf("routes\n%q\nwant\n%q", got, want)
		}
		// A wrong next hop is never repaired; a deleted route is created again.
		doc = b.get(rt)
		routes := kernel.ObjectAt(doc, "properties")["routes"].([]any)
		kernel.ObjectAt(routes[0].(kernel.Object), "properties")["nextHopIpAddress"] = "10.0.1.200"
		kernel.ObjectAt(doc, "properties")["routes"] = routes[:2]
		b.put(rt, string(kernel.Encode(doc)))
		time.Sleep(5 * time.Minute)
		want[0] = "000000____102440024 10.244.0.0/24 10.0.1.200"
		if got := b.podRoutes(rt); !slices.Equal(got, want) {
			t.Errorf("routes\n%q\nwant\n%q", got, want)
		}
	})
}

// TestSecondPool: AKS gives a new pool's subnet the table only with the next PUT of the cluster.
func TestSecondPool(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(aksID, fmt.Sprintf(existing, 1))
	other := vnet.Child("subnets", "b")
	b.put(aksID.Child("agentPools", "two"), `{"properties":{"count":1,"vnetSubnetID":"`+
		string(other)+
		`"}}`)
	if kernel.LinkOf(b.get(other), "routeTable") != "" {
		t.Error("the pool's subnet has the table already")
	}
	if got := b.podRoutes(rt); len(got) != 2 {
		t.Errorf("routes %q", got)
	}
	b.put(aksID, string(kernel.Encode(b.get(aksID))))
	if table := kernel.LinkOf(b.get(other), "routeTable"); !table.Equal(rt) {
		t.Errorf("the pool's subnet has %q", table)
	}
	if pools := kernel.ListAt(b.get(aksID+"/agentPools"), "value"); len(pools) != 2 {
		t.Errorf("pools %v", names(pools))
	}
}

func TestClusterRefusals(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, strings.Replace(plainVNet, "10.0.2.0/24", "10.0.2.0/29", 1))
	b.refused(http.MethodPut, aksID, `{"location":"westeurope","properties":{}}`, 400,
		"InvalidParameter")
	b.refused(http.MethodPut, aksID,
		`{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"x","vnetSubnetID":"`+string(vnet)+`/subnets/none"}]}}`, 400, "LinkedInvalidPropertyId")
	full := `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet","serviceCidr":"172.16.0.0/16"},"agentPoolProfiles":[{"name":"x","count":4,"vnetSubnetID":"` + string(vnet) + `/subnets/b"}]}}`
	b.refused(http.MethodPut, aksID, full, 400, "InsufficientSubnetSize")
	b.refused(http.MethodGet, aksID, "", 404, "ResourceNotFound") // no part of it is left
	if used := kernel.ObjectAt(b.get(vnet.Child("subnets", "b")),
		"properties")["ipConfigurations"]; used != nil {
		t.Errorf("addresses are still in use: %v", used)
	}
	b.put(aksID, strings.Replace(full, `"count":4`, `"count":3`, 1))
	b.refused(http.MethodPut, aksID, strings.Replace(full, `"kubenet"`, `"azure"`, 1), 400,
		"PropertyChangeNotAllowed")
}

// TestScaleByControl: all nodes are added or none, and an invalid number is refused.
func TestScaleByControl(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(aksID, fmt.Sprintf(existing, 2))
	for _, count := range []int{-1, 5001, 300} { // the subnet has room for 251
		if err := b.e.Scale(aksID, "np", count); err == nil {
			t.Errorf("scaled to %d", count)
		}
		if n := len(b.podRoutes(rt)); n != 2 {
			t.Errorf("after %d: %d routes", count, n)
		}
	}
	pool := kernel.ListAt(b.get(aksID), "properties", "agentPoolProfiles")[0]
	if fmt.Sprint(pool["count"]) != "2" {
		t.Errorf("the pool counts %v nodes", pool["count"])
	}
	if err := b.e.Scale(aksID, "np", 5); err != nil || len(b.podRoutes(rt)) != 5 {
		t.Errorf("%v, %d routes", err, len(b.podRoutes(rt)))
	}
}

// TestGroupInUse: a group whose network has nodes of a cluster in another group is not deleted;
// after the cluster's delete it is.
func TestGroupInUse(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	other := arm.ID("/subscriptions/" + sub + "/resourceGroups/other")
	b.put(other, `{"location":"westeurope"}`)
	cluster := other + "/providers/Microsoft.ContainerService/managedClusters/c"
	b.put(cluster, fmt.Sprintf(existing, 2))
	b.refused(http.MethodDelete, group, "", 409, "ResourceGroupDeletionBlocked")
	for _, id := range []arm.ID{other, group} {
		if status, code := b.try(http.MethodDelete, id, "2024-03-01", ""); status != 200 {
			t.Errorf("DELETE %s: %d %s", id.Name(), status, code)
		}
		b.refused(http.MethodGet, id, "", 404, "ResourceGroupNotFound")
	}
}

func TestActivityLog(t *testing.T) {
	b := newBench(t, Options{PageSize: 4})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(aksID, fmt.Sprintf(existing, 1))
	b.refused(http.MethodDelete, rt, "", 400, "InUseRouteTableCannotBeDeleted")
	log := arm.ID("/subscriptions/" + sub +
		"/providers/Microsoft.Insights/eventtypes/management/values")
	query := func(filter string) []kernel.Object {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://h"+string(log), nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []kernel.Object
		for link := "?api-version=2015-04-01&" +
			(map[bool]string{true: "$filter=" + strings.ReplaceAll(filter, " ",
				"%20")})[filter != ""]; link != ""; {
			r.URL.RawQuery = strings.TrimPrefix(link, "?")
			r.Header.Set("Authorization", "Bearer "+b.c.token)
			w := &recorder{header: http.Header{}}
			b.e.ServeHTTP(w, r)
			doc, f := kernel.DecodeObject(w.body.Bytes())
			if f != nil || w.status != 200 {
				t.Fatalf("%d %s", w.status, w.body.Bytes())
			}
			all = append(all, kernel.ListAt(doc, "value")...)
			_, link, _ = strings.Cut(kernel.Text(doc, "nextLink"), "values?")
		}
		return all
	}
	var got []string
	for _, r := range query("eventTimestamp ge '" + dayAgo() + "' and resourceUri eq '" +
		string(rt) + "'") {
		who := "operator"
		if mirid, ok := kernel.ObjectAt(r, "claims")["xms_mirid"]; ok {
			who = arm.ID(fmt.Sprint(mirid)).Name()
		}
		got = append(got, kernel.Text(r, "operationName", "value")+" "+
			kernel.Text(r, "status", "value")+" by "+who)
	}
	want := []string{
		"Microsoft.Network/routeTables/delete Failed by operator",
		"Microsoft.Network/routeTables/delete Started by operator",
		"Microsoft.Network/routeTables/write Succeeded by c",
		"Microsoft.Network/routeTables/write Started by c",
		"Microsoft.Network/routeTables/write Succeeded by operator",
		"Microsoft.Network/routeTables/write Started by operator",
	}
	if !slices.Equal(got, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(query("eventTimestamp ge '2099-01-01T00:00:00Z'")); n != 0 {
		t.Errorf("%d records from the future", n)
	}
	if all, network := len(query("eventTimestamp ge '"+dayAgo()+"'")),
		len(query("eventTimestamp ge '"+dayAgo()+"' and resourceProvider eq "+
			"'microsoft.network'")); network == 0 || all <= network {
		t.Errorf("%d records, %d of the network", all, network)
	}
}

func TestFaultsAndControl(t *testing.T) {
	b := newBench(t, Options{})
	control := func(method, path, body string) (int, string) {
		r, err := http.NewRequest(method, "http://h/_emulator/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		w := &recorder{header: http.Header{}}
		b.e.ServeHTTP(w, r)
		return w.status, w.body.String()
	}
	if status, answer := control(http.MethodPost, "faults",
		`{"method":"PUT","path":"routetables/rt$","skip":1,"count":2,"status":503,"retryAfter":5}`); status != 200 {
		t.Fatal(answer)
	}
	var got []int
	for range 5 {
		status, _ := b.try(http.MethodPut, rt, api, `{"location":"westeurope"}`)
		got = append(got, status)
	}
	if want := []int{201, 503, 503, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, answer := control(http.MethodGet, "faults", ""); !strings.Contains(answer, `"fired":2`) {
		t.Error(answer)
	}
	for _, bad := range []string{`{}`, `{"status":99}`, `{"cut":"sometimes"}`,
		`{"status":500,"path":"("}`, `{"stat":500}`, `x`} {
		if status, answer := control(http.MethodPost, "faults", bad); status != 400 ||
			!strings.Contains(answer, `"error"`) {
			t.Errorf("%s: %d %s", bad, status, answer)
		}
	}
	if status, answer := control(http.MethodGet, "requests?method=put&since=1",
		""); status != 200 || strings.Count(answer, `"method":"PUT"`) != 5 {
		t.Errorf("%d %s", status, answer)
	}
	for _, bad := range []string{`{"status":500,"cut":"after"}`, `{"status":500,"count":-5}`,
		`{"status":500,"skip":-1}`} {
		if status, answer := control(http.MethodPost, "faults", bad); status != 400 {
			t.Errorf("%s: %d %s", bad, status, answer)
		}
	}
	for _, bad := range []string{"scale", "readdress", "routes"} {
		if status, _ := control(http.MethodPost, bad, `{"cluster":"/none"}`); status != 400 {
			t.Errorf("%s of no cluster: %d", bad, status)
		}
	}
	// The public port has no control calls.
	w := &recorder{header: http.Header{}}
	r, err := http.NewRequest(http.MethodGet, "http://h/_emulator/requests", nil)
	if err != nil {
		t.Fatal(err)
	}
	b.e.Public().ServeHTTP(w, r)
	if w.status != http.StatusUnauthorized {
		t.Errorf("on the public port: %d", w.status)
	}
}

// TestOwnDualStack: the network that AKS makes has both families if the cluster has.
func TestOwnDualStack(t *testing.T) {
	b := newBench(t, Options{})
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet","ipFamilies":["IPv4","IPv6"]},"agentPoolProfiles":[{"name":"np","mode":"System","count":2}]}}`)
	b.e.kernel.Mu.RLock()
	cl := b.e.aks.Clusters[aksID.Key()]
	table := cl.Table
	b.e.kernel.Mu.RUnlock()
	routes := b.podRoutes(table)
	v6 := 0
	for _, r := range routes {
		if strings.Contains(r, "::") {
			v6++
		}
	}
	if len(routes) != 4 || v6 != 2 {
		t.Errorf("routes %q", routes)
	}
}

// TestKubeletIdentity: the nodes have their own identity, which clients read from the cluster.
func TestKubeletIdentity(t *testing.T) {
	b := newBench(t, Options{})
	b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","mode":"System","count":1}]}}`)
	kubelet := kernel.ObjectAt(b.get(aksID), "properties", "identityProfile", "kubeletidentity")
	identity := b.get(arm.ID(kernel.Text(kubelet, "resourceId")))
	if p := kernel.ObjectAt(identity, "properties"); kernel.Text(identity, "name") != aksID.Name()+
		"-agentpool" ||
		kernel.Text(p, "clientId") != kernel.Text(kubelet, "clientId") ||
		kernel.Text(p, "principalId") != kernel.Text(kubelet, "objectId") ||
		kernel.Text(kubelet, "clientId") == "" {
		t.Errorf("%s\n%s", kernel.Encode(kubelet), kernel.Encode(identity))
	}
}
