package emulator

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/aks"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// putAsOf is a PUT as of a date, and returns the whole answer.
func (b *bench) putAsOf(id arm.ID, version, asOf, body string) (int, http.Header, kernel.Object) {
	b.t.Helper()
	r := httptest.NewRequest(
		http.MethodPut,
		"http://h"+string(id)+"?api-version="+version,
		strings.NewReader(body),
	)
	r.Header.Set("Authorization", "Bearer "+b.c.token)
	if asOf != "" {
		r.Header.Set(AsOfHeader, asOf)
	}
	w := httptest.NewRecorder()
	b.e.ServeHTTP(w, r)
	doc, _ := kernel.DecodeObject(w.Body.Bytes()) // no body: nil
	return w.Code, w.Header(), doc
}

// TestETagSettles: the ETag of a PUT's answer is not the one that the resource has after the
// operation, so that a later write with it is refused.
func TestETagSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 8 * time.Second})
		status, header, answered := b.putAsOf(rt, api, "", `{"location":"westeurope"}`)
		if status != 201 || header.Get("ETag") != "" || header.Get("Retry-After") != "2" {
			t.Errorf("%d %v", status, header)
		}
		if while := kernel.Text(b.get(rt), "etag"); while != kernel.Text(answered, "etag") {
			t.Errorf("during the operation %s, answered %s", while, kernel.Text(answered, "etag"))
		}
		time.Sleep(8 * time.Second)
		settled := kernel.Text(b.get(rt), "etag")
		if settled == kernel.Text(answered, "etag") {
			t.Error("the ETag did not change when the operation ended")
		}
		put := func(etag string) int {
			r := httptest.NewRequest(
				http.MethodPut,
				"http://h"+string(rt)+"?api-version="+api,
				strings.NewReader(
					`{"location":"westeurope","properties":{"disableBgpRoutePropagation":true}}`,
				),
			)
			r.Header.Set("Authorization", "Bearer "+b.c.token)
			r.Header.Set("If-Match", etag)
			w := httptest.NewRecorder()
			b.e.ServeHTTP(w, r)
			return w.Code
		}
		if stale, now := put(kernel.Text(answered, "etag")), put(settled); stale != 412 ||
			now != 200 {
			t.Errorf("If-Match with the answered ETag: %d, with the settled one: %d", stale, now)
		}
		// A network and its subnets share both.
		_, _, network := b.putAsOf(vnet, api, "", plainVNet)
		time.Sleep(8 * time.Second)
		a, whole := b.get(vnet.Child("subnets", "a")), b.get(vnet)
		if kernel.Text(a, "etag") != kernel.Text(whole, "etag") ||
			kernel.Text(whole, "etag") == kernel.Text(network, "etag") {
			t.Errorf(
				"subnet %s, network %s, answered %s",
				kernel.Text(a, "etag"),
				kernel.Text(whole, "etag"),
				kernel.Text(network, "etag"),
			)
		}
	})
}

// TestNothingChanged: a PUT that changes nothing, or only tags, is Succeeded at once, with a new
// ETag and an ended operation.
func TestNothingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 8 * time.Second})
		b.put(rt, `{"location":"westeurope"}`)
		b.put(vnet, plainVNet)
		time.Sleep(8 * time.Second)
		for _, tt := range []struct {
			id          arm.ID
			body, state string
		}{
			{vnet.Child("subnets", "b"), `{"properties":{"addressPrefix":"10.0.2.0/24"}}`,
				"Succeeded"},
			{vnet, string(kernel.Encode(b.get(vnet))), "Succeeded"},
			{rt, `{"location":"westeurope","tags":{"a":"b"}}`, "Succeeded"},
			{rt, `{"location":"westeurope","properties":{"disableBgpRoutePropagation":true}}`,
				"Updating"},
		} {
			etag := kernel.Text(b.get(tt.id), "etag")
			status, header, doc := b.putAsOf(tt.id, api, "", tt.body)
			still := tt.state == "Succeeded"
			if got := kernel.Text(doc, "properties", "provisioningState"); status != 200 ||
				got != tt.state || kernel.Text(doc, "etag") == etag || header.Get(
				"Azure-AsyncOperation") == "" || (header.Get("Retry-After") == "") != still {
				t.Errorf(
					"PUT %s: %d %s %s, %v",
					tt.id.Short(),
					status,
					got,
					kernel.Text(doc, "etag"),
					header,
				)
			}
		}
		if tags := b.get(rt)["tags"]; string(kernel.Encode(tags)) != `{}` && tags != nil {
			t.Errorf("the last PUT leaves the tags %s", kernel.Encode(tags))
		}
	})
}

// TestAsOf: Azure's answers in other years, and at other api-versions.
func TestAsOf(t *testing.T) {
	b := newBench(t, Options{OperationTime: 0})
	cluster := func(asOf, version string) kernel.Object {
		id := aksID + arm.ID("-"+strings.ReplaceAll(asOf+version, "-", ""))
		if status, _, doc := b.putAsOf(id, version, asOf,
			`{"location":"westeurope","properties":{"agentPoolProfiles":[{"name":"np","mode":"System","count":1}]}}`); status != 201 {
			t.Fatalf("%s: %d %s", id, status, kernel.Encode(doc))
		}
		_, doc := b.request(
			http.MethodGet,
			string(id),
			map[string][]string{"api-version": {version}},
			"",
		)
		return doc
	}
	for _, tt := range []struct{ asOf, version, plugin, mode, maxPods string }{
		{"2024-08-02", "2023-02-01", "kubenet", "", "110"},
		{"2024-08-02", "2024-04-02-preview", "azure", "overlay", "250"},
		{"2025-03-25", "2023-02-01", "azure", "overlay", "250"},
		{"", "2025-05-01", "azure", "overlay", "250"},
	} {
		p := kernel.ObjectAt(cluster(tt.asOf, tt.version), "properties")
		network, pool := kernel.ObjectAt(p, "networkProfile"), kernel.ListAt(p,
			"agentPoolProfiles")[0]
		if kernel.Text(network, "networkPlugin") != tt.plugin ||
			kernel.Text(network, "networkPluginMode") != tt.mode ||
			string(kernel.Encode(pool["maxPods"])) != tt.maxPods {
			t.Errorf("as of %s at %s: %s %s", tt.asOf, tt.version, kernel.Encode(network),
				kernel.Encode(pool))
		}
	}
	old, recent := cluster("2023-06-01", "2021-05-01"), cluster("2025-04-01", "2024-04-02-preview")
	if name := kernel.Text(old, "sku", "name"); name != "Basic" ||
		kernel.ObjectAt(old, "properties")["storageProfile"] != nil {
		t.Errorf("at an old api-version: sku %s, %s", name,
			kernel.Encode(kernel.ObjectAt(old, "properties")["storageProfile"]))
	}
	pool := kernel.ListAt(recent, "properties", "agentPoolProfiles")[0]
	if kernel.Text(recent, "kind") != "Base" || kernel.Text(pool, "upgradeSettings",
		"maxSurge") != "10%" || kernel.Text(recent, "eTag") == "" {
		t.Errorf("at a preview version: %s", kernel.Encode(recent))
	}
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	c := newBench(t, Options{OperationTime: time.Nanosecond})
	c.put(rt, `{"location":"westeurope"}`)
	c.put(vnet, plainVNet)
	for asOf, operation := range map[string]bool{"2023-05-01": true, "2024-08-02": false} {
		_, header, doc := c.putAsOf(
			nic+arm.ID(asOf),
			api,
			asOf,
			nicBody(ipConfiguration("c", "a", "")),
		)
		if state := kernel.Text(doc, "properties", "provisioningState"); state != "Succeeded" ||
			(header.Get("Azure-AsyncOperation") != "") != operation {
			t.Errorf("an interface as of %s is %s, %v", asOf, state, header)
		}
	}
}

// TestInterfaceWrites: a change of a network interface ends before it is answered and names its
// operation; a change of the gateway pools that it is in takes time.
func TestInterfaceWrites(t *testing.T) {
	b := newBench(t, Options{OperationTime: time.Nanosecond})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	gateway := group + "/providers/Microsoft.Network/applicationGateways/agw"
	b.put(gateway, `{"location":"westeurope","properties":{"gatewayIPConfigurations":[`+
		ipConfiguration("c", "b", "")+`],"backendAddressPools":[{"name":"p"}]}}`)
	b.put(nic, nicBody(ipConfiguration("c", "a", "")))
	pool := `,"applicationGatewayBackendAddressPools":[{"id":"` + string(gateway) +
		`/backendAddressPools/p"}]`
	b.e.opts.OperationTime, b.e.kernel.Opts.OperationTime = time.Hour, time.Hour
	for i, tt := range []struct{ more, state string }{
		{"", "Succeeded"}, {pool, "Updating"}, {pool, "Succeeded"}, {"", "Updating"},
	} {
		_, header, doc := b.putAsOf(nic, api, "", nicBody(ipConfiguration("c", "a", tt.more)))
		if state := kernel.Text(doc, "properties", "provisioningState"); state != tt.state ||
			header.Get("Azure-AsyncOperation") == "" {
			t.Errorf("write %d of the interface: %s, %v", i, state, header)
		}
		b.e.kernel.Store.Get(nic).BusyUntil = time.Time{} // the operation ends
	}
}

// TestRefusals: the words of each provider's refusals, as recorded.
func TestRefusals(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, ``))
	b.put(machines, scaleSet("Standard_DS1_v2", "null", 0))
	b.put(uai, `{"location":"westeurope"}`)
	subnet := vnet.Child("subnets", "bad")
	credential := uai.Child("federatedIdentityCredentials", "f")
	secondary := ipConfiguration("c", "a", "") + "," + ipConfiguration("d", "a",
		`,"applicationGatewayBackendAddressPools":[{"id":"p"}]`)
	for _, tt := range []struct {
		method        string
		id            arm.ID
		body          string
		status        int
		code, message string
	}{
		{http.MethodGet, machines.Child("extensions", "e"), "", 404, "NotFound",
			"The entity was not found in this Azure location."},
		{http.MethodGet, aksID.Child("agentPools", "p"), "", 404, "NotFound",
			"Could not find the agentpool: p in subscription: " + aksID.Subscription() +
				", resourceGroup: " + aksID.ResourceGroup() + ", resourceName: c."},
		{http.MethodGet, credential, "", 404, "NotFound",
			"Resource '" + string(credential) + "' was not found."},
		{http.MethodPut, subnet, `{"properties":{"addressPrefix":"10.0.9.0"}}`, 400,
			"InvalidAddressPrefixFormat", "Address prefix 10.0.9.0 of resource " + string(subnet) +
				" is not formatted correctly. It should follow CIDR notation, for example " +
				"10.0.0.0/24."},
		{http.MethodPut, nic, nicBody(secondary), 400,
			"ApplicationGatewayLoadBalancingNotSupportedOnSecondaryIpConfigurations",
			"Network Interface with Id: " + string(nic) + " has a secondary IpConfigurations d " +
				"is using ApplicationGatewayAddressPools. ApplicationGateway loadbalancing is " +
				"not supported for secondary IpConfigurations."},
	} {
		b.says(tt.method, tt.id, tt.body, tt.status, tt.code, tt.message)
	}
}

// TestPanic: a bug in a handler is logged with the request, answered with 500, and undone.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	b := withNetwork(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	b.put(aksID, clusterBody(``, `,"count":2`))
	before := string(kernel.Encode([]kernel.Object{b.get(vnet), b.get(aksID), b.get(rt)}))
	k := b.e.kernel.Kinds[strings.ToLower(arm.TypeCluster)]
	show := k.Stored
	k.Stored = func(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
		if f := show(c, r, old); f != nil {
			return f
		}
		panic("a bug")
	}
	defer func() { k.Stored = show }()
	b.refused(http.MethodPut, aksID, clusterBody(``, `,"count":4`), 500, "InternalServerError")
	b.refused(
		http.MethodPut,
		aksID+"2",
		strings.Replace(clusterBody(``, ``), "subnets/a", "subnets/b", 1),
		500,
		"InternalServerError",
	)
	k.Stored = show
	if after := string(kernel.Encode([]kernel.Object{b.get(vnet), b.get(aksID),
		b.get(rt)})); after != before {
		t.Errorf("left behind\n%s\nwas\n%s", after, before)
	}
	b.refused(http.MethodGet, aksID+"2", "", 404, "ResourceNotFound")
	if said := log.String(); !strings.Contains(said, "a bug in the emulator") ||
		!strings.Contains(said, "managedclusters/c") ||
		!strings.Contains(said, "agentPoolProfiles") {
		t.Errorf("the log says %s", said)
	}
	b.put(aksID, clusterBody(``, `,"count":4`)) // it still works
	if n := len(b.podRoutes(rt)); n != 4 {
		t.Errorf("%d routes of 4 nodes", n)
	}
}

// TestOverlayWithPodCIDRAlone: a CNI cluster without its own subnet migrates to overlay with
// only the pod CIDR.
func TestOverlayWithPodCIDRAlone(t *testing.T) {
	b := newBench(t, Options{})
	body := `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"azure"},"agentPoolProfiles":[{"name":"np","mode":"System","count":2,"maxPods":30}]}}`
	b.put(aksID, body)
	b.put(
		aksID,
		strings.Replace(
			body,
			`"azure"`,
			`"azure","networkPluginMode":"overlay","podCidr":"100.64.0.0/10"`,
			1,
		),
	)
	if p := kernel.ObjectAt(b.properties(aksID), "networkProfile"); string(
		kernel.Encode(p["podCidrs"]),
	) != `["100.64.0.0/10"]` {
		t.Errorf("%s", kernel.Encode(p))
	}
	for _, n := range b.nodes() {
		if len(n.PodCIDRs) != 1 || !strings.HasPrefix(n.PodCIDRs[0].String(), "100.64.") {
			t.Errorf("%s has %v", n.Name, n.PodCIDRs)
		}
	}
}

// TestStoppedPool: a stopped pool has no nodes, and gets as many again.
func TestStoppedPool(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(aksID, clusterBody(``, `,"count":2`))
	extra := aksID.Child("agentPools", "extra")
	b.put(extra, `{"properties":{"count":3,"vnetSubnetID":"`+string(vnet)+`/subnets/a"}}`)
	nodes := func() int { return len(b.poolNodes("extra")) }
	b.put(extra, `{"properties":{"count":3,"powerState":{"code":"Stopped"}}}`)
	if p := b.properties(extra); nodes() != 0 || kernel.Text(p, "powerState",
		"code") != "Stopped" || string(kernel.Encode(p["count"])) != "0" {
		t.Errorf("stopped: %d nodes, %s", nodes(), kernel.Encode(p))
	}
	b.put(extra, `{"properties":{"powerState":{"code":"Running"}}}`)
	if p := b.properties(extra); nodes() != 3 ||
		kernel.Text(p, "powerState", "code") != "Running" || p[aks.StoppedCount] != nil {
		t.Errorf("started: %d nodes, %s", nodes(), kernel.Encode(p))
	}
}

// TestPublicAddresses: without a sku an address is Basic and dynamic, and has no address until it
// is used.
func TestPublicAddresses(t *testing.T) {
	b := withNetwork(t, Options{})
	b.put(pip, `{"location":"westeurope","properties":{"dnsSettings":{"domainNameLabel":"label"}}}`)
	p := b.properties(pip)
	if kernel.Text(b.get(pip), "sku", "name") != "Basic" ||
		kernel.Text(p, "publicIPAllocationMethod") != "Dynamic" || p["ipAddress"] != nil ||
		kernel.Text(p, "dnsSettings", "fqdn") != "label.westeurope.cloudapp.azure.com" {
		t.Errorf("%s", kernel.Encode(b.get(pip)))
	}
	b.put(nic, nicBody(ipConfiguration("c", "a", `,"publicIPAddress":{"id":"`+string(pip)+`"}`)))
	if b.properties(pip)["ipAddress"] == nil {
		t.Error("it has no address, though an interface holds it")
	}
	b.delete(nic)
	if a := b.properties(pip)["ipAddress"]; a != nil {
		t.Errorf("it still has %v", a)
	}
	b.refused(
		http.MethodPut,
		nat,
		`{"location":"westeurope","properties":{"publicIpAddresses":[{"id":"`+string(pip)+`x"}]}}`,
		404,
		"NotFound",
	)
}

// TestInstanceNumbers: a scale set that overprovisions has gaps in the numbers of its instances,
// and instances are deleted by number.
func TestInstanceNumbers(t *testing.T) {
	b := withNetwork(t, Options{})
	set := group + "/providers/" + arm.TypeScaleSet + "/set"
	b.put(
		set,
		`{"location":"westeurope","sku":{"name":"S","capacity":8},"properties":{"virtualMachineProfile":{"networkProfile":{"networkInterfaceConfigurations":[
		{"name":"eth0","properties":{"primary":true,"ipConfigurations":[`+ipConfiguration(
			"c",
			"a",
			"",
		)+`]}}]}}}}`,
	)
	have := names(kernel.ListAt(b.get(set+"/virtualMachines"), "value"))
	if len(have) != 8 || have[7] == "set_7" {
		t.Errorf("instances %v", have)
	}
	number := strings.TrimPrefix(have[3], "set_")
	if status, code := b.try(http.MethodPost, set+"/delete", api, `{"instanceIds":["`+number+
		`"]}`); status != 200 {
		t.Fatalf("%d %s", status, code)
	}
	if left := names(kernel.ListAt(b.get(set+"/virtualMachines"), "value")); len(left) != 7 ||
		strings.Contains(strings.Join(left, " "), have[3]+" ") {
		t.Errorf("left %v, deleted %s", left, have[3])
	}
}

// TestGatewayParts: the parts of a gateway show back references, and a gateway that was read can be
// sent again.
func TestGatewayParts(t *testing.T) {
	b := withNetwork(t, Options{})
	gateway := group + "/providers/" + arm.TypeGateway + "/agw"
	part := func(list, name string) string {
		return `{"id":"` + string(gateway.Child(list, name)) + `"}`
	}
	b.put(
		gateway,
		`{"location":"westeurope","properties":{"sku":{"name":"Standard_v2","tier":"Standard_v2"},"gatewayIPConfigurations":[`+ipConfiguration(
			"c",
			"b",
			"",
		)+`],
		"frontendPorts":[{"Name":"port","properties":{"Port":80}}],"backendAddressPools":[{"name":"pool"}],
		"httpListeners":[{"name":"l","properties":{"frontendPort":`+part(
			"frontendPorts",
			"port",
		)+`}}],
		"requestRoutingRules":[{"name":"r","properties":{"httpListener":`+part(
			"httpListeners",
			"l",
		)+`,"backendAddressPool":`+part(
			"backendAddressPools",
			"pool",
		)+`}}]}}`,
	)
	for range 2 {
		p := b.properties(gateway)
		port := kernel.ObjectAt(kernel.ListAt(p, "frontendPorts")[0], "properties")
		pool := kernel.ObjectAt(kernel.ListAt(p, "backendAddressPools")[0], "properties")
		if string(kernel.Encode(port["httpListeners"])) != "["+part("httpListeners", "l")+"]" ||
			string(kernel.Encode(port["port"])) != "80" ||
			string(
				kernel.Encode(pool["requestRoutingRules"]),
			) != "["+part(
				"requestRoutingRules",
				"r",
			)+"]" || string(kernel.Encode(p["listeners"])) != "[]" {
			t.Fatalf("%s", kernel.Encode(p))
		}
		b.put(gateway, string(kernel.Encode(b.get(gateway))))
	}
}
