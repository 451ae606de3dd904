package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

const (
	group   = arm.ID("/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg")
	cluster = group + "/providers/Microsoft.ContainerService/managedClusters/Shop"
	policy  = group + "/providers/Microsoft.Network/firewallPolicies/hub"
	ipGroup = group + "/providers/Microsoft.Network/ipGroups/shops"
	vnet    = group + "/providers/Microsoft.Network/virtualNetworks/shop-vnet"
)

func full(t testing.TB) Bundle {
	s := inventory.NewSnapshot()
	s.Taken = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s.Listed, s.InterfacesOf = []arm.ID{group}, []arm.ID{group}
	for _, raw := range []string{
		`{"id":"` + string(cluster) +
			`","etag":"e1","location":"westeurope","tags":{"owner":"tell no one","aks-managed":"yes"},"properties":{"networkProfile":{"networkPlugin":"kubenet","podCidr":"10.244.0.0/16"},
			"windowsProfile":{"adminPassword":"hunter2"},"servicePrincipalProfile":{"clientId":"msi","secret":"hunter3"},"linuxProfile":{"ssh":{"publicKeys":[{"keyData":"ssh-rsa hunter4"}]}},"x":{"tokens":["hunter5"]},
			"httpProxyConfig":{"httpProxy":"http://me:hunter6@proxy:3128","noProxy":["10.0.0.0/8"]},"agentPoolProfiles":[{"name":"np","tags":{"owner":"hunter7"}}],
			"addonProfiles":{"a":{"enabled":true,"config":{"workspaceKey":"hunter8","applicationGatewayId":"` + string(group) + `/providers/Microsoft.Network/applicationGateways/agw"}}},"weight":12345678901234567890}}`,
		`{"id":"` + string(vnet) +
			`","properties":{"addressSpace":{"addressPrefixes":["10.42.0.0/16"]},"subnets":[{"id":"` + string(vnet) + `/subnets/nodes","properties":{"addressPrefix":"10.42.1.0/24"}}]}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Network/virtualNetworks/far/subnets/alone","properties":{"addressPrefix":"10.9.0.0/24"}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Network/routeTables/rt","etag":"e2","properties":{"routes":[{"name":"a","properties":{"addressPrefix":"10.244.0.0/24","nextHopType":"VirtualAppliance","nextHopIpAddress":"10.42.1.4"}}]}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Network/networkSecurityGroups/nsg","properties":{}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Network/applicationGateways/agw","properties":{"operationalState":"Running","rewriteRuleSets":[{"headerValue":"Basic hunter9"}],"redirectConfigurations":[{"targetUrl":"https://x/?sig=hunter10"}]}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Network/networkInterfaces/nic","properties":{"enableIPForwarding":true}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Authorization/locks/l","properties":{"level":"ReadOnly"}}`,
		`{"id":"` + string(group) +
			`/providers/Microsoft.Network/azureFirewalls/fw","properties":{` +
			`"ipConfigurations":[{"properties":{"privateIPAddress":"10.42.3.4"}}],` +
			`"firewallPolicy":{"id":"` + string(policy) + `"}}}`,
		`{"id":"` + string(policy) + `","properties":{"basePolicy":{"id":"` + string(policy) +
			`2"},` +
			`"transportSecurity":{"certificateAuthority":{"keyVaultSecretId":"hunter11"}}}}`,
		`{"id":"` + string(policy) + `/ruleCollectionGroups/g","properties":{"priority":100,` +
			`"ruleCollections":[{"priority":1,"action":{"type":"Allow"},"rules":[{"ruleType":` +
			`"ApplicationRule","name":"r","targetUrls":["a.b/?sig=hunter12"],"targetFqdns":["a.b"],` +
			`"sourceIpGroups":["` + string(ipGroup) + `"],"protocols":[{"port":443}]}]}]}}`,
		`{"id":"` + string(ipGroup) + `","tags":{"a":"hunter13"},"properties":{"ipAddresses":[` +
			`"10.42.0.0/16"]}}`,
		`{"id":"` + string(cluster) +
			`/providers/Microsoft.KubernetesConfiguration/extensions/flux",` +
			`"properties":{"extensionType":"microsoft.flux","configurationSettings":{"a":"hunter14"},` +
			`"customLocationSettings":{"b":"hunter15"}}}`,
	} {
		if err := s.Add([]byte(raw)); err != nil {
			t.Fatal(err)
		}
	}
	s.Unread[vnet.Key()] = inventory.Unread{ID: vnet, Status: 403, Code: "AuthorizationFailed",
		Message: "no"}
	s.CallerRights[group.Key()] = inventory.Rights{Permissions: []inventory.Permission{
		{Actions: []string{"*"}}}}
	s.Rights["p"] = map[string]inventory.Rights{group.Key(): {Roles: []string{"Reader"}}}
	s.Caller = "me"
	s.Writers[vnet.Key()] = inventory.Writer{Line: "ann@example.com"}
	s.NoteFormer(vnet, inventory.Former{Property: inventory.PropertyNAT, Value: "/n",
		How: "the log"})
	s.Kubernetes[cluster.Key()] = &inventory.Kubernetes{
		Nodes: []inventory.Node{
			{Name: "n", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}},
		Pods: []inventory.Pod{}}
	k := s.Learn(cluster)
	k.LogRead, k.Written, k.LogNext, k.ManagedRead = true, []arm.ID{vnet}, []string{"next"}, true
	k.NICs = &inventory.NICs{Holder: map[netip.Addr]string{netip.MustParseAddr("10.42.1.4"): "nic"}}
	s.Egress.ExtensionsOf = []arm.ID{cluster}
	s.Egress.Unread[policy.Key()+"2"] = "403"
	config := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind}
	config.Metadata.Name, config.Spec.ClusterID = "shop", string(cluster)
	return Bundle{Snapshot: s, Program: "test", Clusters: []arm.ID{cluster},
		Configs: []v1alpha1.ClusterRoutes{config}, Proposed: true}
}

func pack(t testing.TB, b Bundle) []byte {
	var out bytes.Buffer
	if err := Write(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// plain takes the bytes of documents out of a snapshot: they come back laid out in another way.
func plain(t testing.TB, s *inventory.Snapshot) string {
	t.Helper()
	text, err := json.Marshal(struct {
		A, B, C, D, E, F, G, H, I, J, K, L, M any
	}{s.Clusters, s.VNets, s.Subnets, s.Tables, s.SecurityGroups, s.Gateways, s.Interfaces, s.Locks,
		s.Unread, s.Kubernetes, s.Known(cluster), []any{s.Caller, s.CallerRights, s.Rights,
			s.Writers, s.Former,
			s.Listed, s.InterfacesOf, s.Taken}, s.Egress})
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "Raw")
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(all)
	if text, err = json.MarshalIndent(all, "", " "); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRoundTrip(t *testing.T) {
	b := full(t)
	data := pack(t, b)
	if !bytes.Equal(data, pack(t, b)) {
		t.Error("the same bundle gives other bytes")
	}
	got, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if want, got := plain(t, b.Snapshot), plain(t, got.Snapshot); want != got {
		t.Errorf("the snapshot came back as\n%s\nwant\n%s", got, want)
	}
	got.Snapshot = b.Snapshot
	if !reflect.DeepEqual(got, b) {
		t.Errorf("%+v\n%+v", got, b)
	}
}

func TestNoSecrets(t *testing.T) {
	unpacked, err := gzip.NewReader(bytes.NewReader(pack(t, full(t))))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hunter", "tell no one"} {
		if strings.Contains(string(all), secret) {
			t.Errorf("%q is in the bundle", secret)
		}
	}
	for _, part := range []string{`"aks-managed": "yes"`, `"clientId": "msi"`,
		`12345678901234567890`, `"adminPassword": "(removed)"`, `"10.0.0.0/8"`,
		`"extensionType": "microsoft.flux"`, `"10.42.0.0/16"`,
		`"applicationGatewayId": "/subscriptions/`, `"operationalState": "Running"`} {
		if !strings.Contains(string(all), part) {
			t.Errorf("%s is not in the bundle", part)
		}
	}
}

func archive(files ...string) []byte {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	a := tar.NewWriter(compressed)
	for i := 0; i < len(files); i += 2 {
		_ = a.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o600})
		_, _ = io.WriteString(a, files[i+1])
	}
	a.Close()
	compressed.Close()
	return out.Bytes()
}

func TestReadRefuses(t *testing.T) {
	good := pack(t, full(t))
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"text":    {[]byte("kind: ClusterRoutes"), "not a .tgz file"},
		"cut off": {good[:len(good)/2], "cut off"},
		"empty":   {archive(), "no manifest.json"},
		"other format": {archive("manifest.json", `{"format":2,"program":"v9"}`),
			"manifest.json: format 2, expected 1: it was written by routekeeper v9"},
		"no JSON": {archive("manifest.json", `{`), "manifest.json: unexpected EOF"},
		"bad document": {archive("manifest.json", `{"format":1}`, "arm/x.json", `{"id":"x"}`),
			"arm/x.json: id"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(bytes.NewReader(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line with %q", err, tt.want)
			}
		})
	}
	if _, err := Read(bytes.NewReader(archive("manifest.json", `{"format":1}`, "later/thing.json",
		`?`))); err != nil {
		t.Errorf("a file of a later program: %v", err)
	}
}

// TestBombs: what unpacks to more than a bundle has is refused before it is all in memory, and a
// second manifest too.
func TestBombs(t *testing.T) {
	const manifest = `{"format":1}`
	zeros := strings.Repeat("\x00", maxFile)
	for name, tt := range map[string]struct {
		files []string
		want  string
	}{
		"total": {[]string{"manifest.json", manifest, "a", zeros, "b", zeros, "c", zeros, "d",
			zeros},
			"unpacks to more than 256 MiB"},
		"file":      {[]string{"manifest.json", manifest, "a", zeros + "x"}, "larger than 64 MiB"},
		"manifests": {[]string{"manifest.json", manifest, "./manifest.json", manifest}, "second"},
	} {
		if _, err := Read(bytes.NewReader(archive(tt.files...))); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":1,"clusters":["/subscriptions/x"]}`),
		[]byte(`{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/t","properties":{}}`))
	f.Fuzz(func(t *testing.T, manifest, document []byte) {
		b, err := Read(bytes.NewReader(archive("manifest.json", string(manifest), "arm/x.json",
			string(document), "kubernetes/x.json", string(document))))
		if err == nil {
			pack(t, b) // what can be read can be written
		}
	})
}
