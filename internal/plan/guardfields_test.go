package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestGuardedFields: every field of a guarded subnet is a property in inventory.Properties, so that
// all code that walks these knows it, such as a namespace's scopes.
func TestGuardedFields(t *testing.T) {
	known := []string{"subnetID"}
	for _, property := range inventory.Properties {
		known = append(known, property.Field())
	}
	fields := reflect.TypeFor[v1alpha1.GuardedSubnet]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if !slices.Contains(known, name) {
			t.Errorf("%s is not among inventory.Properties", name)
			continue
		}
		g := v1alpha1.GuardedSubnet{}
		reflect.ValueOf(&g).Elem().Field(i).SetString("x")
		for _, property := range inventory.Properties {
			if has := GuardedValue(g, property) != ""; has != (property.Field() == name) {
				t.Errorf("GuardedValue of %s, with %s only: %t", property, name, has)
			}
		}
	}
}
