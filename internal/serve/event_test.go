package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/network"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const (
	fixtureTable  = "/subscriptions/11111111-1111-1111-1111-111111111111/resourcegroups/mc_rg_aks_westeurope/providers/microsoft.network/routetables/aks-agentpool-12345678-routetable"
	fixtureSubnet = "/subscriptions/11111111-1111-1111-1111-111111111111/resourcegroups/net-rg/providers/microsoft.network/virtualnetworks/vnet1/subnets/aks-nodes"
)

// cloudEvent is one, as Event Grid sends it.
const cloudEvent = `{"specversion":"1.0","type":"Microsoft.Resources.ResourceWriteSuccess","source":"/subscriptions/11111111-1111-1111-1111-111111111111",
	"id":"1","subject":"` + fixtureSubnet + `","data":{"resourceUri":"` + fixtureSubnet + `","status":"Succeeded"}}`

// TestParse reads what Azure sends, and finds the resources in it, each once or more, and nothing else.
func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		body   []byte
		header http.Header
		want   []string
		code   string
	}{
		"common alert":     {body: fixture(t, "alert-common-schema.json"), want: []string{fixtureTable}},
		"legacy alert":     {body: fixture(t, "alert-legacy-schema.json"), want: []string{fixtureTable}},
		"Event Grid":       {body: fixture(t, "resource-write-success.json"), want: []string{fixtureSubnet}},
		"handshake":        {body: fixture(t, "subscription-validation.json"), code: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"},
		"cloud event":      {body: []byte(cloudEvent), want: []string{fixtureSubnet}},
		"cloud events":     {body: []byte("\n [" + cloudEvent + "," + strings.ReplaceAll(cloudEvent, "aks-nodes", "other") + "]"), want: []string{fixtureSubnet, strings.ReplaceAll(fixtureSubnet, "aks-nodes", "other")}},
		"binary":           {body: []byte(`{}`), header: http.Header{"Ce-Specversion": {"1.0"}, "Ce-Subject": {fixtureSubnet}}, want: []string{fixtureSubnet}},
		"another alert":    {body: []byte(`{"schemaId":"azureMonitorCommonAlertSchema","data":{"essentials":{"alertTargetIDs":["` + fixtureTable + `"]},"alertContext":null}}`), want: []string{fixtureTable}},
		"data is a text":   {body: []byte(`{"specversion":"1.0","type":"x","subject":"y","data":"z"}`)},
		"no subject":       {body: []byte(`[{"eventType":"x"}]`)},
		"an empty batch":   {body: []byte(`[]`)},
		"not a resource":   {body: []byte(`[{"eventType":"x","subject":"https://example.com/subscriptions/a"}]`)},
		"a link":           {body: []byte(`[{"eventType":"x","subject":"/subscriptions/a?b=c"}]`)},
		"an endless ID":    {body: []byte(`[{"eventType":"x","subject":"/subscriptions/` + strings.Repeat("a", longestID) + `"}]`)},
		"a deep ID":        {body: []byte(`[{"eventType":"x","subject":"/subscriptions/a/providers/b` + strings.Repeat("/c/d", deepestID) + `"}]`)},
		"the whole record": {body: []byte(`[{"eventType":"x","subject":"","data":{"authorization":{"scope":"` + fixtureTable + `"}}}]`), want: []string{fixtureTable}},
	} {
		e, err := parse(c.header, c.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, id := range network.SortIDs(e.resources) {
			got = append(got, id.Key())
		}
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) || e.validation != c.code {
			t.Errorf("%s: %q and code %q, want %q and %q", name, got, e.validation, c.want, c.code)
		}
	}
}

// malformed are bodies that are refused.
var malformed = map[string]string{
	"empty": ``, "not JSON": `hello`, "cut": `[{"eventType":"x"`, "more behind it": `[] []`, "a number": `7`, "null in a batch": `[null]`, "an array in a batch": `[[]]`,
	"unknown schema": `{"schemaId":"AIOpsAlert","data":{}}`, "nothing known": `{"hello":"world"}`, "no data": `{"schemaId":"azureMonitorCommonAlertSchema"}`,
	"targets of a wrong type": `{"schemaId":"azureMonitorCommonAlertSchema","data":{"essentials":{"alertTargetIDs":5}}}`,
	"subject of a wrong type": `[{"eventType":"x","subject":{}}]`, "scope of a wrong type": `[{"eventType":"x","data":{"authorization":[]}}]`,
	"handshake without code":        `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{}}]`,
	"handshake with an endless one": `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"` + strings.Repeat("x", 300) + `"}}]`,
	"one of two":                    `[{"eventType":"x","subject":"` + fixtureSubnet + `"},{"eventType":1}]`,
}

func TestMalformed(t *testing.T) {
	for name, body := range malformed {
		e, err := parse(nil, []byte(body))
		if err == nil || strings.Contains(oneLine(err.Error()), "\n") || len(err.Error()) > 300 || len(e.resources) > 0 {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
}

// FuzzParse: whatever is posted, what is taken from it are resource IDs that stand in it.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"alert-common-schema.json", "alert-legacy-schema.json", "resource-write-success.json", "subscription-validation.json"} {
		f.Add(fixture(f, name), "")
	}
	f.Add([]byte(cloudEvent), "")
	f.Add([]byte(`{}`), fixtureSubnet)
	for _, body := range malformed {
		f.Add([]byte(body), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, subject string) {
		header := http.Header{}
		if subject != "" {
			header = http.Header{"Ce-Specversion": {"1.0"}, "Ce-Subject": {subject}}
		}
		e, err := parse(header, body)
		if err != nil && len(oneLine(err.Error())) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		for _, id := range e.resources {
			if again, err := network.ParseID(string(id)); err != nil || again != id || len(id) > longestID {
				t.Errorf("%q is no ID: %v", id, err)
			}
		}
		if len(e.validation) > longestVal || err == nil && e.validation != "" && subject != "" {
			t.Errorf("the code %q", e.validation)
		}
	})
}
