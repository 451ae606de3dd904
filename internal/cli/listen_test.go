package cli

import (
	"net"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
)

// scriptAlert creates activity log alerts on writes of tables and subnets that call a webhook, with
// a token if an audience is given.
func scriptAlert(ts *testscript.TestScript, _ bool, args []string) {
	a := running.get(ts.Getenv("WORK"))
	sub := a.demo.Cluster.Subscription()
	group := arm.ResourceID(sub, "net-rg", "Microsoft.Insights/actionGroups", "keeper")
	receiver := map[string]any{"name": "keeper", "serviceUri": args[0],
		"useCommonAlertSchema": true}
	if len(args) > 1 {
		receiver["useAadAuth"], receiver["identifierUri"], receiver["objectId"] =
			true, args[1], "0b0b0000-0000-4000-8000-000000000009"
	}
	ts.Check(a.op.Put(group, "2024-10-01-preview",
		map[string]any{"location": "Global", "properties": map[string]any{
			"groupShortName": "keeper", "webhookReceivers": []any{receiver},
		}}))
	for _, operation := range []string{"Microsoft.Network/routeTables/write",
		"Microsoft.Network/virtualNetworks/subnets/write"} {
		rule := arm.ResourceID(sub, "net-rg", "Microsoft.Insights/activityLogAlerts",
			strings.ReplaceAll(operation, "/", "-"))
		ts.Check(a.op.Put(rule, "2023-01-01-preview",
			map[string]any{"location": "Global", "properties": map[string]any{
				"scopes": []any{"/subscriptions/" + sub},
				"condition": map[string]any{"allOf": []any{
					map[string]any{"field": "category", "equals": "Administrative"}, map[string]any{
						"field": "operationName", "equals": operation},
					map[string]any{"field": "status", "equals": "Succeeded"},
				}},
				"actions": map[string]any{
					"actionGroups": []any{map[string]any{"actionGroupId": string(group)}}},
			}}))
	}
}

// scriptFreePort puts a free port into a variable, and the emulator's tenant into TENANT.
func scriptFreePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
	ts.Setenv("TENANT", emulator.DefaultTenant)
}
