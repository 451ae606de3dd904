package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// TestRecording: every call is recorded, in the form of recordings of Azure, and nothing in it
// identifies the subscription, the login, the tenant or this host.
func TestRecording(t *testing.T) {
	var recording bytes.Buffer
	var calls atomic.Int64
	b := bench{opts: slowly, record: &recording, bends: []bend{
		sets("GET", endTable, "systemData", object{"createdBy": "alice@contoso.example"}),
		sets("GET", endNetwork, "tags", object{"owner": "alice", "cost-center": "4711"}),
		inLog("caller", "alice@contoso.example"),
		func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
			calls.Add(1)
			azure.ServeHTTP(w, r)
		},
	}}
	var made int
	b.run(t, func(_ *emulator.Emulator, out Outcome, err error) {
		if made = out.Calls; err != nil {
			t.Error(err)
		}
	})
	text := recording.String()
	n := 0
	for row := range strings.Lines(text) {
		n++
		var l map[string]any
		if err := json.Unmarshal([]byte(row), &l); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"m", "u", "h", "b", "s", "rh", "rb"} {
			if _, there := l[field]; !there {
				t.Errorf("line %d has no %s", n, field)
			}
		}
		if u := l["u"].(string); !strings.HasPrefix(u,
			"https://management.azure.com/subscriptions/"+zeros) {
			t.Errorf("line %d: %s", n, u)
		}
	}
	if n != made || n != int(calls.Load()) || n < 100 {
		t.Errorf("%d lines, %d calls, %d requests", n, made, calls.Load())
	}
	ids := regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	for _, id := range ids.FindAllString(text, -1) {
		if !strings.HasPrefix(id, "00000000-0000-0000-0000-") {
			t.Fatalf("the recording holds %s", id)
		}
	}
	for _, secret := range []string{"alice", "contoso", "4711", "Bearer", `"authorization":`,
		"here-1",
		"claims", "http://local", emulatortest.Keeper.ObjectID, emulator.DefaultTenant} {
		if i := strings.Index(strings.ToLower(text), strings.ToLower(secret)); i >= 0 {
			t.Errorf("the recording holds %q: …%s…", secret,
				text[max(0, i-80):min(len(text), i+40)])
		}
	}
	// Equal values stay equal: an If-Match is one of the ETags in the answers.
	sent := regexp.MustCompile(`"if-match":"W/\\"([^\\]*)\\""`).FindAllStringSubmatch(text, -1)
	if len(sent) < 4 {
		t.Fatalf("%d If-Match headers", len(sent))
	}
	for _, m := range sent {
		if strings.Count(text, m[1]) < 3 {
			t.Errorf("the ETag %s was answered by no call", m[1])
		}
	}
}

// TestRedacted: text by people, policies and other tools does not get into a recording.
func TestRedacted(t *testing.T) {
	for name, c := range map[string]struct{ address, sent, have, want string }{
		"who made it": {"/subscriptions/S/resourceGroups/g", "",
			`{"id":"x","systemData":{"createdBy":"a@b.c"},"managedBy":"y","properties":{}}`,
			`{"id":"x","properties":{}}`},
		"tags": {"/subscriptions/S/resourceGroups/g", "",
			`{"tags":{"routekeeper-prove":"g","routekeeper-prove-by":"host-1","owner":"bob"}}`,
			`{"tags":{"routekeeper-prove":"g"}}`},
		"refusal": {"/subscriptions/S/resourceGroups/g", "",
			`The client 'live.com#bob@contoso.com' with object id '11111111-2222-3333-4444-555555555555'`,
			`The client 'redacted@example.com' with object id '00000000-0000-0000-0000-000000000001'`},
		"numbers": {"/x", "", `{"n":1.50,"big":12345678901234567890}`,
			`{"big":12345678901234567890,"n":1.50}`},
		"next page": {"/x", "", `{"nextLink":"https://h/?sig=secret"}`,
			`{"nextLink":"https://management.azure.com/next"}`},
		"no JSON": {"/x", "", `<html>`, `<html>`},
		"permissions": {"/subscriptions/S/resourceGroups/g/providers/Microsoft.Authorization/permissions", "",
			`{"value":[{"actions":["Contoso.Custom/x/read"]}]}`, `{"value":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			r := newRecorder(&b, "S")
			r.add(azure.Reply{Request: azure.Request{Method: "GET", Address: c.address},
				Status: 200,
				Header: http.Header{}, Body: []byte(c.have)})
			if have := gjson.Get(b.String(), "rb").String(); have != c.want {
				t.Errorf("%s, want %s", have, c.want)
			}
		})
	}
	var b bytes.Buffer
	r := newRecorder(&b, "S")
	r.add(azure.Reply{Request: azure.Request{Method: "PUT", Address: "/x?api-version=1"},
		Status: 403,
		Body:   []byte(`{"error":{"code":"RequestDisallowedByPolicy","message":"policy Contoso secret"}}`)})
	if s := b.String(); strings.Contains(s, "Contoso") ||
		!strings.Contains(s, "RequestDisallowedByPolicy") {
		t.Error(s)
	}
	b.Reset()
	r.add(azure.Reply{
		Request: azure.Request{Method: "PUT", Address: "/x?api-version=1&t=9&c=cert&s=sig"},
		Header: http.Header{"Azure-Asyncoperation": {"https://h/op?api-version=1&t=9&c=cert&s=sig"},
			"Set-Cookie": {"secret"}, "X-Ms-Ratelimit-Remaining-Subscription-Writes": {"199"}}})
	if s := b.String(); strings.Contains(s, "cert") || strings.Contains(s, "sig") ||
		strings.Contains(s, "secret") || !strings.Contains(s, `"199"`) {
		t.Error(s)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestRecordingFails: a recording that cannot be written is an error, and nothing stays in Azure.
func TestRecordingFails(t *testing.T) {
	b := bench{record: full{}, facts: []string{"shared-etag"}}
	b.run(t, func(e *emulator.Emulator, out Outcome, err error) {
		if err == nil || !strings.Contains(err.Error(), "no space left") || !out.Deleted {
			t.Errorf("deleted %v, %v", out.Deleted, err)
		}
	})
}
