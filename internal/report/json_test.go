package report

import (
	"strings"
	"testing"
)

// TestListsAreNeverNull: no list in JSON is null, wherever it is.
func TestListsAreNeverNull(t *testing.T) {
	type item struct {
		Findings []string
		Raw      []byte
	}
	var out strings.Builder
	if err := WriteJSON(&out, &struct {
		Clusters []item
		None     []item
		One      *item
	}{Clusters: []item{{Raw: []byte("a")}}, One: &item{}}); err != nil {
		t.Fatal(err)
	}
	const want = `{"Clusters":[{"Findings":[],"Raw":"YQ=="}],"None":[],` +
		`"One":{"Findings":[],"Raw":null}}` + "\n"
	if out.String() != want {
		t.Errorf("%swant %s", out.String(), want)
	}
}
