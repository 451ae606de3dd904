package azure

import (
	"encoding/json"
	"os"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

// TestBodies: the begin of a real write has its body, which counts once the write has ended well.
func TestBodies(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/activity-log/record-routetable-write-started.json")
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"properties":{"routes":[{"name":"out","properties":` +
		`{"addressPrefix":"0.0.0.0/0","nextHopIpAddress":"10.0.0.4"}}]}}`
	record := func(status string) (out []byte, id arm.ID) {
		var r map[string]any
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		properties := r["properties"].(map[string]any)
		if properties["requestbody"] == nil {
			t.Fatal("the record has no body")
		}
		if properties["requestbody"] = body; status != "Started" {
			delete(properties, "requestbody")
		}
		r["status"] = map[string]any{"value": status}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return out, arm.ID(r["resourceId"].(string))
	}
	answer, id := record("Succeeded")
	var r map[string]any
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatal(err)
	}
	r["properties"].(map[string]any)["responseBody"] = body
	answer, err = json.Marshal(r)
	if found := bodiesIn(answer, id, map[string]bool{}); err != nil || len(found) != 1 {
		t.Errorf("the body of an answer: %v %v", found, err)
	}
	for end, want := range map[string]int{"Succeeded": 1, "Accepted": 1, "Failed": 0} {
		took := map[string]bool{}
		ended, id := record(end)
		bodiesIn(ended, id, took)
		begun, _ := record("Started")
		found := bodiesIn(begun, id, took)
		if len(found) != want {
			t.Errorf("%s: %v", end, found)
		}
		for _, b := range found {
			const how = "the write of aks-agentpool-48350840-routetable by " +
				"44444444-4444-4444-4444-444444444444, the identity of nwpluginkubenet at " +
				"2023-08-16 04:04:07 UTC, says the activity log"
			if b.Hop.String() != "10.0.0.4" || b.How != how {
				t.Errorf("%+v", b)
			}
		}
	}
}
