package clients

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/resources/armresources/v4"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestAzureCLIDemo runs testdata/az/demo.sh: what az reads and writes back is the same afterwards,
// apart from the tag, and the commands of Microsoft's page make a cluster with a pod subnet.
func TestAzureCLIDemo(t *testing.T) {
	az := findAZ(t)
	a := start(t, emulator.Options{
		OperationTime: 20 * time.Millisecond, RouteBatch: 100 * time.Millisecond,
		RouteCache: time.Second, CheckClusterIdentity: true,
	})
	if _, err := emulator.BuildDemo(a.e, emulator.DefaultPrincipal); err != nil {
		t.Fatal(err)
	}
	caller, err := a.e.Client(emulator.DefaultPrincipal)
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[string]string {
		docs := map[string]string{}
		for pages := client(a, armresources.NewClient).NewListPager(nil); pages.More(); {
			page, err := pages.NextPage(a.ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Value {
				docs[*item.ID] = ""
			}
		}
		for id := range docs {
			doc, err := caller.Get(arm.ID(id), "2025-05-01")
			if err != nil {
				t.Fatal(err)
			}
			if arm.ID(id).Is(arm.TypeCluster) { // az writes the defaults of its old api-version
				delete(doc, "sku")
				delete(doc["properties"].(map[string]any)["networkProfile"].(map[string]any),
					"dockerBridgeCidr")
			}
			docs[id] = settled(t, doc)
			if arm.ID(id).Is(arm.TypeVNet) {
				raw, _ := json.Marshal(doc)
				if _, err := inventory.DecodeVNet(raw); err != nil {
					t.Error(err)
				}
			}
		}
		return docs
	}
	before := read()
	out := az(a, "demo.sh", "")
	after := read()
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if after[id] != before[id] {
			t.Errorf("%s was\n\t%s\nand is\n\t%s", id, before[id], after[id])
		}
	}
	for _, want := range []struct{ step, path, value string }{
		{"gateway-subnet", "applicationGatewayIpConfigurations.#", "1"},
		{"tag-shop-vnet", "tags.team", "net"},
		{"tag-gateway", "tags.team", "net"},
		{"tag-cluster", "tags.team", "net"},
		{"tag-all", "#(tags.team!=net)#|#", "0"},
		{"pod-cluster", "provisioningState", "Succeeded"},
		{"pod-cluster", "agentPoolProfiles.0.podSubnetId",
			answered(t, out, "pod-pods").Get("id").String()},
		// az gives the identity a role on the nodes' subnet, and on no other
		{"pod-roles", `#(principalId==` + answered(t, out, "pod-identity").Get(
			"principalId").String() + `)#|#`, "2"},
		{"pod-roles", `#(scope==` + answered(t, out, "pod-nodes").Get("id").String() +
			`).roleDefinitionName`, "Network Contributor"},
	} {
		if got := answered(t, out, want.step).Get(want.path).String(); got != want.value {
			t.Errorf("az answered at step %s: %s is %q, want %q", want.step, want.path, got,
				want.value)
		}
	}
}

// settled is a document without what a tag changes, and what az's models change: they write out
// what is false, and drop what they do not know.
func settled(t *testing.T, doc map[string]any) string {
	t.Helper()
	delete(doc, "tags")
	var strip func(any) any
	strip = func(value any) any {
		switch v := value.(type) {
		case map[string]any:
			for name, inner := range v {
				if v[name] = strip(inner); inner == false || strings.EqualFold(name, "etag") ||
					name == "provisioningState" || name == "notInAnySDK" {
					delete(v, name)
				}
			}
		case []any:
			for i := range v {
				v[i] = strip(v[i])
			}
		}
		return value
	}
	raw, err := json.Marshal(strip(doc))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
