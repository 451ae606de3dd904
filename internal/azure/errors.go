package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// Error is a call to ARM that failed.
type Error struct {
	Method string
	ID     arm.ID // of the call: a resource, or the path of a list
	Status int    // HTTP status, 0 when there was no answer
	Code   string // ARM's error code
	// Message is ARM's, on one line.
	Message    string
	RetryAfter time.Duration // how long ARM asked to wait, or 0
	Err        error         // the error, if there was no answer

	cause string // the code in ARM's details, or ""
	late  bool   // the caller stopped waiting
}

// Error returns one line: the call and ARM's answer.
func (e *Error) Error() string {
	if e.Status == 0 && e.login() { // the same for every call
		return e.Message
	}
	return fmt.Sprintf("%s %s: %s", e.Method, e.ID, e.Reason())
}

// Reason returns ARM's answer without the call.
func (e *Error) Reason() string {
	switch {
	case e.Status == 0 && e.login(), e.late:
		return e.Message
	case e.Status == 0:
		return "no answer: " + e.Message
	case e.Code == "":
		return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// setAnswer sets the fields from an error answer.
func (e *Error) setAnswer(response *http.Response, payload []byte) *Error {
	e.Status = response.StatusCode
	e.setBody(payload)
	if e.Message == "" {
		e.Message = http.StatusText(e.Status)
	}
	e.RetryAfter = retryAfter(response)
	return e
}

// setBody sets the fields from an error body.
func (e *Error) setBody(payload []byte) {
	said := errorBody(payload)
	e.Code, e.Message = said.Code, oneLine(said.Message)
	for _, detail := range said.Details {
		if e.cause == "" {
			e.cause = detail.Code
		}
		if text := oneLine(detail.Message); text != "" && !strings.Contains(e.Message, text) {
			e.Message = strings.TrimSpace(e.Message + " " + strings.TrimPrefix(detail.Code+": ",
				": ") + text)
		}
	}
}

// errorDocument is ARM's error. The details name its causes.
type errorDocument struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details []errorDocument `json:"details"`
}

// errorBody reads ARM's error body: {"error":{"code","message","details"}}. Some providers omit the
// outer object.
func errorBody(payload []byte) errorDocument {
	var doc struct {
		Error *errorDocument `json:"error"`
		errorDocument
	}
	var other *json.UnmarshalTypeError // a field of another type: the other fields are decoded
	switch err := json.Unmarshal(payload, &doc); {
	case err != nil && !errors.As(err, &other):
		return errorDocument{}
	case doc.Error != nil:
		return *doc.Error
	}
	return doc.errorDocument
}

// operationFault returns an operation that failed or was canceled. The code alone shows the kind of
// failure, so the status is set to match it.
func operationFault(id arm.ID, payload []byte) *Error {
	e := &Error{Method: http.MethodPut, ID: id, Status: http.StatusConflict}
	e.setBody(payload)
	if e.Code == "" {
		e.Code = gjson.GetBytes(payload, "status").String()
	}
	if serverFaults[e.Code] {
		e.Status = http.StatusInternalServerError
	}
	return e
}

// permanent lists the codes that waiting does not fix, whatever the status ("Resolve errors for
// common Azure deployments").
var permanent = map[string]bool{
	"ScopeLocked":                       true,
	"AmbiguousPolicyEvaluationPaths":    true,
	"RequestDisallowedByPolicy":         true,
	"AuthorizationFailed":               true,
	"LinkedAuthorizationFailed":         true,
	"RequestDisallowedByAzure":          true,
	"InvalidAuthenticationToken":        true,
	"DenyAssignmentAuthorizationFailed": true,
}

// serverFaults lists the codes of operations that failed through Azure's fault; such failures pass.
var serverFaults = map[string]bool{
	"InternalServerError":    true,
	"InternalError":          true,
	"InternalOperationError": true,
	"OperationTimedOut":      true,
	"ServerTimeout":          true,
	"ServiceUnavailable":     true,
	"GatewayTimeout":         true,
}

// busy lists the codes for a resource that another operation keeps busy, or whose operation another
// one ended. The status does not matter: ReferencedResourceNotProvisioned comes with 400 and with
// 429. RetryableError names its cause in details (recorded traffic of Azure, 2023 to 2025).
var busy = map[string]bool{
	"AnotherOperationInProgress":                 true,
	"RetryableError":                             true,
	"RetryableErrorDueToAnotherOperation":        true,
	"ReferencedResourceNotProvisioned":           true,
	"Canceled":                                   true,
	"OperationPreempted":                         true,
	"CanceledAndSupersededDueToAnotherOperation": true,
}

// Transient reports whether the same call may succeed later without any change.
func (e *Error) Transient() bool {
	switch {
	case e.login(), permanent[e.Code], permanent[e.cause]:
		return false
	case e.Status == 0:
		return e.Err != nil
	case e.Status == http.StatusBadRequest, e.Status == http.StatusConflict:
		// Azure answers 409 Conflict while a virtual network is being updated.
		return e.Busy() || e.Status == http.StatusConflict && e.Code == "Conflict"
	}
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout ||
		e.Status >= 500
}

// Busy reports whether one busy resource refuses the call. Azure then says when to call
// again: after 11 to 14 seconds (recorded traffic of Azure, 2023 to 2025).
func (e *Error) Busy() bool { return busy[e.Code] || busy[e.cause] }

// pause returns how long to wait before the same call: for Retry-After, or until the call may probe
// a limit.
func (e *Error) pause() time.Duration {
	if e.Status == http.StatusTooManyRequests && !e.Busy() {
		return min(e.RetryAfter, probeEvery)
	}
	return e.RetryAfter
}

// login reports whether the login failed, so that the call was never made: the SDK marks errors
// that a retry does not fix.
func (e *Error) login() bool {
	var fatal interface {
		error
		NonRetriable()
	}
	return e.Status == 0 && errors.As(e.Err, &fatal)
}

// Refused reports whether ARM refuses for a lasting reason: permissions, locks, policies.
func (e *Error) Refused() bool {
	return e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized ||
		permanent[e.Code] || permanent[e.cause]
}

// stale reports whether the resource was changed since it was read.
func (e *Error) stale() bool { return e.Status == http.StatusPreconditionFailed }

// ErrUndone means that Azure accepted a write, and that its effect was gone when the resource was
// read back.
var ErrUndone = errors.New("written and accepted, but gone when read back: another writer " +
	"changes the same resource")

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// notLoggedIn says what to do without a login.
const notLoggedIn = "not logged in to Azure: run az login, or set AZURE_TENANT_ID, " +
	"AZURE_CLIENT_ID and " +
	"AZURE_CLIENT_SECRET (AZURE_SDK_GO_LOGGING=all shows each way that was tried)"

// refusals explain Entra ID's refusals of a login ("Microsoft Entra authentication and
// authorization error codes").
var refusals = map[string]string{
	"AADSTS7000215": "the client secret is wrong; check AZURE_CLIENT_SECRET",
	"AADSTS7000222": "the client secret has expired; make a new one and set AZURE_CLIENT_SECRET",
	"AADSTS700016": "the tenant has no such application; " +
		"check AZURE_CLIENT_ID and AZURE_TENANT_ID",
	"AADSTS90002": "there is no such tenant; check AZURE_TENANT_ID",
	"AADSTS700024": "the client assertion has expired; check the token file of the workload " +
		"identity",
	"AADSTS70043": "the login has expired; run az login",
	"AADSTS70021": "no federated credential of the identity matches the token's issuer and " +
		"subject",
	"AADSTS700213": "no federated credential of the identity matches the token's subject",
}

// entraLookup matches a failed DNS lookup of Entra ID.
var entraLookup = lazy.Regexp(
	`lookup (login\.[\w.-]+)[^"]*?: (no such host|i/o timeout|[a-z ]*misbehaving|Temporary failure[a-z ]*)`)

// brokenStream matches the errors of a connection that ended. The number of a stream means nothing
// to people, and differs each time.
var brokenStream = lazy.Regexp(`stream error: stream ID \d+; (\w+).*|^(EOF|unexpected EOF)$`)

var aadCode = lazy.Regexp(`AADSTS\d+`)

// gist returns the essence of an error on one line: the cause of a failed connection without the
// address, or how to fix a failed login. Only the log of the Azure SDK shows each login method that
// was tried.
func gist(err error) string {
	if call, ok := errors.AsType[*url.Error](err); ok {
		err = call.Err
	}
	const most = 600
	text := oneLine(err.Error())
	if code := aadCode().FindString(text); code != "" {
		if means := refusals[code]; means != "" {
			return "Entra ID refused the login (" + code + "): " + means
		}
		text = "Entra ID refused the login: " + text[strings.Index(text, code):]
	} else if m := entraLookup().FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("Entra ID cannot be reached: %s: %s; check the network and its DNS",
			m[1], m[2])
	} else if strings.Contains(text, "DefaultAzureCredential") {
		return notLoggedIn
	} else if m := brokenStream().FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the connection ended without an answer (%s)", m[1]+m[2])
	}
	if len(text) > most {
		text = text[:most] + " …"
	}
	return text
}

// asFault separates a failed call from errors that make all further calls pointless: an ended
// context or a failed login.
func asFault(err error) (fault *Error, fatal error) {
	if err == nil {
		return nil, nil
	}
	if errors.As(err, &fault) && !fault.login() {
		return fault, nil
	}
	return nil, err
}
