package arm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// volatile are the fields Azure sets on its own with every write: a difference there is none.
var volatile = map[string]bool{"etag": true, "provisioningState": true}

// kept are the fields that Azure keeps itself: back references and the like.
var kept = regexp.MustCompile(`^properties\.(subnets|ipConfigurations|ipConfigurationProfiles|privateEndpoints|applicationGatewayIPConfigurations|resourceGuid)\b`)

// Differences returns the paths of the fields in which two JSON documents differ, sorted, without the ones that change
// with every write (etag, provisioningState). Elements of an array that have names are compared by name, as
// routes[egress]; others in order.
func Differences(a, b []byte) ([]string, error) {
	found, err := differences(a, b)
	return slices.Sorted(maps.Keys(found)), err
}

// Lost returns the paths of what was sent and is not in what was read back, sorted: fields that Azure dropped, or that
// somebody changed in the same moment. What Azure adds is not lost, nor what it keeps itself.
func Lost(sent, readBack []byte) ([]string, error) {
	found, err := differences(sent, readBack)
	maps.DeleteFunc(found, func(path string, inSent bool) bool { return !inSent || kept.MatchString(path) })
	return slices.Sorted(maps.Keys(found)), err
}

// differences maps the paths that differ to whether the first document has them.
func differences(a, b []byte) (map[string]bool, error) {
	var x, y any
	for _, side := range []struct {
		raw  []byte
		into *any
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(bytes.NewReader(side.raw))
		d.UseNumber()
		if err := d.Decode(side.into); err != nil {
			return nil, DescribeJSON(side.raw, err)
		}
	}
	found := map[string]bool{}
	compare("", x, y, found)
	return found, nil
}

func compare(path string, a, b any, found map[string]bool) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			compareObjects(path, x, y, found)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			compareLists(path, x, y, found)
			return
		}
	default:
		if a == b || sameID(a, b) {
			return
		}
	}
	found[path] = true
}

// sameID reports whether two values are the ID of one resource: Azure answers with the spelling that it
// was created with.
func sameID(a, b any) bool {
	x, isText := a.(string)
	y, bothText := b.(string)
	return isText && bothText && strings.HasPrefix(strings.ToLower(x), "/subscriptions/") && strings.EqualFold(x, y)
}

func compareObjects(path string, x, y map[string]any, found map[string]bool) {
	if path != "" {
		path += "."
	}
	for k := range y {
		if _, inX := x[k]; !inX && !volatile[k] {
			found[path+k] = false
		}
	}
	for k := range x {
		if volatile[k] {
			continue
		}
		if other, inY := y[k]; inY {
			compare(path+k, x[k], other, found)
		} else {
			found[path+k] = true
		}
	}
}

func compareLists(path string, x, y []any, found map[string]bool) {
	byNameX, namedX := byName(path, x)
	byNameY, namedY := byName(path, y)
	switch {
	case namedX && namedY:
		for k := range byNameY {
			if byNameX[k] == nil {
				found[k] = false
			}
		}
		for k, element := range byNameX {
			if byNameY[k] == nil {
				found[k] = true
			} else {
				compare(k, element, byNameY[k], found)
			}
		}
	case len(x) != len(y):
		found[path] = true
	default:
		for i := range x {
			compare(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], found)
		}
	}
}

// byName maps the elements of a list by their paths, if they all are objects with names of their own.
func byName(path string, list []any) (map[string]any, bool) {
	out := make(map[string]any, len(list))
	for _, element := range list {
		o, isObject := element.(map[string]any)
		name, hasName := o["name"].(string)
		key := path + "[" + name + "]"
		if !isObject || !hasName || out[key] != nil {
			return nil, false
		}
		out[key] = element
	}
	return out, true
}
