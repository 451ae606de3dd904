package insights

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"routekeeper.dev/routekeeper/internal/emulator/entra"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// subStatuses are the texts of success statuses in the log.
var subStatuses = map[string]int{"OK": 200, "Created": 201, "Accepted": 202}

func recordSubStatusDocument(r kernel.ActivityRecord) kernel.Object {
	status := subStatuses[r.SubStatus]
	if r.Failure != nil {
		status = r.Failure.Status
	}
	if status == 0 {
		return kernel.Object{"value": "", "localizedValue": ""}
	}
	return kernel.Object{"value": r.SubStatus,
		"localizedValue": fmt.Sprintf("%s (HTTP Status Code: %d)", http.StatusText(status), status)}
}

// recordProperties returns the properties of a record.
func recordProperties(r kernel.ActivityRecord, tenant string) kernel.Object {
	p := kernel.Object{
		"eventCategory": "Administrative", "entity": string(r.Resource), "message": r.Operation,
		"hierarchy": tenant + "/" + r.Resource.Subscription(),
	}
	if r.Failure != nil {
		p["statusCode"], p["serviceRequestId"] = kernel.StatusName(r.Failure.Status), nil
		p["statusMessage"] = string(kernel.Encode(kernel.Object{"error": r.Failure.Document()}))
	}
	return p
}

// recordClaims returns the claims of the caller's token in the log.
func recordClaims(r kernel.ActivityRecord, tenant string) kernel.Object {
	issuer, issued := "https://sts.windows.net/"+tenant+"/", r.At.Add(-time.Minute).Unix()
	claims := kernel.Object{
		"aud": "https://management.core.windows.net/", "iss": issuer, "iat": strconv.FormatInt(
			issued, 10), "nbf": strconv.FormatInt(issued, 10),
		"exp": strconv.FormatInt(issued+int64(entra.TokenLife.Seconds()),
			10), "appid": r.Who.ClientID,
		"appidacr": "1", "idtyp": "app", "ver": "1.0",
		"http://schemas.microsoft.com/identity/claims/identityprovider": issuer,
		"http://schemas.microsoft.com/identity/claims/objectidentifier": r.Who.ObjectID,
		"http://schemas.microsoft.com/identity/claims/tenantid":         tenant,
	}
	if r.Who.Resource != "" {
		claims["xms_mirid"], claims["appidacr"] = r.Who.Resource, "2"
	}
	return claims
}

// recordLevel returns Error for a failure.
func recordLevel(r kernel.ActivityRecord) string {
	if r.Failure != nil {
		return "Error"
	}
	return "Informational"
}

// recordDocument returns the record as the activity log returns it.
func recordDocument(r kernel.ActivityRecord, tenant string) kernel.Object {
	value := func(s string) kernel.Object { return kernel.Object{"value": s, "localizedValue": s} }
	provider, _, _ := strings.Cut(r.Operation, "/")
	properties := recordProperties(r, tenant)
	if r.Body != nil && r.Event == "BeginRequest" {
		properties["requestbody"] = string(r.Body)
	}
	return kernel.Object{
		"authorization": kernel.Object{"action": r.Operation, "scope": string(r.Resource)},
		"caller":        r.Who.ObjectID, "channels": "Operation", "claims": recordClaims(r, tenant),
		"correlationId": r.CorrelationID, "description": "", "eventDataId": r.ID,
		"eventName": kernel.Object{"value": r.Event, "localizedValue": map[string]string{
			"BeginRequest": "Begin request", "EndRequest": "End request"}[r.Event]},
		"category": value("Administrative"), "eventTimestamp": r.At.UTC().Format(
			"2006-01-02T15:04:05.0000000Z"),
		"id":    fmt.Sprintf("%s/events/%s/ticks/%d", r.Resource, r.ID, ticks(r.At)),
		"level": recordLevel(r), "operationId": r.OperationID, "operationName": kernel.Object{
			"value": r.Operation, "localizedValue": operationTitle(r.Operation)},
		"resourceGroupName": r.Resource.ResourceGroup(), "resourceProviderName": value(provider),
		"resourceType": value(r.Kind), "resourceId": string(r.Resource),
		"status": value(r.Status), "subStatus": recordSubStatusDocument(r),
		"submissionTimestamp": r.At.UTC().Format(time.RFC3339),
		"subscriptionId":      r.Resource.Subscription(), "tenantId": tenant,
		"properties": properties, "relatedEvents": []any{},
	}
}

// ticks counts 100 ns since the year 1.
func ticks(t time.Time) int64 { return t.UnixNano()/100 + 621355968000000000 }

// operationTitle returns the log's localized name of an operation: Create or Update Route Table.
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

// recordField returns the field that a filter or an alert's condition names; false if it does not
// exist.
func recordField(r kernel.ActivityRecord, name string) (string, bool) {
	switch strings.ToLower(name) {
	case "category":
		return "Administrative", true
	case "caller":
		return r.Who.ObjectID, true
	case "level", "levels":
		return recordLevel(r), true
	case "operationname":
		return r.Operation, true
	case "resourcegroup", "resourcegroupname":
		return r.Resource.ResourceGroup(), true
	case "resourceid", "resourceuri":
		return string(r.Resource), true
	case "resourceprovider":
		provider, _, _ := strings.Cut(r.Operation, "/")
		return provider, true
	case "resourcetype":
		return r.Kind, true
	case "status":
		return r.Status, true
	case "substatus":
		return r.SubStatus, true
	case "correlationid":
		return r.CorrelationID, true
	case "eventchannels": // the only ones emulated
		return "Admin, Operation", true
	}
	if property, ok := strings.CutPrefix(strings.ToLower(name), "properties."); ok {
		all := recordProperties(r, "")
		if v := all[kernel.KeyIn(all, property)]; v != nil {
			return fmt.Sprint(v), true
		}
		return "", true
	}
	return "", false
}

// filterTerm is one comparison; az leaves out the quotes of a time, and its zone, which is UTC.
var filterTerm = lazy.Regexp(`(?i)^\s*(\w+)\s+(eq|ge|le)\s+(?:'([^']*)'|([^'\s]+))\s*$`)

// keptDays is how long the activity log keeps its records.
const keptDays = 90

// activityFilter reads a $filter: terms joined by and.
func activityFilter(filter string, now time.Time) (func(kernel.ActivityRecord) bool,
	*kernel.Failure) {
	var tests []func(kernel.ActivityRecord) bool
	for _, term := range kernel.AndWord().Split(filter, -1) {
		m := filterTerm().FindStringSubmatch(term)
		if m == nil {
			return nil, kernel.Bad("BadRequest", "The $filter term %q cannot be read.", term)
		}
		field, op, value := strings.ToLower(m[1]), strings.ToLower(m[2]), m[3]+m[4]
		if field == "eventtimestamp" {
			at, err := time.Parse(time.RFC3339Nano, value)
			if err != nil {
				at, err = time.Parse("2006-01-02T15:04:05", value) // accepts fractions, too
			}
			if err != nil {
				return nil, kernel.Bad("BadRequest", "eventTimestamp %q is not a time.", value)
			}
			if op == "ge" && at.Before(now.AddDate(0, 0, -keptDays)) { // recorded
				return nil, kernel.Bad("BadRequest",
					"The start time cannot be more than 90 days in the past.")
			}
			if op == "le" {
				tests = append(tests, func(r kernel.ActivityRecord) bool { return !r.At.After(at) })
			} else {
				tests = append(tests, func(r kernel.ActivityRecord) bool {
					return !r.At.Before(at)
				})
			}
			continue
		}
		if _, known := recordField(kernel.ActivityRecord{}, field); !known || op != "eq" {
			return nil, kernel.Bad("BadRequest",
				"$filter cannot use the field %q with %s.", m[1], op)
		}
		wanted := []string{value}
		if field == "levels" || field == "status" { // lists, in one string
			wanted = strings.Split(value, ",")
		}
		tests = append(tests, func(r kernel.ActivityRecord) bool {
			have, _ := recordField(r, field)
			for _, w := range wanted {
				if strings.EqualFold(strings.TrimSpace(w), have) {
					return true
				}
			}
			return field == "eventchannels"
		})
	}
	return func(r kernel.ActivityRecord) bool {
		for _, test := range tests {
			if !test(r) {
				return false
			}
		}
		return true
	}, nil
}

// activityCall answers a query of the activity log: newest first, in pages.
func (s *Insights) activityCall(c *kernel.Call) (kernel.Reply, *kernel.Failure, bool) {
	if len(c.Path) != 7 ||
		!strings.HasSuffix(c.Key(), "/providers/microsoft.insights/eventtypes/management/values") {
		return kernel.Reply{}, nil, false
	}
	matches, f := activityFilter(c.Param("$filter"), c.Now())
	if f != nil {
		return kernel.Reply{}, f, true
	}
	end := len(s.kernel.Activity)
	if token := c.Param("$skiptoken"); token != "" {
		for i, r := range s.kernel.Activity {
			if r.ID == token {
				end = i
			}
		}
	}
	values := []kernel.Object{}
	next := ""
	for i := end - 1; i >= 0; i-- {
		r := s.kernel.Activity[i]
		if !strings.EqualFold(r.Resource.Subscription(), c.Path[1]) || !matches(r) || c.Filtered &&
			!s.authorization.Allowed(c.Who, "Microsoft.Insights/eventtypes/values/read",
				r.Resource) {
			continue
		}
		if len(values) == s.kernel.Opts.PageSize {
			break
		}
		values = append(values,
			selected(recordDocument(r, s.kernel.Opts.TenantOf(c.Path[1])), c.Param("$select")))
		next = r.ID
	}
	if len(values) < s.kernel.Opts.PageSize {
		next = ""
	}
	return c.PageEnding(values, next), nil, true
}

// selected reduces a record to the fields of $select.
func selected(doc kernel.Object, fields string) kernel.Object {
	if fields == "" {
		return doc
	}
	out := kernel.Object{}
	for _, wanted := range strings.Split(fields, ",") {
		for k, v := range doc {
			if strings.EqualFold(strings.TrimSpace(wanted), k) {
				out[k] = v
			}
		}
	}
	return out
}
