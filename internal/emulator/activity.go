package emulator

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

// activityRecord is one entry of the activity log. A write makes two, one when it starts and one
// when it ends, and where it takes time one more in between, when it is accepted.
type activityRecord struct {
	id, operationID, correlationID string
	at                             time.Time
	resource                       arm.ID
	kind                           string // its type in Azure's case
	operation                      string // Microsoft.Network/routeTables/write
	event, status, subStatus       string // EndRequest, Failed, BadRequest
	who                            Principal
	body                           []byte
	failure                        *failure
	ends                           time.Time // of the operation
}

// The statuses of records.
const (
	activityStarted   = "Started"
	activityAccepted  = "Accepted"
	activitySucceeded = "Succeeded"
	activityFailed    = "Failed"
)

// maxActivity is how many records are kept.
const maxActivity = 50_000

// record notes a write in the activity log under the name of its caller.
func (k *kernel) record(c *call, id arm.ID, verb string, f *failure) {
	r := k.recordStart(c, id, verb)
	if f != nil {
		k.note(r.ended(f))
		return
	}
	r.subStatus, r.ends = "OK", k.runsUntil(c, id, verb)
	if have := k.store.get(id); verb == "write" && have != nil && have.created.Equal(have.changed) {
		r.subStatus = "Created"
	}
	failing := c.failing()
	if !r.ends.After(time.Now()) && failing == nil {
		r.status = activitySucceeded
		k.note(r)
		return
	}
	if verb != "write" {
		r.subStatus = "Accepted"
	}
	r.status = activityAccepted
	k.note(r)
	k.at(r.ends, func() { k.note(r.ended(failing)) })
}

// recordOperation notes an operation of which only its end says how it ends.
func (k *kernel) recordOperation(c *call, id arm.ID, verb string, op *operation) {
	r := k.recordStart(c, id, verb)
	r.status, r.subStatus, r.ends = activityAccepted, "Accepted", op.ends
	k.note(r)
	k.at(r.ends, func() { k.note(r.ended(op.failure)) })
}

// recordStart notes the beginning of a write and returns what is to be completed to the record of
// its end.
func (k *kernel) recordStart(c *call, id arm.ID, verb string) activityRecord {
	r := activityRecord{operationID: uuid.NewString(), correlationID: c.ids[1], resource: id,
		kind: k.kindName(id), operation: k.operationOn(id) + "/" + verb, who: c.who}
	r.event, r.status, r.body = "BeginRequest", activityStarted, c.body
	k.note(r)
	r.event, r.body = "EndRequest", nil
	return r
}

// ended is the record of the end of what has begun.
func (r activityRecord) ended(f *failure) activityRecord {
	r.status, r.subStatus = activitySucceeded, ""
	if f != nil {
		r.status, r.subStatus, r.failure = activityFailed, statusName(f.status), f
	}
	return r
}

// note puts a record into the log.
func (k *kernel) note(r activityRecord) {
	r.id, r.at = uuid.NewString(), time.Now()
	if len(k.activity) >= maxActivity {
		k.activity = append([]activityRecord(nil), k.activity[maxActivity/2:]...)
	}
	k.activity = append(k.activity, r)
	if k.disk != nil {
		k.unkept = append(k.unkept, r)
	}
	k.insights.alert(r)
}

// runsUntil is when the operation ends that a write has started.
func (k *kernel) runsUntil(c *call, id arm.ID, verb string) time.Time {
	if verb != "write" {
		return time.Now().Add(k.operationTime(c))
	}
	for ; id != ""; id = id.Parent() { // a part of a document is written with the whole
		if r := k.store.get(id); r != nil {
			return r.busyUntil
		}
	}
	return time.Time{}
}

// statusName is an HTTP status as the log's subStatus names it: BadRequest.
func statusName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

// subStatuses are the ones of success, as the log writes them out.
var subStatuses = map[string]int{"OK": 200, "Created": 201, "Accepted": 202}

func (r activityRecord) subStatusDocument() object {
	status := subStatuses[r.subStatus]
	if r.failure != nil {
		status = r.failure.status
	}
	if status == 0 {
		return object{"value": "", "localizedValue": ""}
	}
	return object{"value": r.subStatus, "localizedValue": fmt.Sprintf("%s (HTTP Status Code: %d)",
		http.StatusText(status), status)}
}

// properties are what is particular to the record.
func (r activityRecord) properties(tenant string) object {
	p := object{
		"eventCategory": "Administrative", "entity": string(r.resource), "message": r.operation,
		"hierarchy": tenant + "/" + r.resource.Subscription(),
	}
	if r.failure != nil {
		p["statusCode"], p["serviceRequestId"] = statusName(r.failure.status), nil
		p["statusMessage"] = string(encode(object{"error": r.failure.document()}))
	}
	return p
}

// claims are the ones of the caller's token that the log keeps.
func (r activityRecord) claims(tenant string) object {
	issuer, issued := "https://sts.windows.net/"+tenant+"/", r.at.Add(-time.Minute).Unix()
	claims := object{
		"aud": "https://management.core.windows.net/", "iss": issuer, "iat": strconv.FormatInt(
			issued, 10), "nbf": strconv.FormatInt(issued, 10),
		"exp": strconv.FormatInt(issued+int64(tokenLife.Seconds()), 10), "appid": r.who.ClientID,
		"appidacr": "1", "idtyp": "app", "ver": "1.0",
		"http://schemas.microsoft.com/identity/claims/identityprovider": issuer,
		"http://schemas.microsoft.com/identity/claims/objectidentifier": r.who.ObjectID,
		"http://schemas.microsoft.com/identity/claims/tenantid":         tenant,
	}
	if r.who.Resource != "" {
		claims["xms_mirid"], claims["appidacr"] = r.who.Resource, "2"
	}
	return claims
}

// level is Error for what failed.
func (r activityRecord) level() string {
	if r.failure != nil {
		return "Error"
	}
	return "Informational"
}

// operationOn is what the operations on a resource begin with: its type, save for resource groups.
func (k *kernel) operationOn(id arm.ID) string {
	if id.Is(arm.TypeResourceGroup) {
		return "Microsoft.Resources/subscriptions/resourceGroups"
	}
	return k.kindName(id)
}

// document is the record as the activity log returns it.
func (r activityRecord) document(tenant string) object {
	value := func(s string) object { return object{"value": s, "localizedValue": s} }
	provider, _, _ := strings.Cut(r.operation, "/")
	properties := r.properties(tenant)
	if r.body != nil && r.event == "BeginRequest" {
		properties["requestbody"] = string(r.body)
	}
	return object{
		"authorization": object{"action": r.operation, "scope": string(r.resource)},
		"caller":        r.who.ObjectID, "channels": "Operation", "claims": r.claims(tenant),
		"correlationId": r.correlationID, "description": "", "eventDataId": r.id,
		"eventName": object{"value": r.event, "localizedValue": map[string]string{
			"BeginRequest": "Begin request", "EndRequest": "End request"}[r.event]},
		"category": value("Administrative"), "eventTimestamp": r.at.UTC().Format(
			"2006-01-02T15:04:05.0000000Z"),
		"id":    fmt.Sprintf("%s/events/%s/ticks/%d", r.resource, r.id, ticks(r.at)),
		"level": r.level(), "operationId": r.operationID, "operationName": object{
			"value": r.operation, "localizedValue": operationTitle(r.operation)},
		"resourceGroupName": r.resource.ResourceGroup(), "resourceProviderName": value(provider),
		"resourceType": value(r.kind), "resourceId": string(r.resource),
		"status": value(r.status), "subStatus": r.subStatusDocument(),
		"submissionTimestamp": r.at.UTC().Format(time.RFC3339),
		"subscriptionId":      r.resource.Subscription(), "tenantId": tenant,
		"properties": properties, "relatedEvents": []any{},
	}
}

// ticks counts 100 ns since the year 1.
func ticks(t time.Time) int64 { return t.UnixNano()/100 + 621355968000000000 }

// operationTitle is how the log names an operation to people: Create or Update Route Table.
func operationTitle(operation string) string {
	parts := strings.Split(operation, "/")
	if len(parts) < 3 {
		return operation
	}
	verb, noun := parts[len(parts)-1], parts[len(parts)-2]
	if verb == "action" {
		return operation
	}
	var words strings.Builder
	for i, r := range strings.TrimSuffix(noun, "s") {
		if i > 0 && unicode.IsUpper(r) {
			words.WriteByte(' ')
		}
		if i == 0 {
			r = unicode.ToUpper(r)
		}
		words.WriteRune(r)
	}
	return map[string]string{"write": "Create or Update ", "delete": "Delete "}[verb] +
		words.String()
}

// field is what a filter or an alert's condition asks for by name; false where there is no such
// field.
func (r activityRecord) field(name string) (string, bool) {
	switch strings.ToLower(name) {
	case "category":
		return "Administrative", true
	case "caller":
		return r.who.ObjectID, true
	case "level", "levels":
		return r.level(), true
	case "operationname":
		return r.operation, true
	case "resourcegroup", "resourcegroupname":
		return r.resource.ResourceGroup(), true
	case "resourceid", "resourceuri":
		return string(r.resource), true
	case "resourceprovider":
		provider, _, _ := strings.Cut(r.operation, "/")
		return provider, true
	case "resourcetype":
		return r.kind, true
	case "status":
		return r.status, true
	case "substatus":
		return r.subStatus, true
	case "correlationid":
		return r.correlationID, true
	case "eventchannels": // all there is here
		return "Admin, Operation", true
	}
	if property, ok := strings.CutPrefix(strings.ToLower(name), "properties."); ok {
		for k, v := range r.properties("") {
			if strings.EqualFold(k, property) {
				return fmt.Sprint(v), true
			}
		}
		return "", true
	}
	return "", false
}

// filterTerm is one comparison; az leaves the quotes of a time out, and its zone, which is UTC.
var filterTerm = regexp.MustCompile(`(?i)^\s*(\w+)\s+(eq|ge|le)\s+(?:'([^']*)'|([^'\s]+))\s*$`)

// keptDays is how long the activity log keeps its records.
const keptDays = 90

// activityFilter reads a $filter: terms joined by and.
func activityFilter(filter string, now time.Time) (func(activityRecord) bool, *failure) {
	var tests []func(activityRecord) bool
	for _, term := range regexp.MustCompile(`(?i)\s+and\s+`).Split(filter, -1) {
		m := filterTerm.FindStringSubmatch(term)
		if m == nil {
			return nil, fail(http.StatusBadRequest, "BadRequest",
				"The $filter term %q cannot be read.", term)
		}
		field, op, value := strings.ToLower(m[1]), strings.ToLower(m[2]), m[3]+m[4]
		if field == "eventtimestamp" {
			at, err := time.Parse(time.RFC3339Nano, value)
			if err != nil {
				at, err = time.Parse("2006-01-02T15:04:05", value) // takes fractions, too
			}
			if err != nil {
				return nil, fail(http.StatusBadRequest, "BadRequest",
					"eventTimestamp %q is no time.", value)
			}
			if op == "ge" && at.Before(now.AddDate(0, 0, -keptDays)) { // recorded
				return nil, fail(http.StatusBadRequest, "BadRequest",
					"The start time cannot be more than 90 days in the past.")
			}
			if op == "le" {
				tests = append(tests, func(r activityRecord) bool { return !r.at.After(at) })
			} else {
				tests = append(tests, func(r activityRecord) bool { return !r.at.Before(at) })
			}
			continue
		}
		if _, known := (activityRecord{}).field(field); !known || op != "eq" {
			return nil, fail(http.StatusBadRequest, "BadRequest",
				"$filter cannot use the field %q with %s.", m[1], op)
		}
		wanted := []string{value}
		if field == "levels" || field == "status" { // lists, in one string
			wanted = strings.Split(value, ",")
		}
		tests = append(tests, func(r activityRecord) bool {
			have, _ := r.field(field)
			for _, w := range wanted {
				if strings.EqualFold(strings.TrimSpace(w), have) {
					return true
				}
			}
			return field == "eventchannels"
		})
	}
	return func(r activityRecord) bool {
		for _, test := range tests {
			if !test(r) {
				return false
			}
		}
		return true
	}, nil
}

// activityCall answers a query of the activity log: newest first, in pages.
func (s *insights) activityCall(c *call) (reply, *failure, bool) {
	if len(c.path) != 7 ||
		!strings.HasSuffix(c.key(), "/providers/microsoft.insights/eventtypes/management/values") {
		return reply{}, nil, false
	}
	matches, f := activityFilter(c.param("$filter"), c.now())
	if f != nil {
		return reply{}, f, true
	}
	end := len(s.kernel.activity)
	if token := c.param("$skiptoken"); token != "" {
		for i, r := range s.kernel.activity {
			if r.id == token {
				end = i
			}
		}
	}
	values := []object{}
	next := ""
	for i := end - 1; i >= 0; i-- {
		r := s.kernel.activity[i]
		if !strings.EqualFold(r.resource.Subscription(), c.path[1]) || !matches(r) ||
			c.filtered && !s.authorization.allowed(c.who,
				"Microsoft.Insights/eventtypes/values/read",
				r.resource) {
			continue
		}
		if len(values) == s.kernel.opts.PageSize {
			break
		}
		values = append(values, selected(r.document(s.kernel.tenantOf(c.path[1])),
			c.param("$select")))
		next = r.id
	}
	doc := object{"value": values}
	if len(values) == s.kernel.opts.PageSize {
		query := map[string]string{"$filter": c.param("$filter"), "$skiptoken": next}
		if fields := c.param("$select"); fields != "" {
			query["$select"] = fields
		}
		doc["nextLink"] = c.link(query)
	}
	return ok(doc), nil, true
}

// selected leaves of a record what $select names.
func selected(doc object, fields string) object {
	if fields == "" {
		return doc
	}
	out := object{}
	for _, wanted := range strings.Split(fields, ",") {
		for k, v := range doc {
			if strings.EqualFold(strings.TrimSpace(wanted), k) {
				out[k] = v
			}
		}
	}
	return out
}
