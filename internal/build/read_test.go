package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/capacity"
	"routekeeper.dev/routekeeper/internal/config"
)

// head is the beginning of a file, up to the fields under test.
const head = `apiVersion: routekeeper.dev/v1alpha1
kind: Cluster
metadata: {name: shop}
spec:
  subscription: ` + sub + `
  location: westeurope
`

const everything = head + `  blueprint: kubenet
  resourceGroup: shop-net
  kubernetesVersion: "1.33"
  addressSpace: [10.240.0.0/12]
  nodeSubnet: 10.243.0.0/16
  gatewaySubnet: 10.244.0.0/24
  podCIDR: 10.64.0.0/14
  serviceCIDR: 10.0.0.0/16
  pools:
    - {name: system, vmSize: Standard_D8s_v5, count: 5, maxPods: 50, zones: ["1", "2"]}
    - {name: user, minCount: 2, maxCount: 9}
  networkPolicy: calico
  egress: 10.1.0.4
  private: true
  applicationGateway: {minCapacity: 0, maxCapacity: 20}
`

// read reads a file as cluster create does.
func read(text string) (Cluster, error) {
	d, err := config.ReadCluster(config.File{Name: "c.yaml", Data: []byte(text)})
	if err != nil {
		return Cluster{}, err
	}
	return Read(d.Cluster)
}

// TestRead: every field is read into the right place.
func TestRead(t *testing.T) {
	c, err := read(everything)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"shop","subscription":"` + sub + `","resourceGroup":"shop-net",` +
		`"location":"westeurope","blueprint":"kubenet","kubernetesVersion":"1.33",` +
		`"addressSpace":["10.240.0.0/12"],"nodeSubnet":"10.243.0.0/16","gatewaySubnet":"10.244.0.0/24",` +
		`"podCIDR":"10.64.0.0/14","serviceCIDR":"10.0.0.0/16","pools":[{"name":"system",` +
		`"vmSize":"Standard_D8s_v5","count":5,"maxPods":50,"zones":["1","2"]},{"name":"user",` +
		`"vmSize":"Standard_D4s_v5","count":2,"minCount":2,"maxCount":9,"maxPods":110}],` +
		`"networkPolicy":"calico","egress":"10.1.0.4","private":true,` +
		`"applicationGateway":{"minCapacity":0,"maxCapacity":20}}`
	if string(got) != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// TestAutoscaledCount: a pool with autoscaling starts with its count, which the autoscaler changes
// later.
func TestAutoscaledCount(t *testing.T) {
	c, err := read(everything)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Steps() {
		if !s.ID.Equal(c.ClusterID()) {
			continue
		}
		doc := document(t, s, Made{})
		const count = `"count":2,"enableAutoScaling":true,"maxCount":9,"maxPods":110,"minCount":2`
		if !strings.Contains(string(doc.Raw), count) {
			t.Errorf("it does not begin with 2 nodes: %s", doc.Raw)
		}
		doc.Raw = []byte(strings.Replace(string(doc.Raw), `"count":2`, `"count":7`, 1))
		if d := s.Decide(c, &doc, Made{}, false); d.Verb != Keep {
			t.Errorf("%s %+v", d.Verb, d.Differences)
		}
		doc.Raw = []byte(strings.Replace(string(doc.Raw), `"count":5`, `"count":7`, 1))
		if d := s.Decide(c, &doc, Made{}, false); d.Verb != Change || len(d.Differences) != 1 {
			t.Errorf("%s %+v", d.Verb, d.Differences)
		}
		return
	}
	t.Error("no step for the cluster")
}

// TestReadFields: an error names the field whose value is wrong.
func TestReadFields(t *testing.T) {
	for text, want := range map[string]Field{
		"  blueprint: none\n": "blueprint",
		"  blueprint: kubenet\n  addressSpace: [10.240.0.0/12, 10.0.0.0/33]\n":                 "addressSpace[1]",
		"  blueprint: kubenet\n  nodeSubnet: 10.224.0.0\n":                                     fieldNodes,
		"  blueprint: kubenet\n  podSubnet: 10.224.64.0/18\n":                                  fieldPods,
		"  blueprint: pod-subnet\n  podCIDR: 10.64.0.0/16\n":                                   fieldPodCIDR,
		"  blueprint: overlay\n  serviceCIDR: 10.244.0.0/16\n":                                 fieldServices,
		"  blueprint: overlay\n  egress: here\n":                                               fieldEgress,
		"  blueprint: overlay\n  kubernetesVersion: \"2\"\n":                                   "kubernetesVersion",
		"  blueprint: kubenet\n  networkPolicy: cilium\n":                                      "networkPolicy",
		"  blueprint: kubenet\n  applicationGateway: {minCapacity: 9, maxCapacity: 3}\n":       "applicationGateway.maxCapacity",
		"  blueprint: kubenet\n  pools: [{name: a}, {name: a}]\n":                              "pools[1].name",
		"  blueprint: kubenet\n  pools: [{name: a, vmSize: 8-cores}]\n":                        "pools[0].vmSize",
		"  blueprint: kubenet\n  pools: [{name: a, count: -1}]\n":                              "pools[0].count",
		"  blueprint: kubenet\n  pools: [{name: a, minCount: 2}]\n":                            "pools[0].minCount",
		"  blueprint: kubenet\n  pools: [{name: a, maxCount: -2}]\n":                           "pools[0].maxCount",
		"  blueprint: kubenet\n  pools: [{name: a, maxPods: 251}]\n":                           "pools[0].maxPods",
		"  blueprint: kubenet\n  pools: [{name: a, zones: [\"4\"]}]\n":                         "pools[0].zones",
		"  blueprint: kubenet\n  pools: [{name: a, count: 390}]\n":                             "pools[0].count",
		"  blueprint: kubenet\n  pools: [{name: a, minCount: 1, count: 1, maxCount: 390}]\n":   "pools[0].maxCount",
		"  blueprint: kubenet\n  pools: [{name: a, count: 195}, {name: b, count: 195}]\n":      "pools",
		"  blueprint: kubenet\n  resourceGroup: shop/net\n":                                    "resourceGroup",
		"  blueprint: kubenet\n  applicationGateway: {}\n  gatewaySubnet: 10.224.64.0/29\n":    fieldGateway,
		"  blueprint: kubenet\n  addressSpace: [10.224.0.0/28]\n":                              fieldSpace,
		"  blueprint: node-subnet\n  nodeSubnet: 10.224.0.0/24\n  pools: [{name: a}]\n  # x\n": "",
	} {
		_, err := read(head + text)
		var e *Error
		if errors.As(err, &e) != (want != "") || want != "" && e.Field != want {
			t.Errorf("%s: %v, want one for %s", text, err, want)
		}
	}
}

// TestClusterSchemaAgrees: the schema accepts what the program accepts, and the program refuses
// what the schema refuses.
func TestClusterSchemaAgrees(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(v1alpha1.ClusterSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{everything}
	for _, p := range capacity.Plugins() {
		texts = append(texts, head+"  blueprint: "+string(p)+"\n")
	}
	taken := len(texts)
	for _, refused := range []string{
		"", "  blueprint: none\n", "  blueprint: overlay\n  nope: 1\n",
		"  blueprint: overlay\n  private: \"true\"\n", "  blueprint: overlay\n  " +
			"kubernetesVersion: 1.33\n",
		"  blueprint: overlay\n  addressSpace: 10.0.0.0/8\n", "  blueprint: overlay\n  egress: " +
			"firewall\n",
		"  blueprint: overlay\n  podCIDR: fd00::/64\n", "  blueprint: overlay\n  pools: [{count: " +
			"3}]\n",
		"  blueprint: overlay\n  pools: [{name: a, zones: [1]}]\n",
		"  blueprint: overlay\n  pools: [{name: a, count: 1001}]\n",
		"  blueprint: overlay\n  pools: [{name: a, maxPods: 9}]\n",
		"  blueprint: overlay\n  pools: [{name: a, minCount: 2}]\n",
		"  blueprint: overlay\n  applicationGateway: {maxCapacity: 126}\n",
		"  blueprint: overlay\n  applicationGateway: true\n",
	} {
		texts = append(texts, head+refused)
	}
	for i, text := range texts {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		bySchema := schema.Validate(instance)
		_, byProgram := read(text)
		if (bySchema == nil) != (i < taken) || (byProgram == nil) != (i < taken) {
			t.Errorf("%s\nthe schema says %v\nthe program says %v", text, bySchema, byProgram)
		}
	}
}

// FuzzReadCluster: every text is refused in one line, or gives steps.
func FuzzReadCluster(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(head + "  blueprint: pod-subnet\n"))
	f.Add([]byte(head + "  blueprint: overlay\n---\nkind: Cluster\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := config.ReadCluster(config.File{Name: "c.yaml", Data: data})
		if err == nil {
			var c Cluster
			if c, err = Read(d.Cluster); err == nil {
				if len(c.Steps()) == 0 || !strings.EqualFold(c.Subscription, d.Spec.Subscription) {
					t.Fatalf("taken: %+v", c)
				}
				return
			}
			e, is := err.(*Error)
			if !is || e.Field == "" {
				t.Fatalf("no field: %v", err)
			}
			name := func(f Field) string { return "spec." + string(f) }
			err = d.Fault(name(e.Field), e.Problem(name))
		}
		if strings.ContainsAny(err.Error(), "\n\r") {
			t.Fatalf("more than one line: %q", err)
		}
	})
}
