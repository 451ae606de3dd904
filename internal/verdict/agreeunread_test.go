package verdict_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/trace"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// unread are damages to what a keeper does not read (docs/page.md).
var unread = []damage{
	{"a security group denies pods", func(f *fleet, cluster string, _ int) {
		group := f.id(cluster, "Microsoft.Network/networkSecurityGroups", "-nsg")
		f.put(group, map[string]any{"location": "westeurope", "properties": map[string]any{
			"securityRules": []any{map[string]any{"name": "no-pods", "properties": map[string]any{
				"access": "Deny", "direction": "Inbound", "priority": 100, "protocol": "*",
				"sourceAddressPrefix": "10.244.0.0/15", "destinationAddressPrefix": "*",
				"sourcePortRange": "*", "destinationPortRange": "*"}}}}})
		f.change(f.subnet(cluster, "nodes"), func(p map[string]any) {
			p["networkSecurityGroup"] = map[string]any{"id": string(group)}
		})
	}},
	{"IP forwarding is off on the nodes", func(f *fleet, cluster string, _ int) {
		doc, err := f.do.Get(f.id(cluster, arm.TypeCluster, ""), "2024-09-01")
		if err != nil {
			f.Fatal(err)
		}
		at := arm.GroupID(f.id(cluster, arm.TypeCluster, "").Subscription(),
			doc["properties"].(map[string]any)["nodeResourceGroup"].(string)) +
			"/providers/Microsoft.Compute/virtualMachineScaleSets"
		sets, err := f.do.Get(at, "2024-07-01")
		if err != nil {
			f.Fatal(err)
		}
		set := sets["value"].([]any)[0].(map[string]any)
		id := arm.ID(set["id"].(string))
		nics := set["properties"].(map[string]any)["virtualMachineProfile"].(map[string]any)["networkProfile"].(map[string]any)["networkInterfaceConfigurations"].([]any)
		nics[0].(map[string]any)["properties"].(map[string]any)["enableIPForwarding"] = false
		if err := f.do.Put(id, "2024-07-01", set); err != nil {
			f.Fatal(err)
		}
		status, body := f.do.Do(http.MethodPost, id+"/manualupgrade", "2024-07-01",
			[]byte(`{"instanceIds":["*"]}`))
		if status >= 300 {
			f.Fatalf("%d %s", status, body)
		}
	}},
}

// TestAgreeUnread breaks clusters by what a keeper does not read. A diagnosis does, and agrees with
// the trace; the keeper's surfaces agree with each other.
func TestAgreeUnread(t *testing.T) {
	t.Parallel()
	for i, d := range unread {
		on := shops[10+i]
		synctest.Test(t, func(t *testing.T) {
			testAgreeUnread(newFleet(t, "shop-05", on, "shop-24"), d, on)
		})
	}
}

func testAgreeUnread(f *fleet, d damage, on string) {
	f.Helper()
	d.do(f, on, 0)
	s := f.survey()
	told := f.doctor(s)
	for _, text := range f.against(trace.New(s, trace.Options{}), told) {
		f.Errorf("%s: by doctor, %s", d.name, text)
	}
	at := slices.IndexFunc(told, func(v verdict.Verdict) bool { return v.Cluster == on })
	if v := told[at]; v.State != verdict.Broken || v.Cause == nil || v.CutOff == 0 {
		f.Errorf("%s: %s is %s by %+v, %d nodes cut off: %s", d.name, on, v.State, v.Cause,
			v.CutOff, v.Sentence)
	}
	r := f.check()
	for surface, states := range f.surfaces(r) {
		if v := r.Verdicts[at]; states[on] != v.State {
			f.Errorf("%s is %s, and %s says %q", on, v.State, surface, states[on])
		}
	}
}

// change changes the properties of a resource.
func (f *fleet) change(id arm.ID, how func(map[string]any)) {
	f.Helper()
	doc, err := f.do.Get(id, "2024-05-01")
	if err != nil {
		f.Fatal(err)
	}
	how(doc["properties"].(map[string]any))
	f.put(id, doc)
}
