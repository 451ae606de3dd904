package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// event is the part of a posted event that is used: the resources that it names and who changed
// them, or the code of a handshake. No link in it is ever followed.
type event struct {
	keeper.Event // its texts are safe to display
	// identities made the change.
	identities []string
	// validation is the code that Event Grid expects back before it sends events.
	validation string
}

// Limits of a resource ID: Azure's own are shorter.
const (
	longestID  = 1024
	deepestID  = 40 // slashes
	longestVal = 256
)

// add notes a resource. It ignores texts that are not resource IDs.
func (e *event) add(ids ...string) {
	for _, text := range ids {
		if len(text) > longestID || strings.Count(text, "/") > deepestID {
			continue
		}
		if id, err := arm.ParseID(text); err == nil {
			e.Resources = append(e.Resources, id)
		}
	}
}

// parse reads what Azure Monitor (both alert schemas) and Event Grid (its own schema and
// CloudEvents, one or many) post. The error is one line.
func parse(header http.Header, body []byte) ([]event, error) {
	// CloudEvents in binary mode: the attributes are in the header
	if header.Get("ce-specversion") != "" {
		e := event{Event: keeper.Event{Format: "CloudEvents", At: timeOf(header.Get("ce-time"))}}
		e.add(header.Get("ce-subject"))
		var any json.RawMessage
		if err := json.Unmarshal(body, &any); err != nil {
			return nil, unexpected("the body", err)
		}
		err := e.data(any)
		return []event{e}, err
	}
	if isArray(body) {
		var batch []json.RawMessage
		if err := json.Unmarshal(body, &batch); err != nil {
			return nil, unexpected("the body", err)
		}
		events := make([]event, len(batch))
		for i, one := range batch {
			if err := events[i].one(one); err != nil {
				return nil, fmt.Errorf("event %d: %w", i, err)
			}
		}
		return events, nil
	}
	var e event
	if err := e.one(body); err != nil {
		return nil, err
	}
	return []event{e}, nil
}

// by notes who made a change.
func (e *event) by(a actor) {
	e.Caller, e.Correlation, e.identities = a.name(), text(a.Correlation), a.identities()
	e.Operation, e.Status = text(a.Operation), text(a.Status)
	if at := timeOf(a.Timestamp); !at.IsZero() {
		e.At = at
	}
}

// text returns a value as one short line, "" if it is no text. The activity log has some values as
// an object with a value and a localized value.
func text(value any) string {
	if object, is := value.(map[string]any); is {
		value = object["value"]
	}
	line, _ := value.(string)
	return printable(line)
}

// timeOf reads a time, the zero time if it is none.
func timeOf(value any) time.Time {
	at, err := time.Parse(time.RFC3339, text(value))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

func isArray(body []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(string(body[:min(len(body), 64)]), " \t\r\n"), "[")
}

// one reads one alert or event.
func (e *event) one(raw []byte) error {
	var head struct {
		SchemaID    string          `json:"schemaId"`
		SpecVersion string          `json:"specversion"`
		EventType   string          `json:"eventType"`
		Subject     string          `json:"subject"`
		EventTime   any             `json:"eventTime"`
		Time        any             `json:"time"`
		Data        json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return unexpected("it", err)
	}
	switch {
	case strings.EqualFold(head.SchemaID, "azureMonitorCommonAlertSchema"):
		e.Format = "Azure Monitor alert"
		return e.commonAlert(head.Data)
	case strings.EqualFold(head.SchemaID, "Microsoft.Insights/activityLogs"):
		e.Format = "Azure Monitor activity log alert"
		return e.legacyAlert(head.Data)
	case head.SchemaID != "":
		return fmt.Errorf("alerts with schema %.60q are not supported", head.SchemaID)
	case strings.EqualFold(head.EventType, "Microsoft.EventGrid.SubscriptionValidationEvent"):
		return e.handshake(head.Data)
	case head.EventType != "", head.SpecVersion != "":
		e.Format, e.At = "Event Grid", timeOf(head.EventTime)
		if head.SpecVersion != "" {
			e.Format, e.At = "CloudEvents", timeOf(head.Time)
		}
		e.add(head.Subject)
		return e.data(head.Data)
	}
	return fmt.Errorf("expected an Azure Monitor alert, an Event Grid event or a CloudEvent")
}

func (e *event) commonAlert(raw []byte) error {
	var data struct {
		Essentials struct {
			AlertTargetIDs []string `json:"alertTargetIDs"`
		} `json:"essentials"`
		AlertContext struct {
			actor
			Authorization scope `json:"authorization"`
		} `json:"alertContext"`
	}
	if err := decode(raw, &data); err != nil {
		return err
	}
	e.add(data.Essentials.AlertTargetIDs...)
	e.add(data.AlertContext.Authorization.Scope)
	e.by(data.AlertContext.actor)
	return nil
}

func (e *event) legacyAlert(raw []byte) error {
	var data struct {
		Context struct {
			ActivityLog struct {
				actor
				Authorization scope  `json:"authorization"`
				ResourceID    string `json:"resourceId"`
			} `json:"activityLog"`
		} `json:"context"`
	}
	if err := decode(raw, &data); err != nil {
		return err
	}
	e.add(data.Context.ActivityLog.ResourceID, data.Context.ActivityLog.Authorization.Scope)
	e.by(data.Context.ActivityLog.actor)
	return nil
}

// scope is what an operation was authorized on: the resource itself.
type scope struct {
	Scope string `json:"scope"`
}

func (e *event) handshake(raw []byte) error {
	var data struct {
		ValidationCode string `json:"validationCode"`
	}
	if err := decode(raw, &data); err != nil {
		return err
	}
	if data.ValidationCode == "" || len(data.ValidationCode) > longestVal {
		return fmt.Errorf("the handshake has no validation code")
	}
	e.validation = data.ValidationCode
	return nil
}

// data reads the data of an event about a resource. For other events it can be anything.
func (e *event) data(raw []byte) error {
	var some struct {
		actor
		ResourceURI   string `json:"resourceUri"`
		Authorization scope  `json:"authorization"`
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	if err := decode(raw, &some); err != nil {
		return err
	}
	e.add(some.ResourceURI, some.Authorization.Scope)
	e.by(some.actor)
	return nil
}

func decode(raw []byte, into any) error {
	if len(raw) == 0 {
		return fmt.Errorf("it has no data")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return unexpected("its data", err)
	}
	return nil
}

// readable reports whether events can have a content type.
func readable(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "application/json" || kind == "application/cloudevents+json" ||
		kind == "application/cloudevents-batch+json")
}

// unexpected tells the sender what is wrong with JSON.
func unexpected(what string, err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s has the wrong shape: %.200s is a JSON %s", what, kind.Field,
			kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("%s has the wrong shape: it is a JSON %s", what, kind.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("%s is not JSON: %w at byte %d", what, syntax, syntax.Offset)
	}
	return fmt.Errorf("%s is not JSON: %w", what, err)
}
