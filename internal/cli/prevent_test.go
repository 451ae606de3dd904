package cli

import (
	"encoding/json"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// scriptDeploy deploys an ARM template at a scope, and waits.
func scriptDeploy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: deploy SCOPE FILE")
	}
	op := running.get(ts.Getenv("WORK")).op
	id := arm.ID(args[0] + "/providers/Microsoft.Resources/deployments/d")
	body := map[string]any{"properties": map[string]any{"mode": "Incremental",
		"template": json.RawMessage(ts.ReadFile(args[1]))}}
	if id.Group() == "" {
		body["location"] = "westeurope"
	}
	ts.Check(op.Put(id, "2025-04-01", body))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, answer := op.Do("GET", id, "2025-04-01", nil)
		state := gjson.GetBytes(answer, "properties.provisioningState").String()
		if state == "Succeeded" {
			return
		}
		if state == "Failed" || time.Now().After(deadline) {
			ts.Fatalf("%s", answer)
		}
	}
}

// assignPolicy assigns an initiative whose policy is about networks, and opposes nothing.
func (l *leastRights) assignPolicy() {
	l.t.Helper()
	type object = map[string]any
	policies := arm.ID("/subscriptions/" + l.a.demo.Cluster.Subscription() +
		"/providers/Microsoft.Authorization")
	definition, set := policies.Child("policyDefinitions", "p"), policies.Child(
		"policySetDefinitions", "i")
	l.must(l.a.op.Put(definition, "2023-04-01", object{"properties": object{"mode": "All",
		"policyRule": object{"if": object{"field": "type",
			"equals": "Microsoft.Network/virtualNetworks/taps"},
			"then": object{"effect": "deny"}}}}))
	l.must(l.a.op.Put(set, "2023-04-01", object{"properties": object{"policyDefinitions": []object{
		{"policyDefinitionId": string(definition)}}}}))
	l.must(l.a.op.Put(policies.Child("policyAssignments", "a"), "2023-04-01", object{
		"properties": object{"policyDefinitionId": string(set)}}))
}
