package emulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/insights"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const (
	alertID     = group + "/providers/Microsoft.Insights/activityLogAlerts/aks-rt-write"
	actionGroup = group + "/providers/Microsoft.Insights/actionGroups/ag"
)

// receiver receives webhooks. It answers with the given statuses, and then with 200.
type receiver struct {
	mu       sync.Mutex
	start    time.Time
	statuses []int
	at       []time.Duration
	requests []*http.Request
	bodies   []kernel.Object
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	var doc kernel.Object
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.requests, r.bodies = append(r.at, time.Since(r.start)), append(r.requests,
		request), append(r.bodies, doc)
	status := http.StatusOK
	if len(r.statuses) > 0 {
		status, r.statuses = r.statuses[0], r.statuses[1:]
	}
	if status == 0 {
		return nil, fmt.Errorf("the connection was refused")
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

// times are the times of the calls so far, posted is their content.
func (r *receiver) times() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}

func (r *receiver) posted(i int) (*http.Request, kernel.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[i], r.bodies[i]
}

func alertBody(conditions string) string {
	return `{"location":"Global","properties":{"scopes":["` + string(group) +
		`"],"condition":{"allOf":[` + conditions +
		`]},"actions":{"actionGroups":[{"actionGroupId":"` + string(actionGroup) +
		`","webhookProperties":{"team":"net"}}]}}}`
}

func actionGroupBody(receiver string) string {
	return `{"location":"Global","properties":{"groupShortName":"ag","webhookReceivers":[{"name":"w","serviceUri":"https://hook.test/x?secret=1"` + receiver + `}]}}`
}

const tableWritten = `{"field":"category","equals":"administrative"},{"field":"operationName","equals":"Microsoft.Network/routeTables/write"},{"field":"status","containsAny":["succeeded","failed"]}`

// shape lists the paths of all fields in a document.
func shape(prefix string, v any) []string {
	var out []string
	o, isObject := v.(kernel.Object)
	if !isObject {
		return []string{prefix}
	}
	for k, child := range o {
		out = append(out, shape(prefix+"/"+k, child)...)
	}
	slices.Sort(out)
	return out
}

func fixture(t *testing.T, name string) kernel.Object {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/activity-log/" + name)
	if err != nil {
		t.Fatal(err)
	}
	doc, f := kernel.DecodeObject(raw)
	if f != nil {
		t.Fatal(f.Message)
	}
	return doc
}

// TestAlerts: a matching record is posted to the webhooks after the delay, in the requested schema.
func TestAlerts(t *testing.T) {
	for schema, more := range map[string]string{"common": `,"useCommonAlertSchema":true`,
		"legacy": ""} {
		synctest.Test(t, func(t *testing.T) {
			hook := &receiver{start: time.Now()}
			b := newBench(t, Options{AlertDelay: 5 * time.Minute, OperationTime: 3 * time.Second,
				Webhooks: hook})
			b.put(actionGroup, actionGroupBody(more))
			b.put(alertID, alertBody(tableWritten))
			b.put(rt, `{"location":"westeurope"}`)
			b.put(nsg, `{"location":"westeurope"}`) // not asked for
			time.Sleep(5*time.Minute + 2*time.Second)
			synctest.Wait() // the content is checked
			if len(hook.times()) != 0 {
				t.Errorf("fired after %v", hook.times())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait() // the content is checked
			if !slices.Equal(hook.times(), []time.Duration{5*time.Minute + 3*time.Second}) {
				t.Fatalf("fired after %v", hook.times())
			}
			_, got := hook.posted(0)
			context := kernel.ObjectAt(got, "data", "alertContext")
			if schema == "legacy" {
				context = kernel.ObjectAt(got, "data", "context", "activityLog")
				if kernel.Text(got, "data", "properties", "team") != "net" {
					t.Errorf("%s", kernel.Encode(got))
				}
				kernel.ObjectAt(got, "data")["properties"] = kernel.Object{}
			}
			if have, want := shape("", got), shape("",
				fixture(t, "alert-"+schema+"-schema.json")); !slices.Equal(have, want) {
				t.Errorf("%s has\n%v\nwant\n%v", schema, have, want)
			}
			if kernel.Text(context, "operationName") != "Microsoft.Network/routeTables/write" ||
				kernel.Text(context, "status") != "Succeeded" ||
				kernel.Text(context, "authorization", "scope") != string(rt) ||
				kernel.Text(context, "caller") != DefaultPrincipal.ObjectID {
				t.Errorf("%s", kernel.Encode(context))
			}
			// Disabled, or for another scope, it does not fire.
			if status, _ := b.try(http.MethodPatch, alertID, api,
				`{"properties":{"enabled":false}}`); status != 200 {
				t.Errorf("PATCH: %d", status)
			}
			b.put(rt, `{"location":"westeurope"}`)
			time.Sleep(20 * time.Minute)
			b.put(alertID,
				strings.Replace(alertBody(tableWritten), string(group), string(group)+"x", 1))
			b.put(rt, `{"location":"westeurope"}`)
			time.Sleep(20 * time.Minute)
			synctest.Wait() // the content is checked
			if len(hook.times()) != 1 {
				t.Errorf("fired at %v", hook.times())
			}
		})
	}
}

// TestWebhookRetries: 5, 20, 5, 40 and 5 seconds, and then a quarter of an hour of silence.
func TestWebhookRetries(t *testing.T) {
	const sec = time.Second
	never := []time.Duration{0, 5 * sec, 25 * sec, 30 * sec, 70 * sec, 75 * sec}
	for _, tt := range []struct {
		statuses []int
		want     []time.Duration
	}{
		{[]int{503, 429, 0},
			[]time.Duration{0, 5 * sec, 25 * sec, 30 * sec, 10 * time.Minute, 20 * time.Minute}},
		{[]int{500}, []time.Duration{0, 10 * time.Minute, 20 * time.Minute}},
		{[]int{408, 503, 504, 429, 503, 503}, append(never, 20*time.Minute)},
	} {
		synctest.Test(t, func(t *testing.T) {
			hook := &receiver{start: time.Now(), statuses: tt.statuses}
			b := newBench(t, Options{Webhooks: hook})
			b.put(actionGroup, actionGroupBody(`,"useCommonAlertSchema":true`))
			b.put(alertID, alertBody(tableWritten))
			for range 3 {
				b.put(rt, `{"location":"westeurope"}`)
				time.Sleep(10 * time.Minute)
			}
			synctest.Wait() // the content is checked
			if !slices.Equal(hook.times(), tt.want) {
				t.Errorf("%v: tried at %v, want %v", tt.statuses, hook.times(), tt.want)
			}
		})
	}
}

// TestWebhookStops: closing the emulator ends retries.
func TestWebhookStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &receiver{start: time.Now(), statuses: []int{503, 503}}
		b := newBench(t, Options{Webhooks: hook, AlertDelay: time.Minute})
		b.put(actionGroup, actionGroupBody(`,"useAadAuth":true,"identifierUri":"api://receiver"`))
		b.put(alertID, alertBody(tableWritten))
		b.put(rt, `{"location":"westeurope"}`)
		time.Sleep(time.Minute + time.Second)
		b.put(rt, `{"location":"westeurope"}`)
		b.e.Close()
		time.Sleep(20 * time.Minute)
		synctest.Wait() // the content is checked
		request, _ := hook.posted(0)
		if len(hook.times()) != 1 ||
			!strings.HasPrefix(request.Header.Get("Authorization"), "Bearer ey") {
			t.Errorf("tried at %v", hook.times())
		}
	})
}

func TestAlertRefusals(t *testing.T) {
	b := newBench(t, Options{})
	for _, bad := range []string{
		`{"location":"Global","properties":{}}`, alertBody(`{"field":"status","equals":"x"}`),
		alertBody(`{"field":"category","equals":"x"},{"field":"colour","equals":"x"}`),
		alertBody(`{"field":"category","equals":"x"},{"anyOf":[{"field":"caller"}]}`),
		alertBody(`{"field":"category","equals":"x"},{"field":"caller","equals":"x","containsAny":["x"]}`),
		alertBody(`{"field":"category","equals":"x"},{"field":"caller","anyOf":[{"field":"caller","equals":"x"}]}`),
		strings.Replace(alertBody(tableWritten), `"scopes":["`,
			`"scopes":["/subscriptions/00000000-0000-0000-0000-000000000009","`, 1),
		strings.Replace(alertBody(tableWritten), `"scopes":["`, `"scopes":["net-rg","`, 1),
	} {
		b.refused(http.MethodPut, alertID, bad, 400, "BadRequest")
	}
	b.refused(http.MethodPut, alertID, strings.Replace(alertBody(tableWritten), "Global", "eastus",
		1), 400, "LocationNotAvailableForResourceType")
	b.refused(http.MethodPut, alertID, alertBody(`{"field":"category","equals":"Administrative"}`),
		400, "UnsupportedCondition")
	b.put(alertID, alertBody(
		`{"field":"category","equals":"x"},{"anyOf":[{"field":"caller","equals":"y"},{"field":"properties.entity","equals":"y"}]}`))
	b.refused(http.MethodPut, actionGroup,
		`{"location":"Global","properties":{"groupShortName":"more than twelve"}}`, 400,
		"BadRequest")
	b.refused(http.MethodPut, actionGroup,
		strings.Replace(actionGroupBody(""), "https:", "file:", 1), 400, "BadRequest")
}

// TestAlertLimit: a subscription may have a limited number of enabled rules, and any number of
// disabled ones.
func TestAlertLimit(t *testing.T) {
	b := newBench(t, Options{})
	for i := range insights.MaxAlerts {
		b.put(arm.ID(fmt.Sprintf("%s-%d", alertID, i)), alertBody(tableWritten))
	}
	b.put(alertID+"-0", alertBody(tableWritten))
	b.refused(http.MethodPut, alertID, alertBody(tableWritten), 409, "QuotaExceeded")
	b.put(alertID, strings.Replace(alertBody(tableWritten), `"properties":{`,
		`"properties":{"enabled":false,`, 1))
	if status, body := b.try(http.MethodPatch, alertID, api,
		`{"properties":{"enabled":true}}`); status != 409 {
		t.Errorf("enabling one more: %d %s", status, body)
	}
}

// TestActivityRecords: the records of a write have the shape of real ones.
func TestActivityRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Options{OperationTime: 3 * time.Second})
		log := "/subscriptions/" + sub +
			"/providers/Microsoft.Insights/eventtypes/management/values"
		statuses := func(filter string) []string {
			docs, _ := b.ask(arm.ID(log), "$filter="+strings.ReplaceAll(filter, " ", "%20"))
			var out []string
			for _, d := range docs {
				out = append(out, kernel.Text(d, "operationName", "localizedValue")+": "+
					kernel.Text(d, "status", "value")+" "+kernel.Text(d, "subStatus", "value"))
			}
			return out
		}
		mine := "eventTimestamp ge '2000-01-01T00:00:00Z' and resourceUri eq '" + string(rt) + "'"
		b.put(rt, `{"location":"westeurope"}`)
		if got, want := statuses(mine), []string{"Create or Update Route Table: Accepted Created",
			"Create or Update Route Table: Started "}; !slices.Equal(got, want) {
			t.Errorf("at once: %q", got)
		}
		time.Sleep(3 * time.Second)
		if got := statuses(mine + " and status eq 'Succeeded'"); !slices.Equal(got,
			[]string{"Create or Update Route Table: Succeeded "}) {
			t.Errorf("in the end: %q", got)
		}
		b.refused(http.MethodPut, rt, `{"location":"eastus"}`, 409, "InvalidResourceLocation")
		if got := statuses(mine + " and status eq 'Failed' and levels eq 'Critical,Error' and " +
			"caller eq '" + DefaultPrincipal.ObjectID + "'"); !slices.Equal(got, []string{
			"Create or Update Route Table: Failed Conflict"}) {
			t.Errorf("refused: %q", got)
		}
		if _, err := b.e.Inject(Fault{Method: "PUT", Path: "routeTables/rt$", Count: 1, Fail: true,
			Code: "InternalServerError", Slow: 5}); err != nil {
			t.Fatal(err)
		}
		b.put(rt, `{"location":"westeurope"}`)
		time.Sleep(4 * time.Second)
		if got := statuses(mine)[0]; got != "Create or Update Route Table: Accepted OK" {
			t.Errorf("before an operation fails: %q", got)
		}
		time.Sleep(time.Second)
		if got := statuses(mine)[0]; !strings.HasPrefix(got,
			"Create or Update Route Table: Failed ") {
			t.Errorf("after an operation has failed: %q", got)
		}
		docs, _ := b.ask(arm.ID(log),
			"$filter="+strings.ReplaceAll(mine+" and status eq 'Started'", " ", "%20"))
		got := docs[len(docs)-1]
		if u := kernel.Text(got, "id"); !strings.Contains(u, "/ticks/63") {
			t.Errorf("the ID %s has no .NET ticks", u)
		}
		want := fixture(t, "record-routetable-write-started.json")
		for _, ofIdentity := range []string{"xms_mirid", "xms_tcdt"} {
			delete(kernel.ObjectAt(want, "claims"), ofIdentity)
		}
		if have, want := shape("", got), shape("", want); !slices.Equal(have, want) {
			t.Errorf("a record has\n%v\nwant\n%v", have, want)
		}
		docs, _ = b.ask(arm.ID(log), "$select=eventName,status&$filter="+
			strings.ReplaceAll(mine, " ", "%20"))
		if len(docs) == 0 || len(docs[0]) != 2 {
			t.Errorf("$select: %s", kernel.Encode(docs))
		}
	})
}

// TestActivityOverRestart: an accepted operation ends in the log, although the emulator did not run
// meanwhile.
func TestActivityOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{OperationTime: time.Minute, StateFile: t.TempDir() + "/state.db"}
		b := newBench(t, opts)
		b.put(rt, `{"location":"westeurope"}`)
		b.refused(http.MethodDelete, rt, "", 429, "RetryableError")
		b.refused(http.MethodPut, vnet, `{"location":"westeurope"}`, 400, "InvalidRequestFormat")
		b.e.Close()
		time.Sleep(time.Hour)
		e, err := New(opts)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		c, err := e.Client(DefaultPrincipal)
		if err != nil {
			t.Fatal(err)
		}
		after := &bench{t, e, c}
		docs, _ := after.ask("/subscriptions/"+sub+
			"/providers/Microsoft.Insights/eventtypes/management/values",
			"$filter=eventTimestamp%20ge%20'2000-01-01T00:00:00Z'%20and%20resourceProvider%20eq%20'Microsoft.Network'")
		var got []string
		for _, d := range docs {
			got = append(got, kernel.Text(d, "resourceType", "value")+" "+kernel.Text(d,
				"status", "value")+" "+kernel.Text(d, "subStatus", "value"))
		}
		want := []string{"Microsoft.Network/routeTables Succeeded ",
			"Microsoft.Network/virtualNetworks Failed BadRequest",
			"Microsoft.Network/virtualNetworks Started ", "Microsoft.Network/routeTables " +
				"Accepted Created", "Microsoft.Network/routeTables Started "}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}
