package serve

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/keeper"
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

// cloudEvent is an event as Event Grid sends it.
const cloudEvent = `{"specversion":"1.0","type":"Microsoft.Resources.ResourceWriteSuccess","source":"/subscriptions/11111111-1111-1111-1111-111111111111",
	"id":"1","subject":"` + fixtureSubnet + `","data":{"resourceUri":"` + fixtureSubnet +
	`","status":"Succeeded"}}`

// TestParse parses what Azure sends. It finds all resources in it, at least once each, and nothing
// else.
func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		body   []byte
		header http.Header
		want   []string
		code   string
		caller string
	}{
		"common alert": {body: fixture(t, "alert-common-schema.json"),
			want: []string{fixtureTable}, caller: "44444444-4444-4444-4444-444444444444"},
		"legacy alert": {body: fixture(t, "alert-legacy-schema.json"),
			want: []string{fixtureTable}, caller: "44444444-4444-4444-4444-444444444444"},
		"Event Grid": {body: fixture(t, "resource-write-success.json"),
			want: []string{fixtureSubnet}, caller: "44444444-4444-4444-4444-444444444444"},
		"handshake": {body: fixture(t, "subscription-validation.json"),
			code: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6"},
		"cloud event": {body: []byte(cloudEvent), want: []string{fixtureSubnet}},
		"cloud events": {
			body: []byte("\n [" + cloudEvent + "," + strings.ReplaceAll(cloudEvent, "aks-nodes",
				"other") + "]"), want: []string{fixtureSubnet,
				strings.ReplaceAll(fixtureSubnet, "aks-nodes", "other")}},
		"binary": {body: []byte(`{}`), header: http.Header{"Ce-Specversion": {"1.0"},
			"Ce-Subject": {fixtureSubnet}}, want: []string{fixtureSubnet}},
		"another alert": {
			body: []byte(`{"schemaId":"azureMonitorCommonAlertSchema","data":{"essentials":{"alertTargetIDs":["` + fixtureTable + `"]},"alertContext":null}}`), want: []string{fixtureTable}},
		"data is a text": {
			body: []byte(`{"specversion":"1.0","type":"x","subject":"y","data":"z"}`)},
		"no subject":     {body: []byte(`[{"eventType":"x"}]`)},
		"an empty batch": {body: []byte(`[]`)},
		"not a resource": {
			body: []byte(`[{"eventType":"x","subject":"https://example.com/subscriptions/a"}]`)},
		"a link": {body: []byte(`[{"eventType":"x","subject":"/subscriptions/a?b=c"}]`)},
		"an endless ID": {body: []byte(`[{"eventType":"x","subject":"/subscriptions/` +
			strings.Repeat("a", longestID) + `"}]`)},
		"a deep ID": {
			body: []byte(`[{"eventType":"x","subject":"/subscriptions/a/providers/b` +
				strings.Repeat("/c/d", deepestID) + `"}]`)},
		"the whole record": {
			body: []byte(`[{"eventType":"x","subject":"","data":{"authorization":{"scope":"` +
				fixtureTable + `"}}}]`), want: []string{fixtureTable}},
	} {
		e, err := parseAll(c.header, c.body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, id := range inventory.SortIDs(e.Resources) {
			got = append(got, id.Key())
		}
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) || e.validation != c.code || e.Caller != c.caller {
			t.Errorf("%s: %q by %q and code %q, want %q by %q and %q", name, got, e.Caller,
				e.validation, c.want, c.caller, c.code)
		}
	}
}

// parseAll parses a posted body as one event.
func parseAll(header http.Header, body []byte) (event, error) {
	events, err := parse(header, body)
	var all event
	for _, e := range events {
		all.Resources = append(all.Resources, e.Resources...)
		all.validation, all.Caller = cmp.Or(all.validation, e.validation), cmp.Or(all.Caller,
			e.Caller)
	}
	return all, err
}

// TestCaller: the caller of a change is a name if there is one. It comes from outside, and must be
// safe to display.
func TestCaller(t *testing.T) {
	upn := "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/upn"
	for body, want := range map[string]string{
		`{"claims":{"name":"Ann Example","appid":"a1","` + upn +
			`":"ann@example.com"},"caller":"ann@example.com"}`: "Ann Example",
		`{"claims":"{\"name\":\"Ann Example\"}","caller":"ann@example.com"}`: "Ann Example",
		`{"claims":{"` + upn + `":"ann@example.com","appid":"a1"}}`:          "ann@example.com",
		`{"claims":"{}","caller":"ann@example.com"}`:                         "ann@example.com",
		`{"claims":{"appid":"a1"},"caller":"0b0b"}`:                          "a1",
		`{"caller":"0b0b"}`:                             "0b0b",
		`{}`:                                            "",
		`{"claims":["x"],"caller":"0b0b"}`:              "0b0b",
		`{"claims":"no JSON","caller":"0b0b"}`:          "0b0b",
		`{"claims":{"name":7},"caller":"0b0b"}`:         "0b0b",
		`{"caller":"a\u001b[31m\u0000\n\u202e\u2028b"}`: "a[31m b",
		`{"caller":"` + strings.Repeat("ä", 50*longestName) +
			`"}`: strings.Repeat("ä", longestName) + "…",
		`{"caller":"` + strings.Repeat("\\u0007", longestName) + `"}`: "",
	} {
		events, err := parse(nil,
			[]byte(`{"specversion":"1.0","type":"x","subject":"y","data":`+body+`}`))
		if err != nil || len(events) != 1 || events[0].Caller != want {
			t.Errorf("%.80s: %+v, %v, want %q", body, events, err, want)
		}
	}
}

// malformed are bodies that must be refused.
var malformed = map[string]string{
	"empty": ``, "not JSON": `hello`, "cut": `[{"eventType":"x"`, "more behind it": `[] []`,
	"a number": `7`, "null in a batch": `[null]`, "an array in a batch": `[[]]`,
	"unknown schema": `{"schemaId":"AIOpsAlert","data":{}}`, "nothing known": `{"hello":"world"}`,
	"no data":                       `{"schemaId":"azureMonitorCommonAlertSchema"}`,
	"targets of a wrong type":       `{"schemaId":"azureMonitorCommonAlertSchema","data":{"essentials":{"alertTargetIDs":5}}}`,
	"subject of a wrong type":       `[{"eventType":"x","subject":{}}]`,
	"scope of a wrong type":         `[{"eventType":"x","data":{"authorization":[]}}]`,
	"handshake without code":        `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{}}]`,
	"handshake with an endless one": `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"` + strings.Repeat("x", 300) + `"}}]`,
	"one of two": `[{"eventType":"x","subject":"` + fixtureSubnet +
		`"},{"eventType":1}]`,
}

func TestMalformed(t *testing.T) {
	for name, body := range malformed {
		e, err := parseAll(nil, []byte(body))
		if err == nil || strings.Contains(err.Error(), "Go ") ||
			strings.Contains(oneLine(err.Error()), "\n") || len(err.Error()) > 300 ||
			len(e.Resources) > 0 {
			t.Errorf("%s: %v, %v", name, e, err)
		}
	}
}

// FuzzParse: whatever is posted, only resource IDs that are in it are used.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"alert-common-schema.json", "alert-legacy-schema.json",
		"resource-write-success.json", "subscription-validation.json"} {
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
		e, err := parseAll(header, body)
		if err != nil && len(oneLine(err.Error())) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		for _, id := range e.Resources {
			if again, err := arm.ParseID(string(id)); err != nil || again != id ||
				len(id) > longestID {
				t.Errorf("%q is no ID: %v", id, err)
			}
		}
		if len([]rune(e.Caller)) > longestName+1 ||
			strings.ContainsFunc(e.Caller, unicode.IsControl) || !utf8.ValidString(e.Caller) {
			t.Errorf("the caller %q", e.Caller)
		}
		if len(e.validation) > longestVal || err == nil && e.validation != "" && subject != "" {
			t.Errorf("the code %q", e.validation)
		}
	})
}

// TestTold: the keeper gets who changed what, when and how, and nothing else of an event.
func TestTold(t *testing.T) {
	for name, want := range map[string]keeper.Event{
		"alert-common-schema.json": {Format: "Azure Monitor alert",
			Operation: "Microsoft.Network/routeTables/write"},
		"alert-legacy-schema.json": {Format: "Azure Monitor activity log alert",
			Operation: "Microsoft.Network/routeTables/write"},
		"resource-write-success.json": {Format: "Event Grid",
			Operation: "Microsoft.Network/virtualNetworks/subnets/write"},
	} {
		events, err := parse(http.Header{}, fixture(t, name))
		if err != nil || len(events) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		e := events[0]
		if e.Format != want.Format || e.Operation != want.Operation || e.Status != "Succeeded" ||
			e.At.IsZero() || e.Correlation == "" ||
			e.Caller != "44444444-4444-4444-4444-444444444444" {
			t.Errorf("%s: %+v", name, e)
		}
	}
}
