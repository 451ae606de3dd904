package lab

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/prove"
)

const (
	endNodes, endSpare = "/subnets/nodes", "/subnets/spare"
	endTable, endLarge = "/routeTables/routes", "/routeTables/large"
	endNetwork         = "/virtualNetworks/network"
	endProbe           = "/networkInterfaces/probe"
	endInterfaces      = "/networkInterfaces"
	endLog             = "/eventtypes/management/values"
)

var (
	atOnce = emulator.Options{}
	slowly = emulator.Options{OperationTime: 4 * time.Second}
)

// way is the expected result of a fact with one behavior of Azure.
type way struct {
	fact string
	want prove.Verdict
	seen string
	b    bench
}

// TestEachWay: each fact has each of its results with an Azure that behaves accordingly. Cases with
// the same options share an emulator.
func TestEachWay(t *testing.T) {
	const yes, no, unknown = prove.Confirmed, prove.Differs, prove.Untested
	byOptions := map[string][]way{}
	for _, c := range []way{
		{"subnet-if-match", yes, "412 PreconditionFailedEtagMismatch", bench{opts: slowly}},
		{"subnet-if-match", no, "took effect",
			bench{opts: emulator.Options{IgnoreSubnetETag: true}}},
		{"subnet-if-match", no, "current ETag is refused",
			bench{bends: []bend{refusing(hasIfMatch(endNodes),
				412, "PreconditionFailedEtagMismatch", "no")}}},
		{"subnet-if-match", unknown, "403", bench{faults: forbidden("PUT", endNodes)}},
		{"subnet-if-match", unknown, "no answer within 1m0s",
			bench{faults: silent("PUT", endNodes)}},
		{"table-if-match", yes, "412", bench{opts: slowly}},
		{"table-if-match", no, "took effect", bench{bends: []bend{withoutIfMatch(endTable)}}},
		{"table-if-match", unknown, "429",
			bench{bends: []bend{refusing(hasIfMatch(endTable), 429, "RetryableError", "busy")}}},
		{"subnet-if-match-code", yes, "does not match etag", bench{}},
		{"subnet-if-match-code", no, "412 Other", bench{bends: []bend{recode(endNodes)}}},
		{"subnet-if-match-code", unknown, "nothing was refused",
			bench{opts: emulator.Options{IgnoreSubnetETag: true}}},
		{"table-if-match-code", yes, "does not match etag", bench{}},
		{"table-if-match-code", no, "412 Other", bench{bends: []bend{recode(endTable)}}},
		{"table-if-match-code", unknown, "nothing was refused",
			bench{bends: []bend{withoutIfMatch(endTable)}}},
		{"subnet-etag-settles", yes, "changed again",
			bench{bends: []bend{sets("PUT", endNodes, "etag", `W/"passing"`)}}},
		{"subnet-etag-settles", no, "did not change", bench{bends: oneETag(endNodes)}},
		{"subnet-etag-settles", unknown, "no ETag",
			bench{bends: []bend{sets("PUT", endNodes, "etag", nil)}}},
		{"table-etag-settles", yes, "changed again",
			bench{bends: []bend{sets("PUT", endTable, "etag", `W/"passing"`)}}},
		{"table-etag-settles", no, "did not change", bench{bends: oneETag(endTable)}},
		{"table-etag-settles", unknown, "no ETag",
			bench{bends: []bend{sets("PUT", endTable, "etag", nil)}}},
		{"subnet-same-put", yes, "with a new ETag", bench{opts: atOnce}},
		{"subnet-same-put", no, "with the same ETag", bench{bends: oneETag(endNodes)}},
		{"subnet-same-put", unknown, "403", bench{faults: forbidden("PUT", endNodes)}},
		{"table-same-put", yes, "with a new ETag", bench{opts: atOnce}},
		{"table-same-put", no, "began an operation", bench{bends: []bend{
			sets("PUT", endTable, "properties.provisioningState", "Updating")}}},
		{"table-same-put", unknown, "403", bench{faults: forbiddenLater("PUT", endTable)}},
		{"shared-etag", yes, "one ETag", bench{}},
		{"shared-etag", no, "a subnet has",
			bench{opts: emulator.Options{SeparateSubnetETags: true}}},
		{"shared-etag", no, "a route has", bench{bends: []bend{
			sets("GET", endTable, "properties.routes.0.etag", `W/"own"`)}}},
		{"shared-etag", unknown, "no ETag", bench{bends: []bend{
			sets("GET", endTable, "properties.routes.0.etag", nil)}}},
		{"strip-keeps-table-etag", yes, "kept its ETag", bench{opts: slowly}},
		{"strip-keeps-table-etag", no, "after the strip, and after the repair",
			bench{bends: []bend{renewing()}}},
		{"strip-keeps-table-etag", unknown, "kept its table", bench{bends: []bend{keepsTable()}}},
		{"strip", yes, "no table", bench{}},
		{"strip", no, "kept", bench{bends: []bend{keepsTable()}}},
		{"strip", unknown, "403", bench{faults: forbidden("PUT", endNodes)}},
		{"repair", yes, "as before", bench{opts: slowly}},
		{"repair", no, "serviceEndpoints", bench{bends: []bend{forgetting("serviceEndpoints")}}},
		{"repair", no, "not back", bench{bends: []bend{forgetting("routeTable")}}},
		{"repair", unknown, "no answer", bench{faults: silent("PUT", endNodes)}},
		{"subnet-unknown-field", yes, "kept", bench{}},
		{"subnet-unknown-field", yes, "refused: 400 Strange",
			bench{bends: []bend{strangeRefused()}}},
		{"subnet-unknown-field", no, "dropped", bench{bends: []bend{strangeDropped()}}},
		{"subnet-unknown-field", unknown, "403", bench{faults: forbidden("PUT", endSpare)}},
		{"route-unknown-field", yes, "refused: 400 Strange",
			bench{bends: []bend{strangeRefused()}}},
		{"route-unknown-field", no, "dropped", bench{bends: []bend{strangeDropped()}}},
		{"route-unknown-field", unknown, "403", bench{faults: forbidden("PUT", endSpare)}},
		{"network-put-keeps-subnets", yes, "2 of 2", bench{opts: slowly}},
		{"network-put-keeps-subnets", no, "0 of 2", bench{bends: []bend{wiping()}}},
		{"network-put-keeps-subnets", unknown, "403",
			bench{faults: forbiddenLater("PUT", endNetwork)}},
		{"network-put-strips", yes, "no table", bench{}},
		{"network-put-strips", no, "kept", bench{bends: []bend{keepsTables()}}},
		{"network-put-strips", unknown, "403", bench{faults: forbiddenLater("PUT", endNetwork)}},
		{"full-table", yes, "settled after", bench{opts: slowly}},
		{"full-table", no, "RouteLimitExceeded", bench{opts: emulator.Options{RouteLimit: 100}}},
		{"full-table", no, "only after 3 min", bench{faults: slow(endLarge, 200)}},
		{"full-table", unknown, "still InProgress", bench{faults: slow(endLarge, 2000)}},
		{"route-limit", yes, "RouteLimitExceeded", bench{}},
		{"route-limit", no, "accepted", bench{opts: emulator.Options{RouteLimit: 1000}}},
		{"route-limit", unknown, "already", bench{opts: emulator.Options{RouteLimit: 100}}},
		{"table-in-use", yes, "InUseRouteTableCannotBeDeleted", bench{}},
		{"table-in-use", no, "accepted", bench{bends: []bend{pretending("DELETE", endTable)}}},
		{"table-in-use", unknown, "403", bench{faults: forbidden("DELETE", endTable)}},
		{"subnet-operation", yes, "Succeeded after", bench{opts: slowly}},
		{"subnet-operation", no, "names no operation",
			bench{opts: slowly, bends: []bend{headless()}}},
		{"subnet-operation", unknown, "at once", bench{opts: atOnce}},
		{"table-operation", yes, "Succeeded after", bench{opts: slowly}},
		{"table-operation", no, "ended as Canceled",
			bench{opts: slowly, bends: []bend{canceled("New")}}},
		{"table-operation", unknown, "at once", bench{opts: atOnce}},
		{"fresh-get", yes, "0 of 25", bench{opts: slowly}},
		{"fresh-get", no, "5 of 25", bench{bends: []bend{stale(endTable)}}},
		{"fresh-get", unknown, "500", bench{faults: failing("GET", endTable)}},
		{"fresh-list", yes, "0 of 5", bench{}},
		{"fresh-list", no, "5 of 5", bench{faults: []emulator.Fault{
			{Method: "GET", Path: "routeTables$", Stale: true, Count: -1}}}},
		{"fresh-list", unknown, "403", bench{faults: forbidden("GET", "routeTables")}},
		{"interface-list", yes, "listed", bench{opts: slowly}},
		{"interface-list", no, "not listed", bench{bends: []bend{
			sets("GET", endInterfaces, "value", []any{})}}},
		{"interface-list", unknown, "403", bench{faults: forbidden("GET", endInterfaces)}},
		{"interface-gone", yes, "gone", bench{opts: slowly}},
		{"interface-gone", no, "still", bench{bends: []bend{sets("GET", endInterfaces, "value",
			[]any{object{"id": "GROUP" + endProbe}}), inGroup()}}},
		{"interface-gone", unknown, "refused",
			bench{bends: []bend{refusing(func(r *http.Request) bool {
				return is(r, "DELETE", endProbe)
			}, 409, "Locked", "no")}}},
		{"interface-in-subnet", yes, "named it", bench{}},
		{"interface-in-subnet", no, "did not", bench{bends: []bend{
			sets("GET", endSpare, "properties.ipConfigurations", nil)}}},
		{"interface-in-subnet", unknown, "403", bench{faults: forbidden("PUT", endProbe)}},
		{"interface-at-once", yes, "at once", bench{opts: atOnce}},
		{"interface-at-once", no, "operation", bench{bends: []bend{
			sets("PUT", endProbe, "properties.provisioningState", "Updating")}}},
		{"interface-at-once", unknown, "no answer", bench{faults: silent("PUT", endProbe)}},
		{"same-table", yes, "412", bench{}},
		{"same-table", no, "is lost", bench{bends: []bend{withoutIfMatch(endTable)}}},
		{"same-table", unknown, "both were refused", bench{bends: []bend{
			refusing(hasIfMatch(endTable), 412, "PreconditionFailedEtagMismatch", "no")}}},
		{"sibling-subnets", yes, "both were accepted", bench{opts: atOnce}},
		{"sibling-subnets", yes, "for now", bench{opts: slowly}},
		{"sibling-subnets", no, "is lost", bench{bends: []bend{pretending("PUT", endSpare)}}},
		{"sibling-subnets", no, "for good",
			bench{bends: []bend{refusing(func(r *http.Request) bool {
				return is(r, "PUT", endSpare)
			}, 409, "Locked", "no")}}},
		{"sibling-subnets", unknown, "403", bench{faults: forbidden("PUT", endSpare)}},
		{"table-overlap", yes, "for now", bench{opts: slowly}},
		{"table-overlap", yes, "for now", bench{opts: slowly, bends: []bend{
			canceled("CanceledAndSupersededDueToAnotherOperation")}}},
		{"table-overlap", no, "Canceled (New)",
			bench{opts: slowly, bends: []bend{canceled("New")}}},
		{"table-overlap", unknown, "at once", bench{opts: atOnce}},
		{"subnet-overlap", yes, "for now", bench{opts: slowly}},
		{"subnet-overlap", no, "Canceled (New)",
			bench{opts: slowly, bends: []bend{canceled("New")}}},
		{"subnet-overlap", unknown, "at once", bench{opts: atOnce}},
		{"log-delay", yes, "writes", bench{opts: slowly, logWait: time.Minute}},
		{"log-delay", no, "4 of 4 writes, after 2", bench{logWait: 40 * time.Minute, bends: []bend{
			late(25 * time.Minute)}}},
		{"log-delay", no, "nothing within", bench{logWait: 40 * time.Minute, bends: []bend{
			sets("GET", endLog, "value", []any{})}}},
		{"log-delay", unknown, "nothing within", bench{logWait: time.Minute, bends: []bend{
			sets("GET", endLog, "value", []any{})}}},
		{"log-correlation", yes, "writes", bench{}},
		{"log-correlation", no, "none with the correlation ID",
			bench{bends: []bend{inLog("correlationId", "other")}}},
		{"log-correlation", unknown, "403", bench{faults: forbidden("GET", endLog)}},
		{"log-records", yes, "Started, Succeeded", bench{}},
		{"log-records", no, "Done", bench{bends: []bend{inLog("status.value", "Done")}}},
		{"log-records", unknown, "no record",
			bench{bends: []bend{inLog("correlationId", "other")}}},
		{"log-caller", yes, "this login", bench{}},
		{"log-caller", no, "another",
			bench{bends: []bend{inLog("caller", "x"), inLog("claims", object{})}}},
		{"log-caller", unknown, "403", bench{faults: forbidden("GET", endLog)}},
	} {
		options := fmt.Sprintf("%+v", c.b.opts)
		byOptions[options] = append(byOptions[options], c)
	}
	covered := map[string]map[prove.Verdict]bool{}
	for _, ways := range byOptions {
		synctest.Test(t, func(t *testing.T) {
			e := ways[0].b.emulator(t)
			for _, c := range ways {
				if covered[c.fact] == nil {
					covered[c.fact] = map[prove.Verdict]bool{}
				}
				covered[c.fact][c.want] = true
				c.b.facts = []string{c.fact}
				r := c.b.in(t, e, nil)[c.fact]
				if r.Verdict != c.want || !strings.Contains(r.Seen, c.seen) {
					t.Errorf("%s: %s: %q, want %s: %q", c.fact, r.Verdict, r.Seen, c.want, c.seen)
				}
			}
		})
	}
	for _, f := range prove.Facts() {
		if !strings.HasPrefix(f.Name, "right") && len(covered[f.Name]) != 3 {
			t.Errorf("%s is not seen to come out in each way: %v", f.Name, covered[f.Name])
		}
	}
}

func hasIfMatch(end string) func(*http.Request) bool {
	return func(r *http.Request) bool { return is(r, "PUT", end) && r.Header.Get("If-Match") != "" }
}

func forbidden(method, end string) []emulator.Fault {
	return []emulator.Fault{{Method: method, Path: end + "$", Status: 403,
		Code:    "AuthorizationFailed",
		Message: "no", Count: -1}}
}

// forbiddenLater refuses calls after the first one, which creates the resource.
func forbiddenLater(method, end string) []emulator.Fault {
	f := forbidden(method, end)
	f[0].Skip = 1
	return f
}

func silent(method, end string) []emulator.Fault {
	return []emulator.Fault{{Method: method, Path: end + "$", Hold: "before", Count: -1}}
}

// failing makes GETs fail after those of the set-up.
func failing(method, end string) []emulator.Fault {
	return []emulator.Fault{{Method: method, Path: end + "$", Status: 500, Skip: 2, Count: -1}}
}

// slow delays PUTs after that of the set-up.
func slow(end string, seconds int) []emulator.Fault {
	return []emulator.Fault{{Method: "PUT", Path: end + "$", Slow: seconds, Skip: 1}}
}

func recode(end string) bend {
	of := func(r *http.Request) bool { return is(r, "PUT", end) }
	return answers(of, func(body []byte, _ http.Header, status int) ([]byte, int) {
		if status == 412 {
			body = set(body, "error.code", "Other")
		}
		return body, status
	})
}

// renewing makes each write of a subnet change the ETag of its table.
func renewing() bend {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		mu.Lock()
		if is(r, "PUT", endNodes) {
			n++
		}
		etag := fmt.Sprintf(`W/"%d"`, n)
		mu.Unlock()
		sets("GET", endTable, "etag", etag)(w, r, azure)
	}
}

// keepsTable makes a PUT without routeTable keep the table.
func keepsTable() bend {
	return sets("GET", endNodes, "properties.routeTable.id", "/subscriptions/x/kept")
}

// keepsTables does the same for PUTs of the whole network.
func keepsTables() bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		path := "properties.subnets.#(name==" + nodesName + ").properties.routeTable.id"
		table := strings.TrimSuffix(r.URL.Path, endNetwork) + endTable
		answers(func(r *http.Request) bool { return is(r, "GET", endNetwork) },
			func(body []byte, _ http.Header, status int) ([]byte, int) {
				for i, s := range gjson.GetBytes(body, "properties.subnets").Array() {
					if s.Get("name").String() == nodesName && !gjson.GetBytes(body, path).Exists() {
						at := fmt.Sprintf("properties.subnets.%d.properties.routeTable.id", i)
						body = set(body, at, table)
					}
				}
				return body, status
			})(w, r, azure)
	}
}

// forgetting makes PUTs of a subnet drop a field.
func forgetting(field string) bend {
	of := func(r *http.Request) bool { return is(r, "PUT", endNodes) }
	return requests(of, func(_ *http.Request, body []byte) []byte {
		return set(body, "properties."+field, nil)
	})
}

func strangeDropped() bend {
	return requests(func(r *http.Request) bool { return r.Method == "PUT" },
		func(_ *http.Request, body []byte) []byte {
			return []byte(strings.ReplaceAll(string(body), `"`+unknownField+`":"kept"`, `"x":1`))
		})
}

func strangeRefused() bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		var sent []byte
		requests(func(*http.Request) bool {
			return true
		}, func(_ *http.Request, body []byte) []byte {
			sent = body
			return body
		})(httptest.NewRecorder(), r, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		odd := func(*http.Request) bool { return strings.Contains(string(sent), unknownField) }
		refusing(odd, 400, "Strange", "unknown member")(w, r, azure)
	}
}

// wiping makes a PUT of a network without subnets delete them.
func wiping() bend {
	of := func(r *http.Request) bool { return is(r, "PUT", endNetwork) }
	return requests(of, func(_ *http.Request, body []byte) []byte {
		if !gjson.GetBytes(body, "properties.subnets").Exists() {
			body = set(body, "properties.subnets", []any{})
		}
		return body
	})
}

// pretending answers a call as done without doing it: to a PUT with the current resource.
func pretending(method, end string) bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		switch {
		case !is(r, method, end):
			azure.ServeHTTP(w, r)
		case method == "PUT":
			read := r.Clone(r.Context())
			read.Method, read.Body = "GET", http.NoBody
			azure.ServeHTTP(w, read)
		default:
			w.WriteHeader(http.StatusOK)
		}
	}
}

func headless() bend {
	return answers(func(r *http.Request) bool { return is(r, "PUT", endNodes) },
		func(body []byte, h http.Header, status int) ([]byte, int) {
			h.Del("Azure-AsyncOperation")
			return body, status
		})
}

// canceled makes operations end as canceled with a code.
func canceled(code string) bend {
	of := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/operations/") }
	return answers(of, func(_ []byte, _ http.Header, status int) ([]byte, int) {
		return encode(object{"status": "Canceled", "error": object{"code": code, "message": "x"}}),
			status
	})
}

// stale makes the first GET after each PUT return the answer of the previous GET.
func stale(end string) bend {
	var mu sync.Mutex
	var last, old []byte
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		mu.Lock()
		defer mu.Unlock()
		if is(r, "PUT", end) {
			old = last
		}
		answers(func(r *http.Request) bool { return is(r, "GET", end) },
			func(body []byte, _ http.Header, status int) ([]byte, int) {
				if status != 200 {
					return body, status
				}
				last = body
				if old != nil {
					body, old = old, nil
				}
				return body, status
			})(w, r, azure)
	}
}

// inGroup adds the group to the answer of a list.
func inGroup() bend {
	of := func(r *http.Request) bool { return is(r, "GET", endInterfaces) }
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		group := strings.TrimSuffix(r.URL.Path, endInterfaces)
		answers(of, func(body []byte, _ http.Header, status int) ([]byte, int) {
			return []byte(strings.ReplaceAll(string(body), "GROUP", group)), status
		})(w, r, azure)
	}
}

// inLog changes a field of each record.
func inLog(path string, value any) bend {
	of := func(r *http.Request) bool { return is(r, "GET", endLog) }
	return answers(of, func(body []byte, _ http.Header, status int) ([]byte, int) {
		for i := range gjson.GetBytes(body, "value").Array() {
			body = set(body, fmt.Sprintf("value.%d.%s", i, path), value)
		}
		return body, status
	})
}

// late makes the log empty for some time after its first read.
func late(by time.Duration) bend {
	var mu sync.Mutex
	var first time.Time
	of := func(r *http.Request) bool { return is(r, "GET", endLog) }
	return answers(of, func(body []byte, _ http.Header, status int) ([]byte, int) {
		mu.Lock()
		defer mu.Unlock()
		if first.IsZero() {
			first = time.Now()
		}
		if time.Since(first) < by {
			body = []byte(`{"value":[]}`)
		}
		return body, status
	})
}
