package deploy

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

type source struct{ Type, UID string }

// dashboard has the parts of a dashboard's JSON that the tests check.
type dashboard struct {
	SchemaVersion int
	Panels        []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Datasource  source
		Targets     []struct {
			RefID, Expr, LegendFormat string
			Datasource                source
		}
	}
	Templating struct {
		List []struct {
			Type, Name string
			Query      any
			Datasource source
		}
	}
	Annotations struct{ List []struct{ Expr string } }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	raw, err := os.ReadFile("grafana/routekeeper.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// filled is an expression as Grafana sends it when All is selected.
func filled(expr string) string {
	return strings.NewReplacer("$instance", ".*", "$cluster", ".*", "$__rate_interval", "5m",
		"$__range", "1h").Replace(expr)
}

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// TestDashboard: the dashboard is complete, and every expression in it uses exported metrics.
func TestDashboard(t *testing.T) {
	d, all := readDashboard(t), told(t)
	const chosen = "${datasource}"
	if d.SchemaVersion < 42 { // Grafana 12.2
		t.Errorf("the schema is %d", d.SchemaVersion)
	}
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
		if q, ok := v.Query.(map[string]any); ok {
			m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(
				q["query"].(string))
			if m == nil || v.Datasource.UID != chosen {
				t.Fatalf("variable %s: %v of %s", v.Name, q, v.Datasource.UID)
			}
			checkNames(t, "sum by ("+m[2]+") ("+filled(m[1])+")", all)
		}
	}
	if variables["datasource"] != "datasource" || variables["cluster"] != "query" ||
		variables["instance"] != "query" {
		t.Errorf("the variables are %v", variables)
	}
	ids, taken, shown := map[int]bool{}, map[[2]int]string{}, ""
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != chosen) {
			t.Errorf("%s has %d targets of %s", p.Title, len(p.Targets), p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != chosen || !strings.Contains(target.Expr, "$instance") {
				t.Errorf("%s: %s of %s", p.Title, target.Expr, target.Datasource.UID)
			}
			checkNames(t, filled(target.Expr), all)
			shown += target.Expr
		}
	}
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			checkNames(t, filled(a.Expr), all)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "routekeeper_") && !strings.HasSuffix(name, "_sum") &&
			!strings.HasSuffix(name, "_count") && !strings.Contains(shown, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestPanelsShowSomething: after an hour in which everything happened once, no panel is empty, and
// each series has the labels of its legend.
func TestPanelsShowSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.keep()
		w.watch(30 * time.Minute)
		w.fault(emulator.Fault{Method: http.MethodPut, Path: "appgw-rt", Count: -1,
			Status: http.StatusForbidden, Code: "AuthorizationFailed"})
		w.edit(w.demo.GatewayTable, func(p map[string]any) {
			p["routes"] = p["routes"].([]any)[:1]
		})
		w.strip()
		w.watch(2 * time.Minute)
		d := readDashboard(t)
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				// The world has no silence, no Observe and no place for messages.
				if regexp.MustCompile("_silenced|_observed|_notifications_").MatchString(
					target.Expr) {
					continue
				}
				found := w.query(filled(target.Expr), time.Now())
				if len(found) == 0 {
					t.Errorf("%s shows nothing: %s", p.Title, target.Expr)
				}
				for _, s := range found {
					for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
						if s.Metric.Get(m[1]) == "" {
							t.Errorf("%s: %s has no label %s for its legend", p.Title, s.Metric,
								m[1])
						}
					}
					if math.IsNaN(s.F) || math.IsInf(s.F, 0) || s.F < 0 {
						t.Errorf("%s shows %v: %s", p.Title, s.F, target.Expr)
					}
				}
			}
		}
		errors, unmade := w.query(`sum(routekeeper_findings{severity="error"})`,
			time.Now()), w.query("sum(routekeeper_changes_unmade)", time.Now())
		if len(errors) != 1 || errors[0].F != 1 || len(unmade) != 1 || unmade[0].F < 1 {
			t.Errorf("errors %v, changes not made %v", errors, unmade)
		}
		refused := finding.WriteRefused
		w.silenced.Store(&refused)
		w.watch(2 * time.Minute)
		errors = w.query(`sum(routekeeper_findings{severity="error"})`, time.Now())
		silenced := w.query(`routekeeper_findings_silenced{code="write-refused"}`, time.Now())
		if len(errors) > 0 && errors[0].F > 0 || len(silenced) != 1 {
			t.Errorf("a person silenced it: errors %v, silenced %v", errors, silenced)
		}
	})
}
