package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// recorder writes calls as JSON, one per line, in the form of recordings of Azure. It removes
// everything that identifies a person, a tenant or a subscription:
//
//	what                       | in the recording
//	---------------------------|-----------------------------------------------------------------
//	headers                    | only those below; never Authorization
//	GUIDs, also in ETags       | replaced, equal ones by equal ones; the subscription by zeros
//	email addresses            | redacted@example.com
//	tags                       | only those of this program, without who made the group
//	records of the log         | only the fields below
//	permissions, roles, locks  | removed, like the messages of policies and locks
//	links to operations        | without their signatures
type recorder struct {
	w     io.Writer
	guids map[string]string
	err   error // of the first failed write
}

var (
	answerHeaders = []string{
		"azure-asyncoperation", "location", "retry-after", "etag", "date", "content-type",
		"x-ms-request-id", "x-ms-correlation-request-id",
	}
	logFields = []string{
		"correlationId", "eventName", "eventTimestamp", "level", "operationName", "resourceId",
		"status",
		"subStatus", "submissionTimestamp", "category",
	}
	// withheld are the calls whose answers describe the login or others.
	withheld = []string{
		"permissions", "role assignments", "role definitions", "deny assignments", "locks",
		"clusters",
		"scale sets", "application gateways",
	}
	// ownRefusals are about this login and this group; other refusals can name policies and locks.
	ownRefusals = []string{"AuthorizationFailed", "LinkedAuthorizationFailed"}
	personal    = []string{"systemdata", "createdby", "changedby", "managedby", "identity"}
	guid        = lazy.Regexp(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	mail        = lazy.Regexp(`[\w.+#%-]+@[\w-]+(\.[\w-]+)+`)
)

// zeros replaces the subscription.
const zeros = "00000000-0000-0000-0000-000000000000"

func newRecorder(w io.Writer, subscription string) *recorder {
	return &recorder{w: w, guids: map[string]string{strings.ToLower(subscription): zeros}}
}

// line is a call in a recording.
type line struct {
	M  string            `json:"m"`
	U  string            `json:"u"`
	H  map[string]string `json:"h"`
	B  string            `json:"b"`
	S  int               `json:"s"`
	RH map[string]string `json:"rh"`
	RB string            `json:"rb"`
}

func (r *recorder) add(reply azure.Reply) {
	if r.w == nil {
		return
	}
	sent := map[string]string{"accept": "application/json"}
	if reply.Request.Body != nil {
		sent["content-type"] = "application/json"
	}
	if reply.IfMatch != "" {
		sent["if-match"] = r.text(reply.IfMatch)
	}
	l := line{M: reply.Method, U: r.link(reply.Address), H: sent, S: reply.Status,
		B: r.body(reply.Request.Body), RH: map[string]string{}}
	for name := range reply.Header {
		name = strings.ToLower(name)
		if slices.Contains(answerHeaders, name) || strings.HasPrefix(name, "x-ms-ratelimit-") {
			l.RH[name] = r.header(name, reply.Header.Get(name))
		}
	}
	l.RB = r.body(reply.Body)
	switch fault := reply.Fault(); {
	case fault == nil && slices.Contains(withheld, wordOf(reply.Address)):
		l.RB = `{"value":[]}`
	case fault != nil && fault.Refused() && !slices.Contains(ownRefusals, fault.Code):
		l.RB = fmt.Sprintf(`{"error":{"code":%q,"message":"withheld"}}`, fault.Code)
	}
	raw, err := plain(l)
	if err == nil {
		_, err = r.w.Write(append(raw, '\n'))
	}
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("the recording cannot be written: %w", err)
	}
}

func (r *recorder) header(name, value string) string {
	if name == "azure-asyncoperation" || name == "location" {
		return r.link(value)
	}
	return r.text(value)
}

// link returns an address in the public cloud, without its signature.
func (r *recorder) link(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	query := url.Values{}
	for name, values := range u.Query() {
		if name == "api-version" || name == "$filter" {
			query.Set(name, r.text(values[0]))
		}
	}
	u.Scheme, u.Host, u.User, u.Fragment = "https", "management.azure.com", nil, ""
	u.Path, u.RawPath, u.RawQuery = r.text(u.Path), "", query.Encode()
	return u.String()
}

// body returns a document without personal data.
func (r *recorder) body(raw []byte) string {
	doc, err := parsed(raw)
	if err != nil {
		return r.text(string(raw))
	}
	clean, err := plain(without(doc))
	if err != nil {
		return ""
	}
	return r.text(string(clean))
}

// without removes personal data.
func without(v any) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = without(x[i])
		}
	case object:
		_, isRecord := x["eventDataId"]
		for name, value := range x {
			lower := strings.ToLower(name)
			switch {
			case slices.Contains(personal, lower), isRecord && !slices.Contains(logFields, name):
				delete(x, name)
			case lower == "tags":
				x[name] = ownTags(value)
			case lower == "nextlink":
				x[name] = "https://management.azure.com/next"
			default:
				x[name] = without(value)
			}
		}
	}
	return v
}

func ownTags(v any) any {
	tags, _ := v.(object)
	own := object{}
	for name, value := range tags {
		if name == Tag || name == untilTag {
			own[name] = value
		}
	}
	return own
}

// text returns a text without GUIDs and email addresses.
func (r *recorder) text(s string) string {
	s = mail().ReplaceAllString(s, "redacted@example.com")
	return guid().ReplaceAllStringFunc(s, func(found string) string {
		key := strings.ToLower(found)
		if r.guids[key] == "" {
			r.guids[key] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(r.guids))
		}
		return r.guids[key]
	})
}

// plain writes JSON without HTML escapes.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
