// Package pastetest gives hostile names to what other packages' tests make findings of, and pastes
// the commands of these findings into a real shell. It is for tests only.
package pastetest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"unsafe"
)

// Rename returns a deep copy of a value in which rename has changed the names of resources: in
// resource IDs, in documents, and everywhere else. Names with a meaning stay, such as names of
// nodes, of types and of Azure's own subnets.
func Rename[T any](value T, rename func(name string) string) T {
	r := renamer{names: map[string]bool{}, rename: rename, seen: map[unsafe.Pointer]reflect.Value{}}
	r.collect = true
	r.copy(reflect.ValueOf(&value).Elem())
	r.collect, r.seen = false, map[unsafe.Pointer]reflect.Value{}
	return r.copy(reflect.ValueOf(&value).Elem()).Interface().(T)
}

type renamer struct {
	names   map[string]bool // in lower case
	rename  func(string) string
	collect bool // only collects the names
	seen    map[unsafe.Pointer]reflect.Value
}

// meaningful are names that Azure, a cloud provider or a test knows.
var meaningful = regexp.MustCompile(
	`(?i)^[0-9a-f]{8}-[0-9a-f-]{27}$|vmss|____|^[\d.:/]*$|^azure.*subnet$|` +
		`^gatewaysubnet$|^ipconfig|^aks-|^(node|)pool\d*$|^(standard|basic|base|free|default|internet)`)

func (r *renamer) add(name string) {
	if !meaningful.MatchString(name) {
		r.names[strings.ToLower(name)] = true
	}
}

// text renames a string: an ID, or a name.
func (r *renamer) text(s string) string {
	const root = "/subscriptions/"
	if !strings.HasPrefix(strings.ToLower(s), root) || strings.Contains(s, " ") {
		if !r.collect && r.names[strings.ToLower(s)] {
			return r.rename(s)
		}
		return s
	}
	parts := strings.Split(s, "/")
	inProvider := -1 // the position after the provider's name
	for i := 2; i < len(parts); i++ {
		name := inProvider < 0 && i%2 == 0 || inProvider >= 0 && (i-inProvider)%2 == 1
		switch {
		case i == 2 && r.collect:
			r.names[strings.ToLower(parts[i])] = true // the subscription, whatever its form
		case name && r.collect:
			r.add(parts[i])
		case name:
			if r.names[strings.ToLower(parts[i])] {
				parts[i] = r.rename(parts[i])
			}
		case strings.EqualFold(parts[i], "providers"):
			i++
			inProvider = i + 1
		}
	}
	return strings.Join(parts, "/")
}

// json renames in a document.
func (r *renamer) json(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var doc any
	if decoder.Decode(&doc) != nil {
		return raw
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(r.copy(reflect.ValueOf(&doc).Elem()).Interface()) != nil {
		return raw
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// copy copies a value and renames in it.
func (r *renamer) copy(v reflect.Value) reflect.Value {
	next := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		next.SetString(r.text(v.String()))
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		next.Set(r.copy(inner))
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		if done, is := r.seen[v.UnsafePointer()]; is && done.Type() == v.Type() {
			return done
		}
		target := reflect.New(v.Type().Elem())
		r.seen[v.UnsafePointer()] = target
		target.Elem().Set(r.copy(v.Elem()))
		return target.Convert(v.Type())
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return reflect.ValueOf(r.json(bytes.Clone(v.Bytes()))).Convert(v.Type())
		}
		next.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			next.Index(i).Set(r.copy(v.Index(i)))
		}
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		next.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			k, item := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
			k.Set(key)
			item.Set(v.MapIndex(key))
			if r.collect && k.Kind() == reflect.String &&
				(k.String() == "name" || k.String() == "address") {
				if name, is := item.Interface().(string); is {
					r.add(name)
				}
			}
			next.SetMapIndex(r.copy(k), r.copy(item))
		}
	case reflect.Struct:
		next.Set(v)
		if !strings.HasPrefix(v.Type().PkgPath(), "routekeeper.dev/") {
			return next
		}
		for i := range v.NumField() {
			from := open(v.Field(i))
			if r.collect {
				r.field(v.Type().Field(i).Name, from)
			}
			open(next.Field(i)).Set(r.copy(from))
		}
	default:
		next.Set(v)
	}
	return next
}

// field collects the names in a field.
func (r *renamer) field(name string, v reflect.Value) {
	switch {
	case name == "Name" && v.Kind() == reflect.String:
		r.add(v.String())
	case identities[name] && v.Kind() == reflect.String && v.String() != "":
		r.names[strings.ToLower(v.String())] = true
	case identities[name] && v.Kind() == reflect.Slice:
		for i := range v.Len() {
			r.names[strings.ToLower(v.Index(i).String())] = true
		}
	}
}

// identities are the fields with object IDs of identities, which are names of any form.
var identities = map[string]bool{"Caller": true, "PrincipalIDs": true, "IngressPrincipal": true}

// open makes a field accessible that is not exported.
func open(field reflect.Value) reflect.Value {
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}
