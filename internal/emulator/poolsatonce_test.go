package emulator

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestPoolsAtOnce: as with Terraform, several pools of a cluster are created, scaled and deleted in
// one go, and a deleted pool is Deleting until its operation ends.
func TestPoolsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withNetwork(t, Options{OperationTime: time.Minute, RouteBatch: time.Second})
		time.Sleep(time.Minute)
		b.put(aksID, clusterBody(``, `,"count":1`))
		pools := []arm.ID{aksID.Child("agentPools", "a"), aksID.Child("agentPools", "b"),
			aksID.Child("agentPools", "c")}
		const body = `{"properties":{"count":%d,"vnetSubnetID":"` + string(vnet) + `/subnets/a"}}`
		b.refused(http.MethodPut, pools[0], fmt.Sprintf(body, 1), 409, "OperationNotAllowed")
		state := func(id arm.ID) string {
			return kernel.Text(b.properties(id), "provisioningState")
		}
		for count, doing := range []string{"", "Creating", "Scaling"} {
			if doing == "" {
				continue
			}
			time.Sleep(2 * time.Minute)
			for _, pool := range pools {
				b.put(pool, fmt.Sprintf(body, count))
				time.Sleep(20 * time.Second)
			}
			b.refused(http.MethodPut, pools[1], fmt.Sprintf(body, 5), 409, "OperationNotAllowed")
			b.refused(http.MethodPut, aksID, clusterBody(``, ``), 409, "OperationNotAllowed")
			got := []string{state(pools[0]), state(pools[2]), b.state()}
			if got[0] != "Succeeded" || got[1] != doing || got[2] != "Updating" {
				t.Errorf("%s: %q", doing, got)
			}
		}
		time.Sleep(2 * time.Minute)
		for _, pool := range pools {
			if status, code := b.try(http.MethodDelete, pool, api, ""); status != 202 {
				t.Errorf("DELETE %s: %d %s", pool, status, code)
			}
		}
		profiles := func() int {
			return len(kernel.ListAt(b.properties(aksID), "agentPoolProfiles"))
		}
		if got := state(pools[1]); got != "Deleting" || profiles() != 4 {
			t.Errorf("%s, %d pools", got, profiles())
		}
		b.refused(http.MethodPut, pools[1], fmt.Sprintf(body, 5), 409, "OperationNotAllowed")
		if status, code := b.try(http.MethodDelete, pools[1], api, ""); status != 202 {
			t.Errorf("a second DELETE: %d %s", status, code)
		}
		time.Sleep(2 * time.Minute)
		b.refused(http.MethodGet, pools[1], "", 404, "NotFound")
		if len(b.nodes()) != 1 || profiles() != 1 || b.state() != "Succeeded" {
			t.Errorf("%d nodes, %d pools, %s", len(b.nodes()), profiles(), b.state())
		}
	})
}
