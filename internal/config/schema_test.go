package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// TestSchemaHasTheFields: the schemas for editors name exactly the fields that the structs have.
func TestSchemaHasTheFields(t *testing.T) {
	var compare func(path string, schema map[string]any, typ reflect.Type)
	compare = func(path string, schema map[string]any, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer:
			compare(path, schema, typ.Elem())
		case reflect.Slice:
			compare(path+"[]", schema["items"].(map[string]any), typ.Elem())
		case reflect.Struct:
			properties := schema["properties"].(map[string]any)
			var fields []string
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				fields = append(fields, name)
				property, ok := properties[name].(map[string]any)
				if !ok {
					t.Errorf("%s.%s is not in the schema", path, name)
					continue
				}
				compare(path+"."+name, property, typ.Field(i).Type)
			}
			for name := range properties {
				if !slices.Contains(fields, name) {
					t.Errorf("%s.%s is in the schema only", path, name)
				}
			}
			if schema["additionalProperties"] != false {
				t.Errorf("%s: the schema takes unknown fields", path)
			}
		}
	}
	for typ, text := range map[reflect.Type][]byte{
		reflect.TypeFor[v1alpha1.ClusterRoutes](): v1alpha1.Schema,
		reflect.TypeFor[v1alpha1.Cluster]():       v1alpha1.ClusterSchema,
		reflect.TypeFor[v1alpha1.Notify]():        v1alpha1.NotifySchema,
	} {
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		compare(typ.Name(), root, typ)
	}
}

// TestSchemaAgrees: what the program takes the schema takes, and what the schema refuses the
// program refuses.
func TestSchemaAgrees(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(v1alpha1.Schema))
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
	refused := 0
	for _, text := range []string{
		doc("a", ""),
		doc("a", "  routeTableID: \"\"\n  podCIDRs: [10.0.0.0/8, \"fd00::/64\"]\n"),
		doc("a", "  guard:\n    mode: Off\n    onOtherTable: Replace\n    subnets: [{subnetID: "+
			subnets+"x, routeTableID: "+tables+"x}]\n"),
		doc("a", "  targets: [{routeTableID: "+strings.ToUpper(tables)+
			"X/, policy: UpsertOnly, maxRoutes: 1000}]\n"),
		doc("a", "  onRemoval: Prune\n"),
		hub,
		strings.Replace(hub, "spec:", "spec:\n  clusterID: \"\"", 1),
		strings.Replace(egressDoc("a", "x", "Observe", toFirewall), "clusterID: "+cluster+"-a",
			"onRemoval: Keep", 1),
		strings.Replace(doc("a", "  guard: {mode: Observe}\n"), "clusterID: "+cluster+"-a",
			"onRemoval: Keep", 1),
		doc("a", "  onRemoval: Delete\n"),
		doc("a", "  targts: []\n"),
		doc("A", ""),
		doc("a", "  guard: {mode: On}\n"),
		doc("a", "  targets: [{policy: Sync}]\n"),
		doc("a", "  targets: [{routeTableID: rt}]\n"),
		doc("a", "  targets: [{routeTableID: "+subnets+"x}]\n"),
		doc("a", "  targts: []\n"),
		doc("a", "  targets: [{routeTableID: "+tables+"x, maxRoutes: 1.5}]\n"),
		doc("a", "  podCIDRs: 10.0.0.0/8\n"),
		egressDoc("a", "x", "Enforce", toFirewall),
		by("azureFIREWALLS/x"),
		by("loadBalancers/x/"),
		by("loadBalancers/x/frontendIPConfigurations/y"),
		by("loadBalancers/x/backendAddressPools/y"),
		egressDoc("a", "x", "Off", toFirewall),
		egressDoc("a", "x", "Observe", ""),
		egressDoc("a", "x", "Observe", "{addressPrefix: everywhere, nextHopIPAddress: 10.0.1.4}"),
		"kind: ClusterRoutes\n",
	} {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		bySchema := schema.Validate(instance)
		_, byProgram := Read(File{Name: "x", Data: []byte(text)})
		if (bySchema == nil) != (byProgram == nil) {
			t.Errorf("%s\nthe schema says %v\nthe program says %v", text, bySchema, byProgram)
		}
		if bySchema != nil {
			refused++
		}
	}
	if refused != 17 {
		t.Errorf("%d refused, want 17", refused)
	}
}
