package report

import (
	"encoding/json"
	"io"
	"reflect"
)

// WriteJSON writes a value as one line of JSON. Its lists are never null.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(withLists(reflect.ValueOf(v)).Interface())
}

func put(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// withLists returns a copy of a value with empty lists where JSON would show null.
func withLists(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // text
			return v
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(withLists(v.Index(i)))
		}
		return out
	case reflect.Pointer:
		if !v.IsNil() {
			out := reflect.New(v.Type().Elem())
			out.Elem().Set(withLists(v.Elem()))
			return out
		}
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		out.Set(v)
		for i := range out.NumField() {
			if field := out.Field(i); field.CanSet() {
				field.Set(withLists(field))
			}
		}
		return out
	}
	return v
}
