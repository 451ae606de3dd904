package emulator

import (
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
	"routekeeper.dev/routekeeper/internal/emulator/network"
)

// post makes a POST, follows its Location until there is a result, and returns that.
func (b *bench) post(id arm.ID, body string) (kernel.Object, http.Header) {
	b.t.Helper()
	call := func(method, target, body string) *recorder {
		r, err := http.NewRequest(method, target, strings.NewReader(body))
		if err != nil {
			b.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+b.c.token)
		w := &recorder{header: http.Header{}}
		b.e.ServeHTTP(w, r)
		return w
	}
	w := call(http.MethodPost, "http://h"+string(id)+"?api-version="+api, body)
	first := w.header
	for location := first.Get("Location"); w.status == http.StatusAccepted; {
		time.Sleep(time.Second)
		w = call(http.MethodGet, location, "")
	}
	doc, f := kernel.DecodeObject(w.body.Bytes())
	if f != nil {
		b.t.Fatalf("POST %s: %d %s", id, w.status, w.body.Bytes())
	}
	return doc, first
}

func (b *bench) effective(id arm.ID) []string {
	b.t.Helper()
	doc, _ := b.post(id+"/effectiveRouteTable", "")
	var out []string
	for _, r := range kernel.ListAt(doc, "value") {
		if slices.Contains(network.ReservedPrefixes[4:],
			strings.Join(kernel.List(r, "addressPrefix"), ",")) {
			continue // Azure's own routes, always the same
		}
		hop := strings.Join(kernel.List(r, "nextHopIpAddress"), ",")
		out = append(out, strings.TrimSpace(fmt.Sprintln(kernel.Text(r, "source"),
			kernel.Text(r, "state"), strings.Join(kernel.List(r, "addressPrefix"), ","),
			kernel.Text(r, "nextHopType"), hop)))
	}
	return out
}

func peeringBody(remote arm.ID) string {
	return `{"properties":{"remoteVirtualNetwork":{"id":"` + string(remote) + `"}}}`
}

const (
	hub      = group + "/providers/Microsoft.Network/virtualNetworks/hub"
	hubBody  = `{"location":"westeurope","properties":{"addressSpace":{"addressPrefixes":["172.16.0.0/12"]},"subnets":[{"name":"s","properties":{"addressPrefix":"172.16.0.0/24"}}]}}`
	toHub    = vnet + "/virtualNetworkPeerings/to-hub"
	fromHub  = hub + "/virtualNetworkPeerings/to-vnet"
	appliedR = `{"location":"westeurope","properties":{"disableBgpRoutePropagation":true,"routes":[
		{"name":"egress","properties":{"addressPrefix":"0.0.0.0/0","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.9.4"}},
		{"name":"pods","properties":{"addressPrefix":"10.244.3.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.0.1.4"}},
		{"name":"storage","properties":{"addressPrefix":"Storage","nextHopType":"Internet"}}]}}`
)

func TestEffectiveRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{})
		b.put(rt, appliedR)
		b.put(vnet, plainVNet)
		b.put(hub, hubBody)
		b.put(nic, nicBody(ipConfiguration("c", "a", "")))
		b.put(nic+"2", nicBody(ipConfiguration("c", "b", "")))
		system := []string{"Default Active 10.0.0.0/16 VnetLocal",
			"Default Active 0.0.0.0/0 Internet",
			"Default Active 10.0.0.0/8 None", "Default Active 172.16.0.0/12 None",
			"Default Active 192.168.0.0/16 None", "Default Active 100.64.0.0/10 None"}
		if got := b.effective(nic + "2"); !slices.Equal(got, system) {
			t.Errorf("without a table:\n%s", strings.Join(got, "\n"))
		}
		want := append(slices.Clone(system), "User Active 0.0.0.0/0 VirtualAppliance 10.0.9.4",
			"User Active 10.244.3.0/24 VirtualAppliance 10.0.1.4", "User Active Storage Internet")
		want[1] = "Default Invalid 0.0.0.0/0 Internet"
		if got := b.effective(nic); !slices.Equal(got, want) {
			t.Errorf("with a table:\n%s", strings.Join(got, "\n"))
		}
		// A peering counts once both sides have it.
		b.put(toHub, peeringBody(hub))
		if got := b.effective(nic + "2"); !slices.Equal(got, system) {
			t.Errorf("with half a peering:\n%s", strings.Join(got, "\n"))
		}
		b.put(fromHub, peeringBody(vnet))
		want = slices.Insert(slices.Clone(system), 1, "Default Active 172.16.0.0/12 VNetPeering")
		if got := b.effective(nic + "2"); !slices.Equal(got, want) {
			t.Errorf("with a peering:\n%s", strings.Join(got, "\n"))
		}

		watcher := group + "/providers/Microsoft.Network/networkWatchers/w"
		b.put(watcher, `{"location":"westeurope"}`)
		vm := arm.ID(strings.Replace(string(nic), "Microsoft.Network/networkInterfaces",
			arm.TypeVM, 1))
		b.put(vm, `{"location":"westeurope","properties":{"networkProfile":{"networkInterfaces":[{"id":"`+string(nic)+`"}]}}}`)
		for to, want := range map[string]string{
			"10.0.77.1":    "VnetLocal System Route ",
			"10.244.3.9":   "VirtualAppliance rt 10.0.1.4",
			"10.244.4.9":   "None System Route ",
			"203.0.113.1":  "VirtualAppliance rt 10.0.9.4",
			"172.16.0.4":   "VNetPeering System Route ",
			"192.168.0.10": "None System Route ",
		} {
			doc, _ := b.post(watcher+"/nextHop", `{"targetResourceId":"`+string(vm)+
				`","sourceIPAddress":"10.0.1.4","destinationIPAddress":"`+to+`"}`)
			if got := kernel.Text(doc, "nextHopType") + " " +
				arm.ID(kernel.Text(doc, "routeTableId")).Name() +
				" " + kernel.Text(doc, "nextHopIpAddress"); got != want {
				t.Errorf("to %s: %q, want %q", to, got, want)
			}
		}
		b.refused(http.MethodPost, watcher+"/nextHop", `{"targetResourceId":"`+string(vm)+
			`","sourceIPAddress":"10.0.1.77","destinationIPAddress":"10.0.0.1"}`, 400,
			"SourceIpAddressNotFound")
	})
}

// TestEffectiveRoutesTakeTime: 202 with a Location that answers 202 until the result is ready.
func TestEffectiveRoutesTakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 4 * time.Second})
		b.put(rt, appliedR)
		b.put(vnet, plainVNet)
		time.Sleep(4 * time.Second)
		b.put(nic, nicBody(ipConfiguration("c", "a", "")))
		start := time.Now()
		doc, header := b.post(nic+"/effectiveRouteTable", "")
		location, err := url.Parse(header.Get("Location"))
		if took := time.Since(start); len(kernel.ListAt(doc, "value")) != 21 ||
			took != 4*time.Second ||
			err != nil || !location.IsAbs() || header.Get("Retry-After") != "1" {
			t.Errorf("after %s, %v: %s", took, header, kernel.Encode(doc))
		}
	})
}

// TestEffectiveRoutesOfNodes follows a kubenet cluster's subnet through the loss of its table: the
// outage itself.
func TestEffectiveRoutesOfNodes(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(aksID, fmt.Sprintf(existing, 2))
	set := arm.ID(kernel.Text(
		kernel.ListAt(b.get("/subscriptions/"+sub+
			"/resourceGroups/MC_net-rg_c_westeurope/providers/microsoft.Compute/virtualMachineScaleSets"), "value")[0], "id"))
	one := arm.ID(strings.Replace(string(set), "Microsoft.Compute", "microsoft.Compute", 1)) +
		"/virtualMachines/0/networkInterfaces/" + arm.ID(set.Name())
	const pods = "User Active 10.244.1.0/24 VirtualAppliance 10.0.1.5"
	if got := b.effective(one); !slices.Contains(got, pods) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	watcher := group + "/providers/Microsoft.Network/networkWatchers/w"
	b.put(watcher, `{"location":"westeurope"}`)
	hop := func() string {
		doc, _ := b.post(watcher+"/nextHop", `{"targetResourceId":"`+string(set)+
			`/virtualMachines/0","sourceIPAddress":"10.0.1.4","destinationIPAddress":"10.244.1.7"}`)
		return kernel.Text(doc, "nextHopType") + " " + kernel.Text(doc, "nextHopIpAddress")
	}
	if got := hop(); got != "VirtualAppliance 10.0.1.5" {
		t.Errorf("a packet to a pod goes to %q", got)
	}
	b.put(vnet.Child("subnets", "a"), `{"properties":{"addressPrefix":"10.0.1.0/24"}}`)
	if got := hop(); got != "None " {
		t.Errorf("without the table a packet to a pod goes to %q", got)
	}
}

func TestPeerings(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	b.put(hub, hubBody)
	peering := func(id arm.ID) string {
		p := b.properties(id)
		return kernel.Text(p, "peeringState") + " " + kernel.Text(p, "peeringSyncLevel")
	}
	etag := kernel.Text(b.get(vnet), "etag")
	b.put(toHub, peeringBody(hub))
	if got := peering(toHub); got != "Initiated RemoteNotInSync" ||
		kernel.Text(b.get(vnet), "etag") == etag {
		t.Errorf("one side: %s", got)
	}
	b.put(fromHub, peeringBody(vnet))
	if got := peering(toHub) + ", " + peering(fromHub); got != "Connected FullyInSync, Connected "+
		"FullyInSync" {
		t.Errorf("both sides: %s", got)
	}
	inside := kernel.ListAt(b.properties(vnet), "virtualNetworkPeerings")
	if len(inside) != 1 ||
		string(kernel.Encode(inside[0])) != string(kernel.Encode(b.get(toHub))) ||
		kernel.ObjectAt(inside[0], "properties")["allowVirtualNetworkAccess"] != true {
		t.Errorf("inside the network: %s", kernel.Encode(inside))
	}
	// A PUT of the network that does not name the peerings leaves them unchanged.
	b.put(vnet, plainVNet)
	if got := peering(toHub); got != "Connected FullyInSync" {
		t.Errorf("after a PUT of the network: %s", got)
	}
	// A PUT that sends what it has read leaves them unchanged as well, as az network vnet update
	// does.
	b.put(vnet, string(kernel.Encode(b.get(vnet))))
	if got := peering(toHub) + ", " + peering(fromHub); got != "Connected FullyInSync, Connected "+
		"FullyInSync" {
		t.Errorf("after a PUT of the network as it was read: %s", got)
	}
	b.put(hub, strings.Replace(hubBody, `"172.16.0.0/12"`, `"172.16.0.0/12","192.168.0.0/16"`, 1))
	if got := peering(toHub) + ", " + peering(fromHub); got != "Connected RemoteNotInSync, "+
		"Connected LocalNotInSync" {
		t.Errorf("after a new address space: %s", got)
	}
	b.put(toHub, peeringBody(hub))
	if got := peering(toHub); got != "Connected FullyInSync" {
		t.Errorf("after the sync: %s", got)
	}
	b.refused(http.MethodPut, hub, strings.Replace(hubBody, `"172.16.0.0/12"`,
		`"172.16.0.0/12","10.0.0.0/8"`, 1), 400, "VnetAddressSpacesOverlap")
	b.refused(http.MethodPut, toHub+"2", peeringBody(hub), 400,
		"AnotherPeeringAlreadyReferencesRemoteVnet")
	b.refused(http.MethodPut, toHub+"2", peeringBody(hub+"x"), 400, "InvalidResourceReference")
	same := vnet + "2"
	b.put(same, strings.ReplaceAll(plainVNet, "/subnets", "/subnets"))
	b.refused(http.MethodPut, same+"/virtualNetworkPeerings/p", peeringBody(vnet), 400,
		"VnetAddressSpacesOverlap")
	b.refused(http.MethodPut, same+"/virtualNetworkPeerings/p", peeringBody(hub), 400,
		"VnetAddressSpaceOverlapsWithAlreadyPeeredVnet")

	// One side deleted: the other is disconnected, and must be created again first.
	b.delete(toHub)
	if got := peering(fromHub); got != "Disconnected FullyInSync" &&
		got != "Disconnected RemoteNotInSync" {
		t.Errorf("one side gone: %s", got)
	}
	b.refused(http.MethodPut, toHub, peeringBody(hub), 400, "RemotePeeringIsDisconnected")
	b.put(hub, string(kernel.Encode(b.get(hub))))
	if got := peering(fromHub); !strings.HasPrefix(got, "Disconnected") {
		t.Errorf("one side gone, and a PUT of the other's network: %s", got)
	}
	b.put(fromHub, peeringBody(vnet))
	b.put(toHub, peeringBody(hub))
	b.delete(vnet)
	if got := peering(fromHub); !strings.HasPrefix(got, "Disconnected") {
		t.Errorf("the other network gone: %s", got)
	}
}

func TestOwnScaleSet(t *testing.T) {
	b := newBench(t, Options{})
	b.put(rt, `{"location":"westeurope"}`)
	b.put(vnet, plainVNet)
	set := group + "/providers/Microsoft.Compute/virtualMachineScaleSets/set"
	body := func(capacity int) string {
		return fmt.Sprintf(
			`{"location":"westeurope","zones":["1","2"],"sku":{"name":"S","capacity":%d},"properties":{"overprovision":false,"virtualMachineProfile":{"networkProfile":{"networkInterfaceConfigurations":[
			{"name":"eth0","properties":{"primary":true,"enableIPForwarding":true,"ipConfigurations":[%s]}}]}}}}`, capacity, ipConfiguration("c", "a", ""))
	}
	have := func() []string {
		var out []string
		for _, vm := range kernel.ListAt(b.get(set+"/virtualMachines"), "value") {
			nic := arm.ID(kernel.Text(
				kernel.ListAt(vm, "properties", "networkProfile", "networkInterfaces")[0], "id"))
			p := kernel.ObjectAt(kernel.ListAt(b.properties(nic), "ipConfigurations")[0],
				"properties")
			out = append(out, kernel.Text(vm, "name")+" "+kernel.Text(p, "privateIPAddress")+" "+
				kernel.List(vm, "zones")[0])
		}
		return out
	}
	b.put(set, body(2))
	if got := have(); !slices.Equal(got, []string{"set_0 10.0.1.4 1", "set_1 10.0.1.5 2"}) {
		t.Errorf("%q", got)
	}
	b.put(set, body(1))
	b.put(set, body(3))
	if got := have(); !slices.Equal(got,
		[]string{"set_0 10.0.1.4 1", "set_1 10.0.1.5 2", "set_2 10.0.1.6 1"}) {
		t.Errorf("%q", got)
	}
	b.refused(http.MethodPut, set, body(300), 400, "SubnetIsFull")
	if got := have(); len(got) != 3 {
		t.Errorf("after a refused PUT: %q", got)
	}
	if n := len(kernel.ListAt(b.get(set+"/networkInterfaces"), "value")); n != 3 {
		t.Errorf("%d interfaces", n)
	}
	b.delete(set)
	if got := ids(b.properties(vnet.Child("subnets", "a")), "ipConfigurations"); got != nil {
		t.Errorf("still in the subnet: %v", got)
	}
}
