package emulator

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

func (b *bench) inject(f Fault) {
	b.t.Helper()
	if _, err := b.e.Inject(f); err != nil {
		b.t.Fatal(err)
	}
}

// call makes a call and returns its headers as well.
func (b *bench) call(method, url, body string) (int, http.Header, kernel.Object) {
	b.t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.c.token)
	w := &recorder{header: http.Header{}}
	b.e.ServeHTTP(w, r)
	doc, _ := kernel.DecodeObject(w.body.Bytes()) // no body: nil
	return w.status, w.header, doc
}

func TestSlowAndFailingOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: time.Second})
		b.inject(Fault{Method: "PUT", Path: "routeTables/rt$", Slow: 100})
		b.put(rt, `{"location":"westeurope"}`)
		provisioning := func() string {
			return kernel.Text(b.get(rt), "properties", "provisioningState")
		}
		time.Sleep(99 * time.Second)
		if provisioning() != "Updating" {
			t.Error(provisioning())
		}
		time.Sleep(time.Second)
		if provisioning() != "Succeeded" {
			t.Error(provisioning())
		}
		b.inject(Fault{Path: "routeTables/rt$", Fail: true, Slow: 3, Code: "InternalServerError",
			Message: "An error occurred.", Method: "PUT"})
		status, header, doc := b.call(http.MethodPut, "http://h"+string(rt)+"?api-version="+api,
			`{"location":"westeurope","tags":{"a":"b"}}`)
		if status != 200 || kernel.Text(doc, "properties", "provisioningState") != "Updating" {
			t.Errorf("%d %s", status, kernel.Encode(doc))
		}
		poll := func() (string, string) {
			_, _, doc := b.call(http.MethodGet, header.Get("Azure-AsyncOperation"), "")
			return kernel.Text(doc, "status"), kernel.Text(doc, "error", "code")
		}
		if status, _ := poll(); status != "InProgress" {
			t.Error(status)
		}
		time.Sleep(3 * time.Second)
		if status, code := poll(); status != "Failed" || code != "InternalServerError" {
			t.Errorf("%s %s", status, code)
		}
		if provisioning() != "Failed" || kernel.ObjectAt(b.get(rt), "tags")["a"] != "b" {
			t.Errorf("%s", kernel.Encode(b.get(rt)))
		}

		// A delete that fails leaves the resource; the next write makes it whole again.
		b.inject(Fault{Method: "DELETE", Fail: true})
		if status, _, _ := b.call(http.MethodDelete, "http://h"+string(rt)+"?api-version="+api,
			""); status != 202 {
			t.Errorf("delete: %d", status)
		}
		if provisioning() != "Deleting" {
			t.Error(provisioning())
		}
		time.Sleep(time.Second)
		if provisioning() != "Failed" {
			t.Error(provisioning())
		}
		b.e.ClearFaults()
		b.put(rt, `{"location":"westeurope"}`)
		time.Sleep(time.Second)
		if provisioning() != "Succeeded" {
			t.Error(provisioning())
		}

		// A cluster whose creation fails at the end.
		b.inject(Fault{Method: "PUT", Path: "managedClusters/c$", Fail: true,
			Code: "VMExtensionProvisioningError", Message: "No outbound connection."})
		b.put(aksID, `{"location":"westeurope","properties":{"networkProfile":{"networkPlugin":"kubenet"},"agentPoolProfiles":[{"name":"np","mode":"System"}]}}`)
		time.Sleep(time.Second)
		if b.state() != "Failed" {
			t.Error(b.state())
		}
	})
}

func TestStaleReads(t *testing.T) {
	b := withNetwork(t, Options{})
	b.inject(Fault{Method: "GET", Path: "routeTables", Stale: true, Count: 3})
	b.put(rt, `{"location":"westeurope","tags":{"now":"x"}}`)
	b.put(group+"/providers/Microsoft.Network/routeTables/new", `{"location":"westeurope"}`)
	if got := kernel.ObjectAt(b.get(rt), "tags"); got != nil {
		t.Errorf("tags %v", got)
	}
	b.refused(http.MethodGet, group+"/providers/Microsoft.Network/routeTables/new", "", 404,
		"ResourceNotFound")
	tables := kernel.ListAt(b.get(group+"/providers/Microsoft.Network/routeTables"), "value")
	if !slices.Equal(names(tables), []string{"rt"}) || tables[0]["tags"] != nil {
		t.Errorf("%s", kernel.Encode(tables))
	}
	if got := kernel.ObjectAt(b.get(rt), "tags"); got["now"] != "x" { // three times, and no more
		t.Errorf("tags %v", got)
	}
	// Of a virtual network that lost an association, the network and the subnet are both shown in
	// their older state.
	b.inject(Fault{Method: "GET", Path: "virtualNetworks", Stale: true, Count: 2})
	b.put(vnet.Child("subnets", "a"), `{"properties":{"addressPrefix":"10.0.1.0/24"}}`)
	a := kernel.ListAt(b.get(vnet), "properties", "subnets")[0]
	if kernel.LinkOf(a, "routeTable") == "" ||
		kernel.LinkOf(b.get(vnet.Child("subnets", "a")), "routeTable") == "" {
		t.Errorf("%s", kernel.Encode(a))
	}
	if kernel.LinkOf(b.get(vnet.Child("subnets", "a")), "routeTable") != "" {
		t.Error("still stale")
	}
	b.put(vnet.Child("subnets", "a"),
		`{"properties":{"addressPrefix":"10.0.1.0/24","routeTable":{"id":"`+string(rt)+`"}}}`)
	b.inject(Fault{Method: "GET", Path: "subnets/a$", Stale: true})
	// strips it through the network
	b.put(vnet, strings.Replace(plainVNet, `"routeTable"`, `"was"`, 1))
	if kernel.LinkOf(b.get(vnet.Child("subnets", "a")), "routeTable") == "" ||
		kernel.LinkOf(b.get(vnet.Child("subnets", "a")), "routeTable") != "" {
		t.Error("the subnet is not shown once as it was")
	}
}

// TestFaultsBeforeRights: a caller that lacks a right learns that only where it gets an answer.
func TestFaultsBeforeRights(t *testing.T) {
	b := withNetwork(t, Options{})
	b.inject(Fault{Method: "GET", Count: -1, Status: 403})
	b.inject(Fault{Count: 1, Status: 503})
	for _, want := range []int{503, 403} {
		if got, _ := b.try(http.MethodGet, rt, api, ""); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}

func TestSeededFaults(t *testing.T) {
	run := func(seed uint64) string {
		b := withNetwork(t, Options{})
		b.inject(Fault{Method: "GET", Rate: 0.3, Seed: seed, Count: -1, Status: 503})
		out := ""
		for range 60 {
			status, _ := b.try(http.MethodGet, rt, api, "")
			out += map[int]string{200: ".", 503: "x"}[status]
		}
		return out
	}
	first, again, other := run(1), run(1), run(2)
	if n := strings.Count(first, "x"); first != again || first == other || n < 8 || n > 30 {
		t.Errorf("\n%s\n%s\n%s", first, again, other)
	}
}

func TestFaultFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults.yaml")
	for content, want := range map[string]string{
		"- {method: PUT, path: rt$, status: 429, retryAfter: 5}\n- {fail: true, rate: 0.5, seed: " +
			"7, count: -1}\n": "",
		`[{"slow": 30}]`:           "",
		"- {stats: 429}\n":         "stats",
		"- {status: 42}\n":         "fault 1: 42 is not a status",
		"- {slow: 1}\n- {}\n":      "fault 2: a fault needs",
		"- {slow: 1, rate: 2}\n":   "rate",
		"- {status: 500, slow: 1}": "starts no operation",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		faults, err := ReadFaults(file)
		if want == "" && (err != nil || len(faults) == 0) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v", content, faults, err)
		}
	}
}

func TestClusterThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{})
		b.put(aksID, clusterBody(``, ``))
		for range 60 {
			b.get(aksID)
		}
		b.refused(http.MethodGet, aksID, "", 429, "TooManyRequests")
		b.get(rt)
		time.Sleep(time.Second)
		b.get(aksID)
	})
}
