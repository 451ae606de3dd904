package arm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/lazy"
)

// volatile lists the fields that Azure changes with every write. Their differences do not count.
var volatile = map[string]bool{"etag": true, "provisioningState": true}

// maintained lists the fields that Azure maintains itself: back references and the resource GUID.
var maintained = lazy.Regexp(
	`^properties\.(subnets|ipConfigurations|ipConfigurationProfiles|privateEndpoints|applicationGatewayIPConfigurations|resourceGuid)\b`)

// Differences returns the paths of the fields in which two JSON documents differ, sorted, without
// the fields that change with every write (etag, provisioningState). Array elements with names are
// compared by name, as routes[egress]; others in order.
func Differences(a, b []byte) ([]string, error) {
	found, err := differences(a, b)
	return slices.Sorted(maps.Keys(found)), err
}

// Lost returns the paths of what was sent but not read back, sorted: fields that Azure dropped, or
// that another writer changed at the same moment. Fields that Azure adds or maintains do not count.
func Lost(sent, readBack []byte) ([]string, error) {
	found, err := differences(sent, readBack)
	maps.DeleteFunc(found, func(path string, inSent bool) bool {
		return !inSent || maintained().MatchString(path)
	})
	return slices.Sorted(maps.Keys(found)), err
}

// differences returns the paths that differ, and whether the first document has each. It compares
// the texts without decoding them, because a table of 400 routes is read back after each write.
func differences(a, b []byte) (map[string]bool, error) {
	for _, raw := range [][]byte{a, b} {
		if !json.Valid(raw) {
			return nil, DescribeJSON(raw, json.Unmarshal(raw, new(any)))
		}
	}
	found := map[string]bool{}
	compare("", string(a), string(b), found)
	return found, nil
}

func compare(path, x, y string, found map[string]bool) {
	if x == y {
		return
	}
	a, b := gjson.Parse(x), gjson.Parse(y)
	switch {
	case a.IsObject() && b.IsObject():
		compareObjects(path, fields(a), fields(b), found)
	case a.IsArray() && b.IsArray():
		compareLists(path, a.Array(), b.Array(), found)
	case a.Type != gjson.String || b.Type != gjson.String ||
		a.Str != b.Str && !sameID(a.Str, b.Str):
		found[path] = true
	}
}

// fields returns an object's fields by name. As in encoding/json, the last one counts if a name
// repeats.
func fields(object gjson.Result) map[string]string {
	out := map[string]string{}
	object.ForEach(func(name, value gjson.Result) bool {
		out[name.Str] = value.Raw
		return true
	})
	return out
}

// sameID reports whether two texts are the ID of the same resource: Azure answers with the original
// spelling.
func sameID(x, y string) bool {
	return strings.HasPrefix(strings.ToLower(x), "/subscriptions/") && strings.EqualFold(x, y)
}

func compareObjects(path string, x, y map[string]string, found map[string]bool) {
	if path != "" {
		path += "."
	}
	for k := range y {
		if _, inX := x[k]; !inX && !volatile[k] {
			found[path+k] = false
		}
	}
	for k, value := range x {
		other, inY := y[k]
		switch {
		case volatile[k]:
		case !inY:
			found[path+k] = true
		case value != other:
			compare(path+k, value, other, found)
		}
	}
}

func compareLists(path string, x, y []gjson.Result, found map[string]bool) {
	byNameX, namedX := byName(x)
	byNameY, namedY := byName(y)
	switch {
	case namedX && namedY:
		for name := range byNameY {
			if _, inX := byNameX[name]; !inX {
				found[path+"["+name+"]"] = false
			}
		}
		for name, element := range byNameX {
			if other, inY := byNameY[name]; inY {
				compare(path+"["+name+"]", element, other, found)
			} else {
				found[path+"["+name+"]"] = true
			}
		}
	case len(x) != len(y):
		found[path] = true
	default:
		for i := range x {
			compare(fmt.Sprintf("%s[%d]", path, i), x[i].Raw, y[i].Raw, found)
		}
	}
}

// byName maps the elements of a list by name, if all are objects with unique names.
func byName(list []gjson.Result) (map[string]string, bool) {
	out := make(map[string]string, len(list))
	for _, element := range list {
		name := element.Get("name")
		if _, twice := out[name.Str]; twice || !element.IsObject() || name.Type != gjson.String {
			return nil, false
		}
		out[name.Str] = element.Raw
	}
	return out, true
}
