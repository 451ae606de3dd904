package clients

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/monitor/armmonitor"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v9"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// TestAlerts lets a write of a route table arrive at a webhook as an activity log alert.
func TestAlerts(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	a.group("net")
	actions, alerts := client(a, armmonitor.NewActionGroupsClient), client(a,
		armmonitor.NewActivityLogAlertsClient)
	posted := make(chan map[string]any, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var doc map[string]any
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			t.Error(err)
		}
		posted <- doc
	}))
	t.Cleanup(hook.Close)

	group := call(actions.CreateOrUpdate(a.ctx, "net", "ops", armmonitor.ActionGroupResource{
		Location: to.Ptr("Global"), Properties: &armmonitor.ActionGroup{
			Enabled: to.Ptr(true), GroupShortName: to.Ptr("ops"),
			WebhookReceivers: []*armmonitor.WebhookReceiver{
				{Name: to.Ptr("keeper"), ServiceURI: to.Ptr(hook.URL),
					UseCommonAlertSchema: to.Ptr(true)}},
		}}, nil)).ok(t)
	is(t, "type", group.Type, "Microsoft.Insights/actionGroups")
	is(t, "webhook", group.Properties.WebhookReceivers[0].ServiceURI, hook.URL)
	rule := call(alerts.CreateOrUpdate(a.ctx, "net", "tables", armmonitor.ActivityLogAlertResource{
		Location: to.Ptr("Global"), Properties: &armmonitor.AlertRuleProperties{
			Enabled: to.Ptr(true), Scopes: []*string{to.Ptr(subscription)},
			Condition: &armmonitor.AlertRuleAllOfCondition{
				AllOf: []*armmonitor.AlertRuleAnyOfOrLeafCondition{
					{Field: to.Ptr("category"), Equals: to.Ptr("Administrative")},
					{Field: to.Ptr("operationName"),
						Equals: to.Ptr("Microsoft.Network/routeTables/write")},
				}},
			Actions: &armmonitor.ActionList{ActionGroups: []*armmonitor.ActivityLogAlertActionGroup{
				{ActionGroupID: group.ID}}},
		}}, nil)).ok(t)
	is(t, "condition", rule.Properties.Condition.AllOf[1].Equals,
		"Microsoft.Network/routeTables/write")
	a.wire(
		"PUT Microsoft.Insights/actionGroups/ops 2024-10-01-preview 201",
		"PUT Microsoft.Insights/activityLogAlerts/tables 2023-01-01-preview 201",
	)

	poll(client(a, armnetwork.NewRouteTablesClient).BeginCreateOrUpdate(a.ctx, "net", "rt", table(),
		nil)).ok(t)
	select {
	case doc := <-posted:
		data, _ := doc["data"].(map[string]any)
		essentials, _ := data["essentials"].(map[string]any)
		targets, _ := essentials["alertTargetIDs"].([]any)
		if doc["schemaId"] != "azureMonitorCommonAlertSchema" ||
			essentials["monitoringService"] != "Activity Log - Administrative" ||
			len(targets) != 1 {
			t.Errorf("the webhook received %v", doc)
		}
	case <-time.After(time.Minute):
		t.Error("the webhook received nothing")
	}

	off := call(alerts.Update(a.ctx, "net", "tables", armmonitor.AlertRulePatchObject{
		Properties: &armmonitor.AlertRulePatchProperties{Enabled: to.Ptr(false)}}, nil)).ok(t)
	is(t, "enabled", off.Properties.Enabled, false)
	is(t, "tag", call(actions.Update(a.ctx, "net", "ops", armmonitor.ActionGroupPatchBody{
		Tags: map[string]*string{"a": to.Ptr("b")}}, nil)).ok(t).Tags["a"], "b")
	all(a, alerts.NewListByResourceGroupPager("net", nil),
		func(p armmonitor.ActivityLogAlertsClientListByResourceGroupResponse) []*armmonitor.ActivityLogAlertResource {
			return p.Value
		}, 1)
	all(a, actions.NewListBySubscriptionIDPager(nil),
		func(p armmonitor.ActionGroupsClientListBySubscriptionIDResponse) []*armmonitor.ActionGroupResource {
			return p.Value
		}, 1)
	call(alerts.Delete(a.ctx, "net", "tables", nil)).ok(t)
	call(alerts.Get(a.ctx, "net", "tables", nil)).refused(t, 404, "ResourceNotFound")
	call(actions.Delete(a.ctx, "net", "ops", nil)).ok(t)
	all(a, actions.NewListByResourceGroupPager("net", nil),
		func(p armmonitor.ActionGroupsClientListByResourceGroupResponse) []*armmonitor.ActionGroupResource {
			return p.Value
		}, 0)
}

func TestActivityLog(t *testing.T) {
	t.Parallel()
	a := start(t, emulator.Options{})
	began := time.Now().Add(-time.Minute)
	a.group("net")
	a.group("other")
	tables := client(a, armnetwork.NewRouteTablesClient)
	poll(tables.BeginCreateOrUpdate(a.ctx, "net", "rt", table(), nil)).ok(t)
	poll(tables.BeginCreateOrUpdate(a.ctx, "other", "rt", table(), nil)).ok(t)
	poll(tables.BeginDelete(a.ctx, "net", "rt", nil)).ok(t)
	a.requests()

	log := client(a, armmonitor.NewActivityLogsClient)
	var seen []string
	for pager := log.NewListPager("eventTimestamp ge '"+began.UTC().Format(time.RFC3339)+
		"' and resourceGroupName eq 'net'", nil); pager.More(); {
		for _, e := range call(pager.NextPage(a.ctx)).ok(t).Value {
			seen = append(seen, *e.OperationName.Value+" "+*e.Status.Value)
			is(t, "caller", e.Caller, emulator.DefaultPrincipal.ObjectID)
			is(t, "appid", e.Claims["appid"], emulator.DefaultPrincipal.ClientID)
			is(t, "resourceGroupName", e.ResourceGroupName, "net")
			if e.EventTimestamp == nil || e.EventTimestamp.Before(began) {
				t.Errorf("%s happened at %v", *e.OperationName.Value, e.EventTimestamp)
			}
		}
	}
	// az writes times without quotes and zone.
	pager := log.NewListPager("eventTimestamp ge "+began.UTC().Format("2006-01-02T15:04:05.999999")+
		" and eventTimestamp le "+began.UTC().Add(time.Second).Format("2006-01-02T15:04:05.999999"),
		nil)
	if page := call(pager.NextPage(a.ctx)).ok(t); len(page.Value) != 0 {
		t.Errorf("%d records before anything was done", len(page.Value))
	}
	for _, want := range []string{
		"Microsoft.Resources/subscriptions/resourceGroups/write Succeeded",
		"Microsoft.Network/routeTables/write Started",
		"Microsoft.Network/routeTables/write Succeeded", "Microsoft.Network/routeTables/delete " +
			"Succeeded",
	} {
		if !slices.Contains(seen, want) {
			t.Errorf("the activity log lacks %s; it has %q", want, seen)
		}
	}
	if i := slices.Index(seen, "Microsoft.Network/routeTables/delete Succeeded"); i > slices.Index(
		seen, "Microsoft.Network/routeTables/write Succeeded") {
		t.Error("the activity log does not have the newest first")
	}
}
