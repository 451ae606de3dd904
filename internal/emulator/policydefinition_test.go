package emulator

import (
	"net/http"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/authorization"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// TestBuiltInPolicy: Azure's built-in policies can be assigned, with an identity; the assignment
// shows its creator, at api-versions that have the field.
func TestBuiltInPolicy(t *testing.T) {
	b := newBench(t, Options{})
	at := group + "/providers/" + authorization.TypePolicyAssignment + "/audit"
	const builtIn = "/providers/Microsoft.Authorization/policyDefinitions/" +
		"06a78e20-9358-41c9-923c-fb736d382a4d"
	body := `{"location":"westus","identity":{"type":"SystemAssigned"},"properties":{` +
		`"policyDefinitionId":"` + builtIn + `"}}`
	b.put(at, body)
	b.put(at, body)
	made := b.get(at)
	metadata := kernel.ObjectAt(made, "properties", "metadata")
	if metadata["createdBy"] != DefaultPrincipal.ObjectID ||
		metadata["updatedBy"] != DefaultPrincipal.ObjectID || !authorization.IsGUID(kernel.Text(
		made, "identity", "principalId")) || kernel.Text(made, "systemData", "createdAt") == "" {
		t.Errorf("%v", made)
	}
	_, old := b.try(http.MethodGet, at, "2020-09-01", "")
	if doc, _ := kernel.DecodeObject([]byte(old)); doc["systemData"] != nil {
		t.Errorf("at 2020-09-01: %s", old)
	}
	b.refused(http.MethodPut, at, `{"properties":{"policyDefinitionId":"/providers/`+
		authorization.TypePolicyDefinition+`/mine"}}`, 404, "PolicyDefinitionNotFound")
	b.refused(http.MethodGet, group+"/providers/"+authorization.TypePolicyDefinition+"/a/b", "",
		404,
		"ResourceTypeNotSupported")
}

// dayAgo is the beginning of the tests' queries of the activity log.
func dayAgo() string { return time.Now().UTC().Add(-24 * time.Hour).Format(time.RFC3339) }

// TestActivityLogTooOld: the activity log goes back 90 days.
func TestActivityLogTooOld(t *testing.T) {
	b := newBench(t, Options{})
	const events = arm.ID("/subscriptions/" + sub +
		"/providers/Microsoft.Insights/eventtypes/management/values")
	for filter, want := range map[string]int{
		"eventTimestamp%20ge%20%272018-01-01T00:00:00Z%27": 400,
		"eventTimestamp%20le%20%272018-01-01T00:00:00Z%27": 200,
	} {
		if status, body := b.try(http.MethodGet, events, "2015-04-01&$filter="+filter,
			""); status != want {
			t.Errorf("%s: %d %s", filter, status, body)
		}
	}
}
