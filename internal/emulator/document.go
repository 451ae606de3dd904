package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

func setDefault(o object, field string, value any) {
	if o[field] == nil || o[field] == "" {
		o[field] = value
	}
}

// numberOf reads a whole number, however it came; 0 when it is none.
func numberOf(o object, field string) int {
	var n int
	_, _ = fmt.Sscan(fmt.Sprint(o[field]), &n) // no number: 0
	return n
}

func items(objects []object) []any {
	out := make([]any, len(objects))
	for i, o := range objects {
		out[i] = o
	}
	return out
}

// checkList refuses what should be a list of objects and is something else.
func checkList(o object, name string) *failure {
	items, isList := o[name].([]any)
	if o[name] != nil && (!isList || len(listAt(o, name)) != len(items)) {
		return fail(http.StatusBadRequest, "InvalidRequestFormat",
			"Cannot parse the request: %s is no list of objects.", name)
	}
	return nil
}

// list returns the strings in a list.
func list(o object, name string) []string {
	items, _ := o[name].([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// linkOf returns the ID that properties.<field>.id holds, or "".
func linkOf(body object, field string) arm.ID {
	id, _ := objectAt(body, "properties", field)["id"].(string)
	return arm.ID(id)
}

// objectAt follows names into nested objects; nil when one is missing.
func objectAt(o object, names ...string) object {
	for _, name := range names {
		next, ok := o[name].(object)
		if !ok {
			return nil
		}
		o = next
	}
	return o
}

// listAt returns the list of objects under a name.
func listAt(o object, name string) []object {
	items, _ := o[name].([]any)
	out := make([]object, 0, len(items))
	for _, item := range items {
		if child, ok := item.(object); ok {
			out = append(out, child)
		}
	}
	return out
}

// text returns a string field, or "".
func text(o object, name string) string {
	s, _ := o[name].(string)
	return s
}

// clone copies an object deeply.
func clone(o object) object {
	out := make(object, len(o))
	for k, v := range o {
		out[k] = cloneValue(v)
	}
	return out
}

func cloneValue(v any) any {
	switch x := v.(type) {
	case object:
		return clone(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = cloneValue(x[i])
		}
		return out
	}
	return v
}

// encode writes JSON as Azure does: no HTML escapes.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only decoded JSON and plain values get here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decodeObject reads a request body; numbers stay as they were written.
func decodeObject(body []byte) (object, *failure) {
	var o object
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&o); err != nil || o == nil {
		return nil, fail(http.StatusBadRequest, "InvalidRequestContent",
			"The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return o, nil
}

// partOf reports whether an ID is of a part of a resource.
func partOf(id, whole arm.ID) bool { return strings.HasPrefix(id.Key(), whole.Key()+"/") }

// normalLocation spells a location as Azure answers it: West Europe is westeurope.
func normalLocation(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// networkVersion is the api-version at which the emulator itself reads and writes documents.
const networkVersion = "2025-05-01"

// guidOf is a GUID that Azure makes for a resource: the same for the same one.
func guidOf(what string, id arm.ID) string {
	return uuid.NewSHA1(uuid.Nil, []byte(what+" "+id.Key())).String()
}
