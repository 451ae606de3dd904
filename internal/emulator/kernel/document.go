package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"routekeeper.dev/routekeeper/internal/arm"
)

func SetDefault(o Object, field string, value any) {
	if o[field] == nil || o[field] == "" {
		o[field] = value
	}
}

// NumberOf reads a whole number of any JSON number type; 0 for anything else.
func NumberOf(o Object, path ...string) int {
	var n int
	_, _ = fmt.Sscan(fmt.Sprint(at(o, path)), &n) // no number: 0
	return n
}

func Items[T any](list []T) []any {
	out := make([]any, len(list))
	for i, item := range list {
		out[i] = item
	}
	return out
}

// IndexOf returns the index of the object with a name, -1 for none.
func IndexOf(list []Object, name string) int {
	return slices.IndexFunc(list, func(o Object) bool {
		return strings.EqualFold(Text(o, "name"), name)
	})
}

// Named returns the object with a name, nil for none.
func Named(list []Object, name string) Object {
	if i := IndexOf(list, name); i >= 0 {
		return list[i]
	}
	return nil
}

// KeyIn returns a key as a map spells it, and the given one if the map has none like it.
func KeyIn[V any](m map[string]V, key string) string {
	if _, there := m[key]; there {
		return key
	}
	for have := range m {
		if strings.EqualFold(have, key) {
			return have
		}
	}
	return key
}

// CheckList refuses a field that is not a list of objects.
func CheckList(o Object, name string) *Failure {
	items, isList := o[name].([]any)
	if o[name] != nil && (!isList || len(ListAt(o, name)) != len(items)) {
		return Unparsable("%s is not a list of objects.", name)
	}
	return nil
}

// List returns the strings in a list.
func List(o Object, path ...string) []string {
	items, _ := at(o, path).([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Links returns references to resources.
func Links(ids []arm.ID) []any {
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = arm.Link(id)
	}
	return out
}

// LinkOf returns the ID in properties.<field>.id, or "".
func LinkOf(body Object, field string) arm.ID {
	return arm.ID(Text(body, "properties", field, "id"))
}

// at returns the value at a path of names, nil if one is missing.
func at(o Object, path []string) any {
	last := len(path) - 1
	return ObjectAt(o, path[:last]...)[path[last]]
}

// ObjectAt follows names into nested objects; nil if one is missing.
func ObjectAt(o Object, names ...string) Object {
	for _, name := range names {
		next, ok := o[name].(Object)
		if !ok {
			return nil
		}
		o = next
	}
	return o
}

// ListAt returns the list of objects at a path.
func ListAt(o Object, path ...string) []Object {
	items, _ := at(o, path).([]any)
	out := make([]Object, 0, len(items))
	for _, item := range items {
		if child, ok := item.(Object); ok {
			out = append(out, child)
		}
	}
	return out
}

// Text returns the string at a path, or "".
func Text(o Object, path ...string) string {
	s, _ := at(o, path).(string)
	return s
}

// Clone copies an object deeply.
func Clone(o Object) Object {
	out := make(Object, len(o))
	for k, v := range o {
		out[k] = CloneValue(v)
	}
	return out
}

func CloneValue(v any) any {
	switch x := v.(type) {
	case Object:
		return Clone(x)
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = CloneValue(x[i])
		}
		return out
	}
	return v
}

// Encode writes JSON as Azure does: no HTML escapes.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only decoded JSON and plain values get here
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// DecodeObject decodes a request body; numbers keep their spelling.
func DecodeObject(body []byte) (Object, *Failure) {
	var o Object
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&o); err != nil || o == nil {
		return nil, Bad("InvalidRequestContent",
			"The request content was invalid and could not be deserialized: '%v'.", err)
	}
	return o, nil
}

// PartOf reports whether an ID is of a part of a resource.
func PartOf(id, whole arm.ID) bool { return strings.HasPrefix(id.Key(), whole.Key()+"/") }

// WholeOf returns the top-level resource of an ID.
func WholeOf(id arm.ID) arm.ID {
	for strings.Count(id.Type(), "/") > 1 {
		id = id.Parent()
	}
	return id
}

// NormalLocation returns Azure's spelling of a location: West Europe is westeurope.
func NormalLocation(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// NetworkVersion is the api-version at which the emulator itself reads and writes documents.
const NetworkVersion = "2025-05-01"

// GuidOf returns a stable GUID for a resource, as Azure assigns one.
func GuidOf(what string, id arm.ID) string {
	return uuid.NewSHA1(uuid.Nil, []byte(what+" "+id.Key())).String()
}
