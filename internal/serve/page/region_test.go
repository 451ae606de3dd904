package page

import (
	"net/http/httptest"
	"slices"
	"testing"

	"routekeeper.dev/routekeeper/internal/picture"
)

// TestRegions: the list offers each region once, and shows the clusters of one.
func TestRegions(t *testing.T) {
	in := func(name, region string) Cluster {
		return Cluster{Cluster: picture.Cluster{Name: name, Region: region}, State: Good}
	}
	clusters := []Cluster{in("a", "westeurope"), in("b", "northeurope"), in("c", "westeurope"),
		in("d", "")}
	q := readListQuery(httptest.NewRequest("GET", "/?region=westeurope&sort=name", nil))
	l := selected(clusters, q)
	if !slices.Equal(l.Regions, []string{"northeurope", "westeurope"}) {
		t.Errorf("regions %v", l.Regions)
	}
	if len(l.Shown) != 2 || l.Shown[0].Name != "a" || l.Shown[1].Name != "c" || !q.Narrow() {
		t.Errorf("shown: %+v", l.Shown)
	}
	if got := l.Query.With("page", "2"); got != "/?page=2&region=westeurope&sort=name" {
		t.Errorf("the second page is %s", got)
	}
}
