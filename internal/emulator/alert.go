package emulator

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// maxAlerts is how many enabled activity log alerts a subscription may have (Azure Monitor service
// limits).
const maxAlerts = 100

// alertLocations are where activity log alerts are processed (reference of
// Microsoft.Insights/activityLogAlerts).
var alertLocations = []string{"global", "westeurope", "northeurope"}

// settleAlert checks an activity log alert.
func (s *insights) settleAlert(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	setDefault(properties, "enabled", true)
	scopes := list(properties, "scopes")
	if len(scopes) == 0 {
		return fail(http.StatusBadRequest, "BadRequest",
			"Required property 'scopes' not found in JSON.")
	}
	for _, scope := range scopes {
		id, err := arm.ParseID(strings.TrimSuffix(scope, "/"))
		if err != nil || !strings.EqualFold(id.Subscription(), r.id.Subscription()) {
			return fail(http.StatusBadRequest, "BadRequest", "The scope '%s' of activity log "+
				"alert %s is invalid: all scopes must be in the subscription of the alert rule.",
				scope, r.id.Name())
		}
	}
	if !slices.Contains(alertLocations,
		strings.ToLower(strings.ReplaceAll(text(r.body, "location"), " ", ""))) {
		return fail(http.StatusBadRequest, "LocationNotAvailableForResourceType",
			"The provided location '%s' is not available for resource type "+
				"'Microsoft.Insights/activityLogAlerts'. List of available regions for the "+
				"resource type is '%s'.",
			text(r.body, "location"), strings.Join(alertLocations, ","))
	}
	if f := checkConditions(r, listAt(objectAt(properties, "condition"), "allOf")); f != nil {
		return f
	}
	if properties["enabled"] == true && (old == nil ||
		objectAt(old.body, "properties")["enabled"] == false) &&
		s.enabledAlerts(r.id.Subscription()) >= maxAlerts {
		return fail(http.StatusConflict, "QuotaExceeded",
			"The subscription %s has reached the limit of %d activity log alert rules.",
			r.id.Subscription(), maxAlerts)
	}
	return nil
}

// checkConditions checks what an alert asks for: leaves with a known field, or alternatives of
// such.
func checkConditions(r *resource, conditions []object) *failure {
	category := ""
	for _, condition := range conditions {
		_, mixed := condition["field"]
		if mixed && len(listAt(condition, "anyOf")) > 0 {
			return fail(http.StatusBadRequest, "BadRequest", "The condition '%s' of activity log "+
				"alert %s is invalid: 'anyOf' excludes 'field'.", encode(condition), r.id.Name())
		}
		for _, leaf := range leavesOf(condition) {
			_, known := recordField(activityRecord{}, text(leaf, "field"))
			if one, several := text(leaf,
				"equals") != "", len(list(leaf, "containsAny")) > 0; !known || one == several {
				return fail(http.StatusBadRequest, "BadRequest",
					"The condition '%s' of activity log alert %s is invalid.", encode(leaf),
					r.id.Name())
			}
		}
		if strings.EqualFold(text(condition, "field"), "category") {
			category = text(condition, "equals")
		}
	}
	if category == "" {
		return fail(http.StatusBadRequest, "BadRequest",
			"The condition of activity log alert %s must contain a field 'category'.", r.id.Name())
	}
	if strings.EqualFold(category, "Administrative") && len(conditions) < 2 { // azure-cli#8732
		return fail(http.StatusBadRequest, "UnsupportedCondition",
			"Specify additional conditions for this category: %s.", category)
	}
	return nil
}

// enabledAlerts counts those of a subscription.
func (s *insights) enabledAlerts(subscription string) int {
	n := 0
	for _, r := range s.kernel.store.byType[kindKey(arm.TypeAlertRule)] {
		if strings.EqualFold(r.id.Subscription(), subscription) &&
			objectAt(r.body, "properties")["enabled"] != false {
			n++
		}
	}
	return n
}

// settleActionGroup checks an action group.
func (s *insights) settleActionGroup(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	setDefault(properties, "enabled", true)
	if name := text(properties, "groupShortName"); name == "" || len(name) > 12 {
		return fail(http.StatusBadRequest, "BadRequest", "The groupShortName '%s' of action "+
			"group %s is invalid: 1 to 12 characters are allowed.", name, r.id.Name())
	}
	for _, receiver := range listAt(properties, "webhookReceivers") {
		if text(receiver, "name") == "" ||
			!strings.HasPrefix(text(receiver, "serviceUri"), "http") {
			return fail(http.StatusBadRequest, "BadRequest",
				"The webhook receiver '%s' of action group %s needs a name and a serviceUri.",
				text(receiver, "name"), r.id.Name())
		}
		setDefault(receiver, "useCommonAlertSchema", false)
		setDefault(receiver, "useAadAuth", false)
	}
	for _, kind := range []string{"emailReceivers", "smsReceivers", "webhookReceivers",
		"itsmReceivers", "azureAppPushReceivers", "automationRunbookReceivers", "voiceReceivers",
		"logicAppReceivers", "azureFunctionReceivers", "armRoleReceivers", "eventHubReceivers"} {
		setDefault(properties, kind, []any{})
	}
	return nil
}

// alert fires the alerts that ask for a record, once the delay is over.
func (s *insights) alert(record activityRecord) {
	for _, r := range s.kernel.store.byType[kindKey(arm.TypeAlertRule)] {
		if alertMatches(objectAt(r.body, "properties"), record) {
			s.kernel.at(time.Now().Add(s.opts.AlertDelay), func() { s.fire(r, record) })
		}
	}
}

func alertMatches(alert object, record activityRecord) bool {
	if alert["enabled"] == false {
		return false
	}
	inScope := slices.ContainsFunc(list(alert, "scopes"), func(scope string) bool {
		id := arm.ID(strings.TrimSuffix(scope, "/"))
		return record.resource.Equal(id) || partOf(record.resource, id)
	})
	if !inScope {
		return false
	}
	for _, condition := range listAt(objectAt(alert, "condition"), "allOf") {
		leaves := leavesOf(condition)
		if !slices.ContainsFunc(leaves, func(leaf object) bool {
			return leafMatches(leaf, record)
		}) {
			return false
		}
	}
	return true
}

// leavesOf are the alternatives of a condition.
func leavesOf(condition object) []object {
	if leaves := listAt(condition, "anyOf"); len(leaves) > 0 {
		return leaves
	}
	return []object{condition}
}

func leafMatches(leaf object, record activityRecord) bool {
	have, _ := recordField(record, text(leaf, "field"))
	if wanted := text(leaf, "equals"); wanted != "" {
		return strings.EqualFold(wanted, have)
	}
	return slices.ContainsFunc(list(leaf, "containsAny"), func(wanted string) bool {
		return strings.EqualFold(wanted, have)
	})
}

// fire posts an alert to the webhooks of its action groups.
func (s *insights) fire(alert *resource, record activityRecord) {
	for _, action := range listAt(objectAt(alert.body, "properties", "actions"), "actionGroups") {
		group := s.kernel.store.get(arm.ID(text(action, "actionGroupId")))
		if group == nil || objectAt(group.body, "properties")["enabled"] == false {
			continue
		}
		for _, receiver := range listAt(objectAt(group.body, "properties"), "webhookReceivers") {
			var doc object
			if receiver["useCommonAlertSchema"] == true {
				doc = s.commonSchema(alert, record)
			} else {
				doc = s.legacySchema(record, objectAt(action, "webhookProperties"))
			}
			s.webhooks.post(text(receiver, "serviceUri"), s.webhookToken(receiver), encode(doc))
		}
	}
}

// azureMonitor is the application that calls secure webhooks.
const azureMonitor = "461e8683-5575-4561-ac7f-899cc907d62a"

// webhookToken is what a secure webhook is called with, or "".
func (s *insights) webhookToken(receiver object) string {
	if receiver["useAadAuth"] != true {
		return ""
	}
	audience := text(receiver, "identifierUri")
	if audience == "" {
		audience = text(receiver, "objectId")
	}
	token, _, err := s.entra.Token(Principal{Name: "Azure Monitor", ClientID: azureMonitor,
		ObjectID: uuid.NewSHA1(uuid.Nil, []byte(azureMonitor)).String()}, audience)
	if err != nil {
		s.kernel.log.Error("a token for a secure webhook", "error", err)
	}
	return token
}

const alertTime = "2006-01-02T15:04:05.000Z"

func (s *insights) commonSchema(alert *resource, r activityRecord) object {
	description := text(objectAt(alert.body, "properties"), "description")
	context := s.alertContext(r)
	return object{"schemaId": "azureMonitorCommonAlertSchema", "data": object{
		"essentials": object{
			"alertId": "/subscriptions/" + alert.id.Subscription() +
				"/providers/Microsoft.AlertsManagement/alerts/" + uuid.NewString(),
			"alertRule": alert.id.Name(), "severity": "Sev4", "signalType": "Activity Log",
			"monitorCondition":  "Fired",
			"monitoringService": "Activity Log - Administrative", "alertTargetIDs": []string{
				r.resource.Key()}, "configurationItems": []string{r.resource.Name()},
			"originAlertId": r.id + "_" +
				strings.ReplaceAll(uuid.NewSHA1(uuid.Nil, []byte(alert.id.Key())).String(), "-",
					""),
			"firedDateTime": time.Now().UTC().Format(alertTime), "description": description,
			"essentialsVersion": "1.0", "alertContextVersion": "1.0",
		},
		"alertContext": context,
	}}
}

func (s *insights) legacySchema(r activityRecord, webhookProperties object) object {
	context := s.alertContext(r)
	provider, _, _ := strings.Cut(r.operation, "/")
	context["resourceId"], context["resourceGroupName"] = string(r.resource),
		r.resource.ResourceGroup()
	context["resourceProviderName"], context["resourceType"] = provider, r.kind
	context["subscriptionId"] = r.resource.Subscription()
	properties := object{}
	if webhookProperties != nil {
		properties = webhookProperties
	}
	return object{"schemaId": "Microsoft.Insights/activityLogs",
		"data": object{"status": "Activated", "context": object{"activityLog": context},
			"properties": properties}}
}

// alertContext is the record as both schemas tell it.
func (s *insights) alertContext(r activityRecord) object {
	tenant := s.kernel.tenantOf(r.resource.Subscription())
	return object{
		"authorization": object{"action": r.operation, "scope": string(r.resource)},
		"channels":      "Operation", "claims": string(encode(recordClaims(r, tenant))),
		"caller":        r.who.ObjectID,
		"correlationId": r.correlationID, "eventSource": "Administrative",
		"eventTimestamp": r.at.UTC().Format(alertTime), "eventDataId": r.id,
		"level": recordLevel(r), "operationName": r.operation, "operationId": r.operationID,
		"properties": recordProperties(r, tenant),
		"status":     r.status, "subStatus": r.subStatus, "submissionTimestamp": r.at.UTC().Format(
			alertTime), "Activity Log Event Description": "",
	}
}
