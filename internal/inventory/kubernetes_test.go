package inventory

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// aksNode is a kubenet node as AKS shows it, cut down.
const aksNode = `{"apiVersion":"v1","kind":"Node","metadata":{"creationTimestamp":"2026-05-04T09:12:44Z","labels":{"agentpool":"old","kubernetes.azure.com/agentpool":"nodepool1","kubernetes.azure.com/mode":"system"},
"name":"aks-nodepool1-12355964-vmss000001","resourceVersion":"77"},"spec":{"podCIDR":"10.244.1.0/24","podCIDRs":["10.244.1.0/24","fd12:3456:789a:1::/64"],
"providerID":"azure:///subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/mc_shop-rg_shop_westeurope/providers/Microsoft.Compute/virtualMachineScaleSets/aks-nodepool1-12355964-vmss/virtualMachines/1"},
"status":{"addresses":[{"address":"10.42.1.5","type":"InternalIP"},{"address":"fd00::5","type":"InternalIP"},{"address":"20.1.2.3","type":"ExternalIP"},{"address":"aks-nodepool1-12355964-vmss000001","type":"Hostname"}],
"conditions":[{"lastTransitionTime":"2026-05-04T09:13:02Z","message":"RouteController failed to create a route","reason":"NoRouteCreated","status":"True","type":"NetworkUnavailable"},
{"lastTransitionTime":null,"status":"True","type":"Ready"}],"images":[{"names":["a"]}]}}`

const aksPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"coredns-1","namespace":"kube-system"},"spec":{"nodeName":"aks-nodepool1-12355964-vmss000001","containers":[]},
"status":{"phase":"Running","hostIP":"10.42.1.5","podIP":"10.244.1.7","podIPs":[{"ip":"10.244.1.7"},{"ip":"fd12:3456:789a:1::7"}]}}`

func TestDecodeNode(t *testing.T) {
	want := Node{
		Name: "aks-nodepool1-12355964-vmss000001", Pool: "nodepool1", Ready: true,
		Created: time.Date(2026, 5, 4, 9, 12, 44, 0, time.UTC),
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"),
			netip.MustParsePrefix("fd12:3456:789a:1::/64")},
		Addresses:  []netip.Addr{netip.MustParseAddr("10.42.1.5"), netip.MustParseAddr("fd00::5")},
		ProviderID: "azure:///subscriptions/5ab00000-0000-4000-8000-000000000001/resourceGroups/mc_shop-rg_shop_westeurope/providers/Microsoft.Compute/virtualMachineScaleSets/aks-nodepool1-12355964-vmss/virtualMachines/1",
		NetworkUnavailable: &Condition{
			True: true, Reason: "NoRouteCreated", Message: "RouteController failed to create a " +
				"route", Since: time.Date(2026, 5, 4, 9, 13, 2, 0, time.UTC),
		},
	}
	// as in the API's own lists
	bare := strings.Replace(aksNode, `"apiVersion":"v1","kind":"Node",`, "", 1)
	for name, raw := range map[string]string{
		"alone":          aksNode,
		"kubectl's list": `{"apiVersion":"v1","kind":"List","items":[` + aksNode + `]}`,
		"the API's list": `{"apiVersion":"v1","kind":"NodeList","metadata":{"continue":"x"},"items":[` + bare + `]}`,
		"with a BOM":     "\xef\xbb\xbf" + aksNode,
	} {
		nodes, err := DecodeNodes([]byte(raw))
		if err != nil || len(nodes) != 1 || !reflect.DeepEqual(nodes[0], want) {
			t.Errorf("%s: %+v, %v", name, nodes, err)
		}
	}
	if id := want.Machine(); id.Group().Name() != "mc_shop-rg_shop_westeurope" || id.Name() != "1" {
		t.Errorf("its machine is %s", id)
	}
	for _, other := range []string{"", "aws:///eu-west-1a/i-0abc", "azure://subscriptions/x",
		"azure:///subscriptions/../x"} {
		if id := (Node{ProviderID: other}).Machine(); id != "" {
			t.Errorf("the machine of %q is %s", other, id)
		}
	}
}

func TestDecodePods(t *testing.T) {
	hosted := `{"kind":"Pod","metadata":{"name":"kube-proxy-a","namespace":"kube-system"},"spec":{"hostNetwork":true,"nodeName":"n"},"status":{"phase":"Running","podIP":"10.42.1.5"}}`
	pending := `{"kind":"Pod","metadata":{"name":"x","namespace":"app"},"spec":{},"status":{"phase":"Pending"}}`
	ended := `{"kind":"Pod","metadata":{"name":"job","namespace":"app"},"spec":{"nodeName":"n"},"status":{"phase":"Succeeded","podIP":"10.244.1.9"}}`
	pods, err := DecodePods([]byte(`{"kind":"List","items":[` +
		strings.Join([]string{hosted, aksPod, pending, ended}, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pods {
		got = append(got, fmt.Sprintf("%s/%s on %q host=%v ended=%v %v", p.Namespace, p.Name,
			p.Node, p.HostNetwork, p.Ended(), p.Addresses))
	}
	want := []string{
		`app/job on "n" host=false ended=true [10.244.1.9]`,
		`app/x on "" host=false ended=false []`,
		`kube-system/coredns-1 on "aks-nodepool1-12355964-vmss000001" host=false ended=false [10.244.1.7 fd12:3456:789a:1::7]`,
		`kube-system/kube-proxy-a on "n" host=true ended=false [10.42.1.5]`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSavedWrong reads files with other content, and expects helpful errors.
func TestSavedWrong(t *testing.T) {
	for name, test := range map[string]struct {
		raw  string
		want []string
	}{
		"pods": {`{"kind":"List","items":[` + aksNode + `,` + aksPod + `]}`,
			[]string{`items[1] "coredns`, "found a Pod"}},
		"other list": {`{"kind":"PodList","items":[]}`,
			[]string{`"PodList"`, "NodeList, List or Node"}},
		"no kind": {`{"items":[]}`, []string{`found ""`}},
		"a table": {"NAME   STATUS   ROLES\naks-1  Ready    <none>\n",
			[]string{"line 1: not JSON"}},
		"YAML":   {"apiVersion: v1\nitems:\n", []string{"line 1: not JSON"}},
		"empty":  {" \n", []string{"it is empty"}},
		"UTF-16": {"\xff\xfe{\x00}\x00", []string{"UTF-16", "PowerShell"}},
		"no name": {`{"kind":"List","items":[{"kind":"Node"}]}`,
			[]string{"items[0]", "metadata.name"}},
		"wrong types": {`{"kind":"List","items":[` + aksNode +
			`,{"kind":"Node","metadata":{"name":7}}]}`, []string{"items[1]", "metadata.name",
			"number"}},
		"no time": {`{"kind":"Node","metadata":{"name":"a","creationTimestamp":"today"}}`,
			[]string{"items[0]", "today"}},
		"az's list": {`[]`, []string{"found array"}},
	} {
		nodes, err := SavedNodes("saved/nodes.json", []byte(test.raw))
		if err == nil || nodes != nil {
			t.Errorf("%s: read %+v", name, nodes)
			continue
		}
		for _, part := range append(test.want, "saved/nodes.json: ", "kubectl get nodes -o json") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
	}
	if _, err := SavedPods("pods.json", []byte(aksNode)); err == nil ||
		!strings.Contains(err.Error(), "kubectl get pods -A -o json") {
		t.Errorf("nodes for pods: %v", err)
	}
}

// TestHolds distinguishes a cluster's nodes from another's.
func TestHolds(t *testing.T) {
	const cluster = `{"id":"/subscriptions/5AB00000-0000-4000-8000-000000000001/resourceGroups/r/providers/Microsoft.ContainerService/managedClusters/shop","properties":{"nodeResourceGroup":"MC_shop-rg_shop_westeurope","fqdn":"Shop-1.hcp.westeurope.azmk8s.io","privateFQDN":"shop-2.privatelink.westeurope.azmk8s.io"}}`
	c, err := DecodeCluster([]byte(cluster))
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := DecodeNodes([]byte(aksNode))
	if err != nil {
		t.Fatal(err)
	}
	other := nodes[0]
	other.ProviderID = strings.Replace(other.ProviderID, "mc_shop", "mc_other", 1)
	twin := nodes[0] // a group of the same name in another subscription
	twin.ProviderID = strings.Replace(twin.ProviderID, "5ab0", "6ab0", 1)
	for name, test := range map[string]struct {
		nodes      []Node
		ours, told bool
	}{
		"none": {nil, false, false}, "ours": {nodes, true, true}, "another's": {[]Node{other},
			false, true}, "a twin's": {[]Node{twin}, false, true},
		"silent": {[]Node{{Name: "x"}}, false, false}, "silent and ours": {
			[]Node{{Name: "x"}, nodes[0]}, true, true},
	} {
		if ours, told := c.Holds(test.nodes); ours != test.ours || told != test.told {
			t.Errorf("%s: %v, %v", name, ours, told)
		}
	}
	for host, want := range map[string]bool{"shop-1.hcp.westeurope.azmk8s.io": true,
		"SHOP-2.privatelink.westeurope.azmk8s.io": true, "": false,
		"hcp.westeurope.azmk8s.io": false} {
		if c.Serves(host) != want {
			t.Errorf("it serves %q: %v", host, !want)
		}
	}
}

// checkDecoded checks what must hold for any decoded list: it is sorted, every object has a name,
// and an object alone decodes as in a list.
func checkDecoded[T any](t *testing.T, raw []byte, kind string, decode func([]byte) ([]T, error),
	compare func(T, T) int, name func(T) string) []T {
	all, err := decode(raw)
	if err != nil {
		if all != nil {
			t.Errorf("%v, and yet %d came back", err, len(all))
		}
		return nil
	}
	if all == nil || !slices.IsSortedFunc(all, compare) {
		t.Errorf("not sorted, or nothing: %v", all)
	}
	if slices.ContainsFunc(all, func(v T) bool { return name(v) == "" }) {
		t.Errorf("one has no name: %v", all)
	}
	var one struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(raw, &one) == nil && one.Kind == kind {
		listed, err := decode(fmt.Appendf(nil, `{"kind":"List","items":[%s]}`, raw))
		if err != nil || !reflect.DeepEqual(listed, all) {
			t.Errorf("in a list it is %v, %v, alone %v", listed, err, all)
		}
	}
	return all
}

func FuzzNodes(f *testing.F) {
	for _, seed := range []string{aksNode, aksPod, `{"kind":"NodeList","items":[` + aksNode +
		`,{"metadata":{"name":"a"}}]}`, `{"kind":"List","items":null}`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, n := range checkDecoded(t, raw, "Node", DecodeNodes, Node.Compare,
			func(n Node) string { return n.Name }) {
			for i, p := range n.PodCIDRs {
				if !p.IsValid() || p != p.Masked() || slices.Contains(n.PodCIDRs[:i], p) {
					t.Errorf("pod CIDR %s of %v", p, n.PodCIDRs)
				}
			}
			if id := n.Machine(); id != "" && !strings.HasPrefix(n.ProviderID, "azure:///") {
				t.Errorf("%q is the machine %s", n.ProviderID, id)
			}
		}
	})
}

func FuzzPods(f *testing.F) {
	for _, seed := range []string{aksPod, aksNode, `{"kind":"PodList","items":[` + aksPod +
		`,{"metadata":{"name":"a","namespace":"b"}}]}`,
		`{"kind":"Pod","metadata":{"name":"a"},"status":{"podIP":"::ffff:10.0.0.1"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range checkDecoded(t, raw, "Pod", DecodePods, Pod.Compare, func(p Pod) string {
			return p.Name
		}) {
			for i, a := range p.Addresses {
				if !a.IsValid() || a.Is4In6() || slices.Contains(p.Addresses[:i], a) {
					t.Errorf("address %s of %v", a, p.Addresses)
				}
			}
		}
	})
}

// TestKubernetesNames: a name that no API server gives is refused in one short line, because it
// would become the name of a route, or a line on a terminal.
func TestKubernetesNames(t *testing.T) {
	for _, name := range []string{"", "a b", "x\n::error::y", "x\x1b[2J", "x\u202e", "$(touch x)",
		"-f", "@x", "x/../y", "X", "x.", strings.Repeat("x", 254), strings.Repeat("\x1b", 1e6)} {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for kind, doc := range map[string]string{
			"Node": `{"kind":"Node","metadata":{"name":` + string(quoted) + `}}`,
			"Pod":  `{"kind":"Pod","metadata":{"namespace":"a","name":` + string(quoted) + `}}`,
			"namespace": `{"kind":"Pod","metadata":{"name":"a","namespace":` + string(quoted) +
				`}}`,
		} {
			if kind == "Node" {
				_, err = DecodeNodes([]byte(doc))
			} else {
				_, err = DecodePods([]byte(doc))
			}
			if empty := kind == "namespace" && name == ""; empty != (err == nil) {
				t.Errorf("%s %.300q: %v", kind, name, err)
			}
			if err != nil &&
				(strings.ContainsAny(err.Error(), "\n\x1b\u202e") || len(err.Error()) > 1000) {
				t.Errorf("%s: %.2000q", kind, err)
			}
		}
	}
	for _, name := range []string{"aks-np-12345678-vmss00000a", "ip-10.0.0.4.internal", "0"} {
		if _, err := DecodeNodes([]byte(`{"kind":"Node","metadata":{"name":"` + name +
			`"}}`)); err !=
			nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
