package azure_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// TestAlertResources: they are created if they do not exist, listed to the last page, and deleted
// if they are the right ones. Nothing else can be created or deleted this way.
func TestAlertResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{PageSize: 2})
		d, err := emulator.BuildDemo(e, emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		c := emulatortest.Client(t, e, emulatortest.Keeper)
		group := d.Cluster.Group()
		in := func(name string) arm.ID {
			return arm.ResourceID(d.Cluster.Subscription(), group.ResourceGroup(),
				arm.TypeActionGroup, name)
		}
		body := []byte(`{"location":"Global","properties":{"groupShortName":"x"}}`)
		for i := range 5 {
			doc, err := c.CreateAlertResource(t.Context(), in(fmt.Sprint("g", i)), body)
			if err != nil || !strings.Contains(string(doc.Raw), `"groupShortName":"x"`) {
				t.Fatal(err, string(doc.Raw))
			}
		}
		if all, err := c.AlertResources(t.Context(), []arm.ID{group}); err != nil || len(all) != 5 {
			t.Errorf("%v: %d of 5", err, len(all))
		}
		if _, err := c.CreateAlertResource(t.Context(), in("g0"), body); err == nil ||
			!strings.Contains(err.Error(), "in the meantime") {
			t.Errorf("what is there is made again: %v", err)
		}
		if err := c.DeleteAlertResource(t.Context(), in("g0"), func(arm.Document) error {
			return errors.New("not this one")
		}); err == nil || err.Error() != "not this one" {
			t.Errorf("%v", err)
		}
		for range 2 { // a second delete is fine
			if err := c.DeleteAlertResource(t.Context(), in("g0"),
				func(arm.Document) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		if all, err := c.AlertResources(t.Context(), []arm.ID{group}); err != nil || len(all) != 4 {
			t.Errorf("%v: %d of 4", err, len(all))
		}
		for _, id := range []arm.ID{d.GatewayTable, d.NodeSubnet, d.Cluster, group} {
			if _, err := c.CreateAlertResource(t.Context(), id+"x", body); err == nil {
				t.Errorf("%s is made", id)
			}
			if err := c.DeleteAlertResource(t.Context(), id, func(arm.Document) error {
				return nil
			}); err == nil {
				t.Errorf("%s is deleted", id)
			}
		}
		if _, err := c.AlertResources(t.Context(), []arm.ID{group + "x"}); err == nil ||
			!strings.Contains(err.Error(), "az group create") {
			t.Errorf("a group that is not there: %v", err)
		}
		// A lost answer, or a request to wait, does not make the client give up.
		for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
			for _, method := range []string{http.MethodPut, http.MethodDelete} {
				if _, err := e.Inject(emulator.Fault{Method: method, Path: "actionGroups/again",
					Count: 1, Status: status}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.CreateAlertResource(t.Context(), in("again"), body); err != nil {
				t.Error(err)
			}
			if err := c.DeleteAlertResource(t.Context(), in("again"),
				func(arm.Document) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		for _, f := range e.Faults() {
			if f.Fired != 1 {
				t.Errorf("%s %d happened %d times", f.Method, f.Status, f.Fired)
			}
		}
		// A new resource does not appear at once.
		if _, err := e.Inject(emulator.Fault{Method: http.MethodGet, Path: "actionGroups/late",
			Count: 3, Status: http.StatusNotFound}); err != nil {
			t.Fatal(err)
		}
		if doc, err := c.CreateAlertResource(t.Context(), in("late"), body); err != nil ||
			doc.ID.Name() != "late" {
			t.Error(err, doc.ID)
		}
	})
}
