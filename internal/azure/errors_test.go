package azure_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// written writes a table once and returns how long that took.
func written(t *testing.T, c *azure.Client, id arm.ID) (time.Duration, error) {
	t.Helper()
	start := time.Now()
	_, err := c.Write(t.Context(), id, func(doc arm.Document) ([]byte, error) {
		if bytes.Contains(doc.Raw, []byte(`"disableBgpRoutePropagation":true`)) {
			return nil, nil
		}
		return []byte(`{"location":"westeurope","properties":{"disableBgpRoutePropagation":true}}`),
			nil
	}, nil)
	return time.Since(start), err
}

// TestRefusedWrite: which refusals of a PUT are transient, and the messages of the others. The
// bodies are Azure's, shortened.
func TestRefusedWrite(t *testing.T) {
	const another = `{"error":{"code":"RetryableError","message":"A retryable error occurred.","details":[{"code":"RetryableErrorDueToAnotherOperation","message":"Operation PutRouteTableOperation (1) is updating resource t00. The call can be retried in 12 seconds."}]}}`
	for name, tt := range map[string]struct {
		status     int
		retryAfter string
		body       string
		took       time.Duration // 0: it is not sent again
		err        string
	}{
		"another operation": {429, "12", another, 12 * time.Second, ""},
		"referenced resource, 429": {429, "",
			`{"error":{"code":"RetryableError","message":"A retryable error occurred.","details":[{"code":"ReferencedResourceNotProvisioned","message":"Cannot proceed"}]}}`,
			time.Second, ""},
		"referenced resource, 400": {400, "",
			`{"error":{"code":"ReferencedResourceNotProvisioned","message":"Cannot proceed","details":[]}}`, time.Second, ""},
		"referenced, in details": {400, "",
			`{"error":{"code":"BadRequest","message":"No.","details":[{"code":"ReferencedResourceNotProvisioned","message":"Cannot proceed"}]}}`, time.Second, ""},
		"conflict": {409, "",
			`{"error":{"code":"Conflict","message":"The network is being updated."}}`, time.Second,
			""},
		"a mistake, with details": {400, "",
			`{"error":{"code":"InvalidResourceReference","message":"Not found.","details":[{"code":"NotFound","message":"Resource x\n not found."}]}}`, 0,
			"InvalidResourceReference: Not found. NotFound: Resource x not found."},
		"a policy, in details": {409, "",
			`{"error":{"code":"Conflict","message":"Denied.","details":[{"code":"RequestDisallowedByPolicy","message":"Denied."}]}}`, 0,
			"Conflict: Denied."},
		"details of another form": {400, "",
			`{"error":{"code":"Bad","message":"No.","details":"x"}}`, 0, "Bad: No."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{})
				id := tables(t, e, 1, 1, 1)[0]
				refuse := &refusing{method: "PUT", suffix: string(id), status: tt.status, count: 1,
					body: tt.body, next: emulatortest.Transport(t, e)}
				if tt.retryAfter != "" {
					refuse.header = map[string]string{"Retry-After": tt.retryAfter}
				}
				c := emulatortest.ClientOver(t, refuse, e, emulatortest.Keeper)
				took, err := written(t, c, id)
				var fault *azure.Error
				switch {
				case tt.err == "" && (err != nil || took < tt.took || took > tt.took+time.Second):
					t.Errorf("it took %s, want %s: %v", took, tt.took, err)
				case tt.err != "" && (!errors.As(err, &fault) || fault.Reason() != tt.err ||
					len(refuse.matched) != 1):
					t.Errorf("%d PUTs, then %v\nwant %s", len(refuse.matched), err, tt.err)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestEndedOperation: an operation that another one ended is started again, whatever its error
// says. A permanently refused one is not.
func TestEndedOperation(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		err  string
	}{
		"canceled, no more": {`{"status":"Canceled"}`, ""},
		"canceled": {
			`{"status":"Canceled","error":{"code":"Canceled","message":"Operation was canceled."}}`,
			""},
		"preempted": {
			`{"status":"Failed","error":{"code":"OperationPreempted","message":"A later one."}}`,
			""},
		"superseded": {
			`{"status":"Canceled","error":{"code":"CanceledAndSupersededDueToAnotherOperation","message":"Superseded."}}`, ""},
		"superseded, details": {
			`{"status":"Failed","error":{"code":"OperationFailed","message":"No.","details":[{"code":"CanceledAndSupersededDueToAnotherOperation","message":"Superseded."}]}}`, ""},
		"Azure's fault": {
			`{"status":"Failed","error":{"code":"InternalServerError","message":"An error occurred."}}`, ""},
		"a policy": {`{"status":"Canceled","error":{"code":"Canceled","message":"Stopped.","details":[{"code":"RequestDisallowedByPolicy","message":"By policy p."}]}}`,
			"Canceled: Stopped. RequestDisallowedByPolicy: By policy p."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{OperationTime: 2 * time.Second})
				id := tables(t, e, 1, 1, 1)[0]
				time.Sleep(3 * time.Second)
				if _, err := e.Inject(emulator.Fault{Method: "PUT", Path: "t00$", Fail: true,
					Code: "OperationPreempted"}); err != nil {
					t.Fatal(err)
				}
				next, ended := emulatortest.Transport(t, e), false
				c := emulatortest.ClientOver(t,
					roundTrip(func(r *http.Request) (*http.Response, error) {
						response, err := next.RoundTrip(r)
						if err != nil || ended || !strings.Contains(r.URL.Path, "/operations/") {
							return response, err
						}
						body, err := io.ReadAll(response.Body)
						if err != nil {
							return nil, err
						}
						if ended = bytes.Contains(body, []byte(`"Failed"`)); ended {
							body = []byte(tt.body)
						}
						response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)),
							int64(len(body))
						return response, nil
					}), e, emulatortest.Keeper)
				took, err := written(t, c, id)
				var fault *azure.Error
				switch {
				case !ended:
					t.Fatal("no operation ended")
				case tt.err == "" && (err != nil || took > 10*time.Second):
					t.Errorf("it took %s: %v", took, err)
				case tt.err != "" && (!errors.As(err, &fault) || fault.Reason() != tt.err):
					t.Errorf("%v\nwant %s", err, tt.err)
				}
			})
		})
	}
}
