package arm

import (
	"fmt"
	"strings"
	"testing"
)

// TestDoubledKeys: a document with a key twice in one object is refused. What it means depends on
// the reader.
func TestDoubledKeys(t *testing.T) {
	const table = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/t"
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `"tag%d":"x",`, i)
	}
	for body, want := range map[string]string{
		`"properties":{"routes":[]}`:                                "",
		`"properties":{"a":{"name":1},"b":{"name":2}}`:              "",
		`"properties":{"a":["name",":","name"],"name":"a\":\"b"}`:   "",
		`"properties":{"routes":[],"Routes":[1]}`:                   "Routes",
		`"properties":{"routes":[] , "routes" : [1]}`:               "routes",
		`"properties":{"routes":[],"r\u006futes":[1]}`:              "routes",
		`"properties":{"routes":[{"name":"a","name":"b"}]}`:         "name",
		`"properties":{},"properties":{"routes":[]}`:                "properties",
		`"tags":{` + many.String() + `"z":"","tag7":""}`:            "tag7",
		`"tags":{` + many.String() + `"z":"","Tag99":""}`:           "Tag99",
		`"tags":{` + many.String() + `"z":""},"properties":{"z":1}`: "",
	} {
		var any map[string]any
		_, err := Decode([]byte(`{"id":"`+table+`",`+body+`}`), &any, TypeRouteTable)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", body, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "twice")):
			t.Errorf("%s: %v, want an error about %s", body, err, want)
		}
	}
}
