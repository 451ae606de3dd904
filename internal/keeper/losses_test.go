package keeper

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

// TestGuardTableLoses: a route table that lost a guarded subnet is not put back while its routes
// would drop packets of the cluster that have a route now, whether the subnet has no table or
// another one. A finding names the packets. Everything else that the subnet lost is put back, and
// the table, too, once its routes are repaired. Other changes of its routes do not matter.
func TestGuardTableLoses(t *testing.T) {
	for name, test := range map[string]struct {
		route      string // in the table that the subnet must have
		other      bool   // the subnet has another table
		lost       string
		unreadable bool
	}{
		"pods are dropped":   {route: "10.88.16.0/20 None", lost: "packets to 10.88.16.4: "},
		"one pod is dropped": {route: "10.88.17.9/32 None", lost: "packets to 10.88.17.9: "},
		"pods go to the internet": {route: "10.88.16.0/20 Internet",
			lost: "packets to 10.88.16.4: "},
		"pods are dropped, and another table is there": {route: "10.88.16.0/20 None", other: true,
			lost: "packets to 10.88.16.4: "},
		"another table is there":       {route: "10.88.16.0/20 10.88.9.4", other: true},
		"an appliance decides":         {route: "10.88.16.0/20 10.88.9.4"},
		"other networks are dropped":   {route: "10.99.0.0/16 None"},
		"the default route drops":      {route: "0.0.0.0/0 None"},
		"its routes could not be read": {route: "10.88.16.0/20 None", unreadable: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := emptyWorld(t, slow)
				g := w.addGuarded("pod-subnet", "")
				g.config.Spec.Guard.OnOtherTable = v1alpha1.OtherTableReplace
				g.config.Spec.Guard.Subnets[1].RouteTableID = ""
				k := w.keep(g.config)
				w.reconcile(k)
				w.stripNetwork(g)
				if test.other {
					other := g.table.Group() + "/providers/Microsoft.Network/routeTables/other"
					w.put(other, object{"properties": object{"routes": []any{
						route("pods", "10.88.16.0/20", "10.88.1.5")}}})
					w.edit(g.nodes, func(p object) {
						p["routeTable"] = object{"id": string(other)}
					})
				}
				prefix, hop, _ := strings.Cut(test.route, " ")
				r := route("changed", prefix, hop)
				if !strings.Contains(hop, ".") {
					r["properties"] = object{"addressPrefix": prefix, "nextHopType": hop}
				}
				w.put(g.table, object{"properties": object{"routes": []any{r}}})
				if test.unreadable {
					w.inject(emulator.Fault{Method: "GET", Path: "routeTables/egress", Count: -1,
						Status: 403, Code: "AuthorizationFailed"})
				}
				time.Sleep(time.Minute)
				w.reconcile(k) // the NAT gateway
				time.Sleep(10 * time.Second)
				done := w.reconcile(k)
				if _, nat := w.get(g.nodes)["properties"].(object)["natGateway"]; !nat {
					t.Error("the NAT gateway is not put back")
				}
				back := w.tableOf(g.nodes).Equal(g.table)
				if back != (test.lost == "") {
					t.Errorf("put back: %t; %+v", back, done.Findings)
				}
				if test.lost == "" {
					return
				}
				said := ""
				for _, f := range done.Findings {
					if f.Code == finding.AssociationLost || f.Code == finding.AssociationOther {
						said += f.Message + "\n" + strings.Join(f.Evidence, "\n") + "\n"
					}
				}
				if !strings.Contains(said,
					"it is not put back: with it, packets would be dropped") ||
					!strings.Contains(said, test.lost) {
					t.Errorf("said %s", said)
				}
				w.edit(g.table, func(p object) { p["routes"] = []any{} })
				time.Sleep(10 * time.Minute)
				if w.reconcile(k); !w.tableOf(g.nodes).Equal(arm.ID(g.table)) {
					t.Error("not put back after its routes were repaired")
				}
			})
		})
	}
}
