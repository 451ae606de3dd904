package v1alpha1

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the generated file instead of comparing it")

type object = map[string]any

// TestCRD: clusterroutes.crd.yaml is what the schemas say. go test ./api/v1alpha1 -update writes
// it.
func TestCRD(t *testing.T) {
	const path = "clusterroutes.crd.yaml"
	text, err := yaml.Marshal(definition(t))
	if err != nil {
		t.Fatal(err)
	}
	want := append([]byte("# Generated: go test ./api/v1alpha1 -update\n"), text...)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(bytes.ReplaceAll(CRD, []byte("\r\n"), []byte("\n")), want) {
		t.Errorf("%s is old: go test ./api/v1alpha1 -update", path)
	}
}

// TestStatusSchemaHasTheFields: the schema of the status names exactly the fields of the structs.
// The API server drops all others.
func TestStatusSchemaHasTheFields(t *testing.T) {
	var compare func(path string, schema object, typ reflect.Type)
	compare = func(path string, schema object, typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer:
			compare(path, schema, typ.Elem())
		case reflect.Slice:
			compare(path+"[]", schema["items"].(object), typ.Elem())
		case reflect.Struct:
			var fields []string
			properties := schema["properties"].(object)
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				fields = append(fields, name)
				if property, ok := properties[name].(object); ok {
					compare(path+"."+name, property, typ.Field(i).Type)
				}
			}
			slices.Sort(fields)
			if have := slices.Sorted(maps.Keys(properties)); !slices.Equal(have, fields) {
				t.Errorf("%s: the schema has %v, the struct %v", path, have, fields)
			}
		}
	}
	compare("status", decoded(t, StatusSchema), reflect.TypeFor[Status]())
}

// definition makes the CustomResourceDefinition.
func definition(t *testing.T) object {
	schema := decoded(t, Schema)
	written := schema["properties"].(object)["spec"].(object)
	spec := structural(written, schema["$defs"].(object)).(object)
	constrain(spec)
	field(spec, "guard", "subnets")["items"].(object)["x-kubernetes-validations"] = []object{
		oneRequired(field(written, "guard", "subnets")["items"].(object), "nothing to guard")}
	column := func(name, kind, path, about string) object {
		return object{"name": name, "type": kind, "jsonPath": path, "description": about}
	}
	condition := func(name, about string) object {
		return column(name, "string", `.status.conditions[?(@.type=="`+name+`")].status`, about)
	}
	cluster := column("Cluster", "string", ".spec.clusterID", "The AKS cluster.")
	cluster["priority"] = 1 // kubectl get -o wide
	why := column("Error", "string", ".status.lastError", "The worst finding that is an error.")
	why["priority"] = 1
	by := column("Controller", "string", ".status.controller", "The controller that manages it.")
	by["priority"] = 1
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": "clusterroutes.routekeeper.dev"},
		"spec": object{
			"group": "routekeeper.dev", "scope": "Namespaced",
			"names": object{"kind": Kind, "listKind": Kind + "List", "plural": "clusterroutes",
				"singular": "clusterroutes", "shortNames": []string{"croutes"}},
			"versions": []object{{
				"name": "v1alpha1", "served": true, "storage": true,
				"subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{
					"type": "object", "required": []string{"spec"},
					"description": schema["description"],
					"properties": object{
						"apiVersion": object{"type": "string"}, "kind": object{"type": "string"},
						"metadata": object{"type": "object", "properties": object{"name": object{
							"type": "string", "maxLength": 63, // it is a label: no dots
							"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}}},
						"spec":   spec,
						"status": decoded(t, StatusSchema),
					},
				}},
				"additionalPrinterColumns": []object{
					condition(ConditionReady, "Whether no finding is an error."),
					condition(ConditionGuarded, "Whether the subnets have what they must have, "+
						"and what one loses is put back."),
					condition(ConditionSynced, "Whether the targets have the pod routes."),
					column("Routes", "string", ".status.routes",
						"Correct and expected routes in all targets."),
					column("Changed", "date", ".status.lastChange.time", "The last change."),
					column("Age", "date", ".metadata.creationTimestamp", "The age of the object."),
					cluster, why, by,
				},
			}},
		},
	}
}

// structural turns a JSON Schema into the structural schema that a CustomResourceDefinition needs:
// references are replaced by what they name, and unknown fields are the API server's affair.
func structural(node any, defs object) any {
	switch n := node.(type) {
	case []any:
		out := make([]any, len(n))
		for i := range n {
			out[i] = structural(n[i], defs)
		}
		return out
	case object:
		out := object{}
		for key, value := range n {
			switch key {
			case "additionalProperties":
			case "$ref":
				name := value.(string)[len("#/$defs/"):]
				maps.Copy(out, structural(defs[name], defs).(object))
			case "anyOf": // "" or a reference; of required fields, see constrain
				if n["properties"] != nil {
					continue
				}
				table := structural(value.([]any)[1], defs).(object)
				out["type"], out["pattern"] = "string", "^$|"+table["pattern"].(string)
			case "enum":
				out["type"], out[key] = "string", value
			default:
				out[key] = structural(value, defs)
			}
		}
		if out["type"] == "object" && out["required"] == nil && n["anyOf"] == nil &&
			out["properties"] != nil {
			out["default"] = object{} // so that the defaults inside it are filled in
		}
		return out
	}
	return node
}

// field returns the schema of a field.
func field(parent object, names ...string) object {
	for _, name := range names {
		parent = parent["properties"].(object)[name].(object)
	}
	return parent
}

// oneRequired returns the rule that an object needs one of the fields that its schema names in
// anyOf: a structural schema may not require fields there.
func oneRequired(schema object, problem string) object {
	var has, names []string
	for _, one := range schema["anyOf"].([]any) {
		name := one.(object)["required"].([]any)[0].(string)
		has, names = append(has, "has(self."+name+")"), append(names, name)
	}
	last := len(names) - 1
	return object{"rule": strings.Join(has, " || "), "message": problem + ", expected " +
		strings.Join(names[:last], ", ") + " or " + names[last]}
}

// constrain adds what the API server can check and the JSON Schema for editors does not say.
func constrain(spec object) {
	rules := func(rules ...object) []object { return rules }
	const longestID = 1024
	const ofAKS = "matches('(?i)/aks-agentpool-[0-9]{8}-routetable/*$')"
	field(spec, "clusterID")["maxLength"] = longestID
	field(spec, "clusterID")["x-kubernetes-validations"] = rules(object{
		"rule": "self.lowerAscii() == oldSelf.lowerAscii()", "message": "clusterID cannot be " +
			"changed: delete the object, and create one for the other cluster"})
	field(spec, "routeTableID")["maxLength"] = longestID
	cidrs := field(spec, "podCIDRs")
	cidrs["maxItems"] = 16
	cidrs["items"].(object)["maxLength"] = 43
	cidrs["items"].(object)["x-kubernetes-validations"] = rules(object{
		"rule":    "isCIDR(self) && cidr(self) == cidr(self).masked()",
		"message": "not a prefix without host bits, expected one such as 10.244.0.0/16"})
	for _, list := range []object{field(spec, "guard", "subnets"), field(spec, "targets")} {
		list["maxItems"] = 64
		list["x-kubernetes-list-type"] = "map"
		items := list["items"].(object)
		key := items["required"].([]any)[0].(string)
		list["x-kubernetes-list-map-keys"] = []any{key} // it distinguishes upper and lower case
		list["x-kubernetes-validations"] = rules(object{
			"rule": "self.all(a, self.exists_one(b, " +
				"a." + key + ".lowerAscii() == b." + key + ".lowerAscii()))",
			"message": "the same " + key + " twice, in upper and lower case"})
		for _, property := range items["properties"].(object) {
			if p := property.(object); p["pattern"] != nil {
				p["maxLength"] = longestID
			}
		}
	}
	egress := field(spec, "egress")
	field(egress, "routeTableID")["maxLength"] = longestID
	field(egress, "firewallID")["maxLength"] = longestID
	field(egress, "firewallID")["x-kubernetes-validations"] = rules(object{
		"rule": "self.matches('(?i)/(azureFirewalls|loadBalancers(/[^/]+/" +
			"frontendIPConfigurations)?)/[^/]+/*$')",
		"message": "expected the ID of an Azure Firewall, a load balancer, or one of its front " +
			"ends"})
	routes := field(egress, "routes")
	routes["maxItems"] = 16
	for name, longest := range map[string]int{"addressPrefix": 43, "nextHopIPAddress": 39} {
		routes["items"].(object)["properties"].(object)[name].(object)["maxLength"] = longest
	}
	routes["items"].(object)["x-kubernetes-validations"] = rules(object{
		"rule": "has(self.nextHopIPAddress) == (self.nextHopType == 'VirtualAppliance')",
		"message": "expected nextHopIPAddress with nextHopType VirtualAppliance, and only with " +
			"it"})
	field(spec, "targets")["items"].(object)["x-kubernetes-validations"] = rules(object{
		"rule": "!self.routeTableID." + ofAKS,
		"message": "a target must not be a table that AKS keeps for a cluster: routekeeper " +
			"never writes a cluster's route table",
		"fieldPath": ".routeTableID"})
	spec["x-kubernetes-validations"] = rules(object{
		"rule": "has(self.clusterID) == has(oldSelf.clusterID)", "message": "clusterID cannot be " +
			"added or removed: delete the object, and create another one"}, object{
		"rule": "has(self.clusterID) || has(self.egress) || has(self.guard) && " +
			"has(self.guard.subnets) && self.guard.subnets.size() > 0",
		"message": "without clusterID, expected guard.subnets or egress"}, object{
		"rule": "has(self.clusterID) || !has(self.targets) && !has(self.routeTableID) && " +
			"!has(self.podCIDRs) && self.source != 'Nodes' && self.onRemoval != 'Prune'",
		"message": "without clusterID, targets, routeTableID, podCIDRs, source: Nodes and " +
			"onRemoval: Prune have no meaning"}, object{
		"rule": "has(self.clusterID) || !has(self.guard) || !has(self.guard.subnets) || " +
			"self.guard.subnets.all(s, !has(s.routeTableID) || !s.routeTableID." + ofAKS + ")",
		"message": "without clusterID, no subnet can be guarded for a table that AKS made for a " +
			"cluster: it ends with kubenet",
		"fieldPath": ".guard.subnets"}, object{
		"rule": "!has(self.routeTableID) || !has(self.targets) || self.targets.all(t, " +
			"t.routeTableID.lowerAscii() != self.routeTableID.lowerAscii())",
		"message":   "a target must not be the cluster's route table",
		"fieldPath": ".targets"})
}

func decoded(t *testing.T, text []byte) object {
	var out object
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
