package lab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/prove"
)

const (
	actionTables  = "Microsoft.Network/routeTables/"
	actionSubnets = "Microsoft.Network/virtualNetworks/subnets/"
)

// actions has the action that each call needs, by method and subject.
var actions = map[string][]string{
	"GET network":              {"Microsoft.Network/virtualNetworks/read"},
	"GET subnet":               {actionSubnets + "read"},
	"PUT subnet":               {actionSubnets + "write"},
	"GET route table":          {actionTables + "read"},
	"PUT route table":          {actionTables + "write"},
	"GET security group":       {"Microsoft.Network/networkSecurityGroups/read"},
	"GET interface":            {"Microsoft.Network/networkInterfaces/read"},
	"GET operation":            {"Microsoft.Network/locations/operations/read"},
	"GET activity log":         {"Microsoft.Insights/eventtypes/values/read"},
	"GET permissions":          {"Microsoft.Authorization/permissions/read"},
	"GET locks":                {"Microsoft.Authorization/locks/read"},
	"GET role assignments":     {"Microsoft.Authorization/roleAssignments/read"},
	"GET role definitions":     {"Microsoft.Authorization/roleDefinitions/read"},
	"GET deny assignments":     {"Microsoft.Authorization/denyAssignments/read"},
	"GET clusters":             {"Microsoft.ContainerService/managedClusters/read"},
	"GET scale sets":           {"Microsoft.Compute/virtualMachineScaleSets/read"},
	"GET application gateways": {"Microsoft.Network/applicationGateways/read"},
}

// named finds the actions in a refusal: "authorization to perform action 'X' over scope", "perform
// action(s) 'X,Y' on the linked scope(s)".
var (
	named  = lazy.Regexp(`perform action(?:\(s\))? '([^']*)'`)
	action = lazy.Regexp(`[\w.]+(?:/\w+)+`)
)

// takes returns the actions that a call needs, including those to join the resources that its
// document links to.
func takes(r azure.Reply) []string {
	about := r.Method + " " + wordOf(r.Address)
	needed := actions[about]
	if about == "PUT subnet" {
		doc := gjson.ParseBytes(r.Request.Body)
		if doc.Get("properties.routeTable.id").Exists() {
			needed = append(needed[:len(needed):len(needed)], actionTables+"join/action")
		}
		if doc.Get("properties.networkSecurityGroup.id").Exists() {
			needed = append(needed[:len(needed):len(needed)],
				"Microsoft.Network/networkSecurityGroups/join/action")
		}
	}
	return needed
}

// noteRightsLocked notes what an answer shows about rights.
func (c *caller) noteRightsLocked(r azure.Reply) {
	if c.seen.Rights.Used == nil {
		return
	}
	answer := answerOf(r)
	if r.Status == http.StatusForbidden {
		refusal := prove.Refusal{Call: r.Method + " " + wordOf(r.Address), Answer: answer}
		// The missing actions come last: "has permission to perform action X; however, … action(s)
		// Y".
		if found := named().FindAllStringSubmatch(answer.Message, -1); found != nil {
			refusal.Actions = action().FindAllString(found[len(found)-1][1], -1)
		}
		c.seen.Rights.Refused = append(c.seen.Rights.Refused, refusal)
		return
	}
	for _, a := range takes(r) {
		if have, known := c.seen.Rights.Used[a]; !known || !have.OK() {
			c.seen.Rights.Used[a] = answer
		}
	}
}

// notRead is why permissions are unknown before they are read.
const notRead = "they were not read"

// rights reads what this login may do, and what else the keeper reads. It notes refusals and
// continues.
func (t *trial) rights() {
	var items []string
	t.each(address(t.group, "/providers/Microsoft.Authorization/permissions", authorizationVersion),
		func(item gjson.Result) { items = append(items, item.Raw) })
	var own []inventory.Permission
	if t.err == nil {
		err := json.Unmarshal([]byte("["+strings.Join(items, ",")+"]"), &own)
		if err != nil {
			t.err = fmt.Errorf("the answer is not a list of permissions: %w", err)
		}
	}
	switch {
	case t.err == nil:
		t.seen.Rights.Own, t.seen.Rights.Unread = own, ""
	case t.ctx.Err() == nil:
		t.seen.Rights.Unread, t.err = t.err.Error(), nil
	}
	for _, below := range []struct{ path, version string }{
		{"/providers/Microsoft.Authorization/locks", lockVersion},
		{"/providers/Microsoft.Authorization/roleAssignments", authorizationVersion},
		{"/providers/Microsoft.Authorization/roleDefinitions", authorizationVersion},
		{"/providers/Microsoft.Authorization/denyAssignments", authorizationVersion},
		{"/providers/" + arm.TypeCluster, clusterVersion},
		{"/providers/" + arm.TypeScaleSet, scaleSetVersion},
		{"/providers/" + arm.TypeGateway, networkVersion},
	} {
		t.fetch(address(t.group, below.path, below.version))
		if t.ctx.Err() == nil {
			t.err = nil // noted
		}
	}
}
