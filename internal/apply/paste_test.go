package apply

import (
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedWrites: a write that is refused, and one that was undone.
func TestPastedWrites(t *testing.T) {
	for _, rename := range pastetest.Names() {
		id := arm.ID(rename("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/" +
			"routeTables/shop-rt"))
		group := arm.ID(pastetest.Rename(string(id), rename))
		r := Resource{ID: id, Planned: []plan.Change{{Verb: plan.Create, Resource: id}}}
		_, found := r.failed(t.Context(), azure.Written{}, azure.ErrUndone)
		if len(found) != 1 || found[0].Code != finding.WriteUndone || found[0].Fix == "" {
			t.Errorf("%+v", found)
		}
		for _, fault := range []azure.Error{{Code: "ScopeLocked"},
			{Code: "RequestDisallowedByPolicy"}, {Code: "RequestDisallowedByAzure"},
			{Code: "AuthorizationFailed", Message: "The client does not have authorization to " +
				"perform action 'a'"},
			{Code: "AuthorizationFailed", Message: "The client 'app' with object id '" +
				rename("o1") + "' does not have authorization to perform action 'a' over scope '" +
				string(group) + "' or the scope is invalid."},
		} {
			fault.Method, fault.ID, fault.Status = "PUT", group, 403
			r := Resource{ID: group, Planned: []plan.Change{{Verb: plan.Create, Resource: group}}}
			_, found := r.failed(t.Context(), azure.Written{}, &fault)
			if len(found) != 1 || found[0].Code != finding.WriteRefused || found[0].Fix == "" {
				t.Errorf("%+v", found)
			}
		}
	}
}
