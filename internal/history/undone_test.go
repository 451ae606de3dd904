package history

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/keeper"
)

// TestWhoChangedRoutes: the history names who removed routes from a target, or changed them, if the
// activity log shows a write of this route, or of the whole table once it has had enough time. It
// never does so for routes that came and went with nodes.
func TestWhoChangedRoutes(t *testing.T) {
	const api = "2025-05-01"
	type stage struct {
		e    *emulator.Emulator
		demo emulator.Demo
		name string // of the route to 10.244.1.0/24
		put  func(as emulator.Principal, id arm.ID, change func(properties map[string]any))
		del  func(as emulator.Principal, route string)
	}
	without := func(prefix string) func(map[string]any) {
		return func(p map[string]any) {
			kept := []any{}
			for _, r := range p["routes"].([]any) {
				if r.(map[string]any)["properties"].(map[string]any)["addressPrefix"] != prefix {
					kept = append(kept, r)
				}
			}
			p["routes"] = kept
		}
	}
	operator := emulatortest.Operator.ObjectID
	for name, c := range map[string]struct {
		play func(s *stage)
		// want are the changes of routes since, as "verb by CALLER", "verb unknown", or "verb" if
		// the log is not asked.
		want string
		line string // the beginning of the line about the writer
		asks int
	}{
		"one route deleted": {func(s *stage) { s.del(emulatortest.Operator, s.name) },
			"create by " + operator, "appgw-rt/NAME was last deleted by", 1},
		"a route turned": {func(s *stage) {
			s.put(emulatortest.Operator, s.demo.GatewayTable.Child("routes", s.name),
				func(p map[string]any) { p["nextHopIpAddress"] = "10.42.1.4" })
		}, "update by " + operator, "appgw-rt/NAME was last written by", 1},
		"whole table": {func(s *stage) {
			s.put(emulatortest.Operator, s.demo.GatewayTable, without("10.244.1.0/24"))
		}, "create by " + operator, "appgw-rt was last written by", 6},
		"own": {func(s *stage) { s.del(emulatortest.Keeper, s.name) }, "create unknown",
			"unknown", 6},
		"own, whole": {func(s *stage) {
			s.put(emulatortest.Keeper, s.demo.GatewayTable, without("10.244.1.0/24"))
		}, "create unknown", "unknown", 6},
		"another's route": {func(s *stage) {
			s.del(emulatortest.Keeper, s.name)
			s.put(emulatortest.Operator, s.demo.GatewayTable.Child("routes", s.demo.OwnRoute),
				func(p map[string]any) { p["addressPrefix"] = "10.61.0.0/16" })
		}, "create unknown", "unknown", 6},
		"scale-out, while others write": {func(s *stage) {
			s.put(emulatortest.Operator, s.demo.GatewayTable, func(map[string]any) {})
			s.put(emulatortest.Operator, s.demo.Cluster.Child("agentPools", s.demo.Pool),
				func(p map[string]any) { p["count"] = 4 })
		}, "create", "", 0},
		"both at once": {func(s *stage) {
			s.del(emulatortest.Operator, s.name)
			s.put(emulatortest.Operator, s.demo.Cluster.Child("agentPools", s.demo.Pool),
				func(p map[string]any) { p["count"] = 4 })
		}, "create by " + operator + ", create", "appgw-rt/NAME was last deleted by", 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "routes"+Extension)
			synctest.Test(t, func(t *testing.T) {
				e := emulatortest.New(t, emulator.Options{})
				d, err := emulator.BuildDemo(e, emulatortest.Operator)
				if err != nil {
					t.Fatal(err)
				}
				s := &stage{e: e, demo: d}
				version := func(id arm.ID) string {
					if strings.Contains(id.Key(), "containerservice") {
						return "2025-10-01"
					}
					return api
				}
				s.put = func(as emulator.Principal, id arm.ID, change func(map[string]any)) {
					client, err := e.Client(as)
					if err != nil {
						t.Fatal(err)
					}
					doc, err := client.Get(id, version(id))
					if err == nil {
						change(doc["properties"].(map[string]any))
						err = client.Put(id, version(id), doc)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				s.del = func(as emulator.Principal, route string) {
					client, err := e.Client(as)
					if err != nil {
						t.Fatal(err)
					}
					if status, body := client.Do(http.MethodDelete,
						d.GatewayTable.Child("routes", route), api, nil); status >= 300 {
						t.Fatalf("%d %s", status, body)
					}
				}
				l := open1(t, path)
				config := v1alpha1.ClusterRoutes{APIVersion: v1alpha1.APIVersion,
					Kind: v1alpha1.Kind, Metadata: v1alpha1.Metadata{Name: "shop"}}
				config.Spec.ClusterID, config.Spec.Targets = string(d.Cluster), []v1alpha1.Target{
					{RouteTableID: string(d.GatewayTable)}}
				config.SetDefaults()
				late := &log{Client: emulatortest.Client(t, e, emulatortest.Keeper)}
				k := keeper.New(late.Client, []v1alpha1.ClusterRoutes{config},
					keeper.Options{Recorder: l, Store: l})
				look := func() {
					for range 6 {
						time.Sleep(10 * time.Second)
						if _, err := k.Reconcile(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				look()
				for _, c := range l.checks()[0].Changes {
					if c.New.AddressPrefix == "10.244.1.0/24" {
						s.name = c.Route
					}
				}
				first := len(l.checks())
				c.play(s)
				look()
				for range 40 {
					time.Sleep(time.Minute)
					l.Ask(t.Context(), late, time.Now())
				}
				var got []string
				for _, e := range l.checks()[first:] {
					for _, change := range e.Changes {
						switch who := change.ChangedBy; {
						case who == nil:
							got = append(got, string(change.Verb))
						case strings.HasPrefix(who.Line, "unknown"):
							got = append(got, string(change.Verb)+" unknown")
						default:
							got = append(got, string(change.Verb)+" by "+who.Caller)
						}
						if who := change.ChangedBy; who != nil &&
							!strings.HasPrefix(who.Line,
								strings.ReplaceAll(c.line, "NAME", s.name)) {
							t.Errorf("it says %q, want %q", who.Line, c.line)
						}
					}
				}
				if strings.Join(got, ", ") != c.want || late.asked != c.asks {
					t.Errorf("%s, want %s; the log was asked %d times, want %d",
						strings.Join(got, ", "), c.want, late.asked, c.asks)
				}
				l.Close()
			})
		})
	}
}
