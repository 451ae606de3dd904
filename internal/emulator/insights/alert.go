package insights

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// MaxAlerts is how many enabled activity log alerts a subscription may have (Azure Monitor service
// limits).
const MaxAlerts = 100

// alertLocations are where activity log alerts are processed (reference of
// Microsoft.Insights/activityLogAlerts).
var alertLocations = []string{"global", "westeurope", "northeurope"}

// settleAlert checks an activity log alert.
func (s *Insights) settleAlert(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	kernel.SetDefault(properties, "enabled", true)
	scopes := kernel.List(properties, "scopes")
	if len(scopes) == 0 {
		return kernel.Bad("BadRequest", "Required property 'scopes' not found in JSON.")
	}
	for _, scope := range scopes {
		id, err := arm.ParseID(strings.TrimSuffix(scope, "/"))
		if err != nil || !strings.EqualFold(id.Subscription(), r.ID.Subscription()) {
			return kernel.Bad("BadRequest", "The scope '%s' of activity log alert %s is invalid: "+
				"all scopes must be in the subscription of the alert rule.", scope, r.ID.Name())
		}
	}
	if !slices.Contains(alertLocations,
		strings.ToLower(strings.ReplaceAll(kernel.Text(r.Body, "location"), " ", ""))) {
		return kernel.Bad("LocationNotAvailableForResourceType", "The provided location '%s' is "+
			"not available for resource type 'Microsoft.Insights/activityLogAlerts'. List of "+
			"available regions for the resource type is '%s'.", kernel.Text(r.Body, "location"),
			strings.Join(alertLocations, ","))
	}
	if f := checkConditions(r, kernel.ListAt(properties, "condition", "allOf")); f != nil {
		return f
	}
	if properties["enabled"] == true && (old == nil || old.Properties()["enabled"] == false) &&
		s.enabledAlerts(r.ID.Subscription()) >= MaxAlerts {
		return kernel.Fail(http.StatusConflict, "QuotaExceeded", "The subscription %s has "+
			"reached the limit of %d activity log alert rules.", r.ID.Subscription(), MaxAlerts)
	}
	return nil
}

// checkConditions checks an alert's conditions: each names a known field, or alternatives that name
// known fields.
func checkConditions(r *kernel.Resource, conditions []kernel.Object) *kernel.Failure {
	category := ""
	for _, condition := range conditions {
		_, mixed := condition["field"]
		if mixed && len(kernel.ListAt(condition, "anyOf")) > 0 {
			return kernel.Bad("BadRequest", "The condition '%s' of activity log alert %s is "+
				"invalid: 'anyOf' excludes 'field'.", kernel.Encode(condition), r.ID.Name())
		}
		for _, leaf := range leavesOf(condition) {
			_, known := recordField(kernel.ActivityRecord{}, kernel.Text(leaf, "field"))
			if one, several := kernel.Text(leaf, "equals") != "",
				len(kernel.List(leaf, "containsAny")) > 0; !known || one == several {
				return kernel.Bad("BadRequest", "The condition '%s' of activity log alert %s is "+
					"invalid.", kernel.Encode(leaf), r.ID.Name())
			}
		}
		if strings.EqualFold(kernel.Text(condition, "field"), "category") {
			category = kernel.Text(condition, "equals")
		}
	}
	if category == "" {
		return kernel.Bad("BadRequest",
			"The condition of activity log alert %s must contain a field 'category'.", r.ID.Name())
	}
	if strings.EqualFold(category, "Administrative") && len(conditions) < 2 { // azure-cli#8732
		return kernel.Bad("UnsupportedCondition",
			"Specify additional conditions for this category: %s.", category)
	}
	return nil
}

// enabledAlerts counts the enabled alerts of a subscription.
func (s *Insights) enabledAlerts(subscription string) int {
	n := 0
	for _, r := range s.kernel.Store.List(arm.TypeAlertRule, "") {
		if strings.EqualFold(r.ID.Subscription(), subscription) &&
			r.Properties()["enabled"] != false {
			n++
		}
	}
	return n
}

// settleActionGroup checks an action group.
func (s *Insights) settleActionGroup(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	kernel.SetDefault(properties, "enabled", true)
	if name := kernel.Text(properties, "groupShortName"); name == "" || len(name) > 12 {
		return kernel.Bad("BadRequest", "The groupShortName '%s' of action group %s is invalid: "+
			"1 to 12 characters are allowed.", name, r.ID.Name())
	}
	for _, receiver := range kernel.ListAt(properties, "webhookReceivers") {
		if kernel.Text(receiver, "name") == "" ||
			!strings.HasPrefix(kernel.Text(receiver, "serviceUri"), "http") {
			return kernel.Bad("BadRequest", "The webhook receiver '%s' of action group %s needs "+
				"a name and a serviceUri.", kernel.Text(receiver, "name"), r.ID.Name())
		}
	}
	for _, kind := range []string{"emailReceivers", "smsReceivers", "webhookReceivers",
		"itsmReceivers", "azureAppPushReceivers", "automationRunbookReceivers", "voiceReceivers",
		"logicAppReceivers", "azureFunctionReceivers", "armRoleReceivers", "eventHubReceivers"} {
		kernel.SetDefault(properties, kind, []any{})
	}
	return nil
}

// actionGroupFacts returns the facts of action groups: receivers of mails and messages have a
// status, and all receivers of more than a short text have a schema (REST API of action groups).
func actionGroupFacts() []kernel.Fact {
	all := []kernel.Fact{
		{Path: "properties.emailReceivers[].status", Value: "Enabled"},
		{Path: "properties.smsReceivers[].status", Value: "Enabled"},
		{Path: "properties.webhookReceivers[].useAadAuth", Value: false, Since: "2019-06-01"},
	}
	for _, kind := range []string{"email", "webhook", "armRole", "automationRunbook", "logicApp",
		"azureFunction", "eventHub"} {
		all = append(all, kernel.Fact{Path: "properties." + kind +
			"Receivers[].useCommonAlertSchema", Value: false, Since: "2019-03-01"})
	}
	return all
}

// alert fires the alerts that match a record, after the delay.
func (s *Insights) alert(record kernel.ActivityRecord) {
	for _, r := range s.kernel.Store.List(arm.TypeAlertRule, "") {
		if alertMatches(r.Properties(), record) {
			s.kernel.At(time.Now().Add(s.opts.AlertDelay), func() { s.fire(r, record) })
		}
	}
}

func alertMatches(alert kernel.Object, record kernel.ActivityRecord) bool {
	if alert["enabled"] == false {
		return false
	}
	inScope := slices.ContainsFunc(kernel.List(alert, "scopes"), func(scope string) bool {
		id := arm.ID(strings.TrimSuffix(scope, "/"))
		return record.Resource.Equal(id) || kernel.PartOf(record.Resource, id)
	})
	if !inScope {
		return false
	}
	for _, condition := range kernel.ListAt(alert, "condition", "allOf") {
		leaves := leavesOf(condition)
		if !slices.ContainsFunc(leaves, func(leaf kernel.Object) bool {
			return leafMatches(leaf, record)
		}) {
			return false
		}
	}
	return true
}

// leavesOf returns the alternatives of a condition.
func leavesOf(condition kernel.Object) []kernel.Object {
	if leaves := kernel.ListAt(condition, "anyOf"); len(leaves) > 0 {
		return leaves
	}
	return []kernel.Object{condition}
}

func leafMatches(leaf kernel.Object, record kernel.ActivityRecord) bool {
	have, _ := recordField(record, kernel.Text(leaf, "field"))
	if wanted := kernel.Text(leaf, "equals"); wanted != "" {
		return strings.EqualFold(wanted, have)
	}
	return slices.ContainsFunc(kernel.List(leaf, "containsAny"), func(wanted string) bool {
		return strings.EqualFold(wanted, have)
	})
}

// fire posts an alert to the webhooks of its action groups.
func (s *Insights) fire(alert *kernel.Resource, record kernel.ActivityRecord) {
	for _, action := range kernel.ListAt(alert.Body, "properties", "actions", "actionGroups") {
		group := s.kernel.Store.Get(arm.ID(kernel.Text(action, "actionGroupId")))
		if group == nil || group.Properties()["enabled"] == false {
			continue
		}
		for _, receiver := range kernel.ListAt(group.Properties(), "webhookReceivers") {
			var doc kernel.Object
			if receiver["useCommonAlertSchema"] == true {
				doc = s.commonSchema(alert, record)
			} else {
				doc = s.legacySchema(record, kernel.ObjectAt(action, "webhookProperties"))
			}
			s.webhooks.post(kernel.Text(receiver, "serviceUri"), s.webhookToken(receiver),
				kernel.Encode(doc))
		}
	}
}

// azureMonitor is the application that calls secure webhooks.
const azureMonitor = "461e8683-5575-4561-ac7f-899cc907d62a"

// webhookToken returns the token for a secure webhook, or "".
func (s *Insights) webhookToken(receiver kernel.Object) string {
	if receiver["useAadAuth"] != true {
		return ""
	}
	audience := kernel.Text(receiver, "identifierUri")
	if audience == "" {
		audience = kernel.Text(receiver, "objectId")
	}
	token, _, err := s.entra.Identity.Token(kernel.Principal{Name: "Azure " +
		"Monitor", ClientID: azureMonitor,
		ObjectID: uuid.NewSHA1(uuid.Nil, []byte(azureMonitor)).String()}, audience)
	if err != nil {
		s.kernel.Log.Error("no token for a secure webhook", "error", err)
	}
	return token
}

const alertTime = "2006-01-02T15:04:05.000Z"

func (s *Insights) commonSchema(alert *kernel.Resource, r kernel.ActivityRecord) kernel.Object {
	description := kernel.Text(alert.Properties(), "description")
	context := s.alertContext(r)
	return kernel.Object{"schemaId": "azureMonitorCommonAlertSchema", "data": kernel.Object{
		"essentials": kernel.Object{
			"alertId": "/subscriptions/" + alert.ID.Subscription() +
				"/providers/Microsoft.AlertsManagement/alerts/" + uuid.NewString(),
			"alertRule": alert.ID.Name(), "severity": "Sev4", "signalType": "Activity Log",
			"monitorCondition":  "Fired",
			"monitoringService": "Activity Log - Administrative", "alertTargetIDs": []string{
				r.Resource.Key()}, "configurationItems": []string{r.Resource.Name()},
			"originAlertId": r.ID + "_" + strings.ReplaceAll(
				uuid.NewSHA1(uuid.Nil, []byte(alert.ID.Key())).String(), "-", ""),
			"firedDateTime": time.Now().UTC().Format(alertTime), "description": description,
			"essentialsVersion": "1.0", "alertContextVersion": "1.0",
		},
		"alertContext": context,
	}}
}

func (s *Insights) legacySchema(r kernel.ActivityRecord,
	webhookProperties kernel.Object) kernel.Object {
	context := s.alertContext(r)
	provider, _, _ := strings.Cut(r.Operation, "/")
	context["resourceId"], context["resourceGroupName"] = string(r.Resource),
		r.Resource.ResourceGroup()
	context["resourceProviderName"], context["resourceType"] = provider, r.Kind
	context["subscriptionId"] = r.Resource.Subscription()
	properties := kernel.Object{}
	if webhookProperties != nil {
		properties = webhookProperties
	}
	return kernel.Object{"schemaId": "Microsoft.Insights/activityLogs",
		"data": kernel.Object{"status": "Activated",
			"context":    kernel.Object{"activityLog": context},
			"properties": properties}}
}

// alertContext returns the record in both schemas.
func (s *Insights) alertContext(r kernel.ActivityRecord) kernel.Object {
	tenant := s.kernel.Opts.TenantOf(r.Resource.Subscription())
	return kernel.Object{
		"authorization": kernel.Object{"action": r.Operation, "scope": string(r.Resource)},
		"channels":      "Operation", "claims": string(kernel.Encode(recordClaims(r, tenant))),
		"caller":        r.Who.ObjectID,
		"correlationId": r.CorrelationID, "eventSource": "Administrative",
		"eventTimestamp": r.At.UTC().Format(alertTime), "eventDataId": r.ID,
		"level": recordLevel(r), "operationName": r.Operation, "operationId": r.OperationID,
		"properties": recordProperties(r, tenant),
		"status":     r.Status, "subStatus": r.SubStatus, "submissionTimestamp": r.At.UTC().Format(
			alertTime), "Activity Log Event Description": "",
	}
}
