package config

import (
	"fmt"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
)

var everything = Parts{Guard: true, Target: func(arm.ID) bool { return true }}

const ids = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/g/providers/"

// observing is a document that observes; mode and policies as they are written in it.
func observing(name, mode string, policies ...string) string {
	text := fmt.Sprintf(`# mode: Observe, says a comment about %[1]s
apiVersion: routekeeper.dev/v1alpha1
kind: ClusterRoutes
metadata: {name: %[1]s}
spec:
  clusterID: %[2]sMicrosoft.ContainerService/managedClusters/Observe-%[1]s   # policy: Observe
  guard:
    mode: %[3]s
  targets:
`, name, ids, mode)
	for i, policy := range policies {
		text += fmt.Sprintf("    - policy: %s   # über Observe\n      routeTableID: "+
			"%sMicrosoft.Network/routeTables/rt-%d\n",
			policy, ids, i)
	}
	return text
}

// TestPromote: the values of one document change, and no other byte.
func TestPromote(t *testing.T) {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	several := func(middle string) string {
		return "\ufeff" + observing("one", "Observe", "Observe") + "---\n---\n" + middle +
			"--- # the last\n" + observing("three", "Observe", "Observe")
	}
	flow := func(mode, policy string) string {
		return `--- {"apiVersion": "routekeeper.dev/v1alpha1", "kind": "ClusterRoutes", "metadata": {"name": "two"}, "spec": {"clusterID": "` +
			ids + `Microsoft.ContainerService/managedClusters/ü", "guard": {"mode": ` + mode +
			`}, "targets": [{"routeTableID": "` +
			ids + `Microsoft.Network/routeTables/rt", "policy": ` + policy + "}]}}"
	}
	guard := Parts{Guard: true, Target: func(arm.ID) bool { return false }}
	second := Parts{Target: func(id arm.ID) bool { return id.Name() == "rt-1" }}
	for name, test := range map[string]struct {
		parts        Parts
		before, want string
		edits        int
	}{
		"plain": {everything, observing("two", "Observe", "Observe", "Observe"),
			observing("two", "Enforce", "Sync", "Sync"), 3},
		"quoted": {everything, observing("two", `"Observe"`, `'Observe'`),
			observing("two", `"Enforce"`, `'Sync'`), 2},
		"anchored": {everything, observing("two", "&a Observe", "Observe"),
			observing("two", "&a Enforce", "Sync"), 2},
		"mixed": {everything, observing("two", "Off", "UpsertOnly", "Observe", "Sync"),
			observing("two", "Off", "UpsertOnly", "Sync", "Sync"), 1},
		"left out": {everything, observing("two", "", ""), observing("two", "", ""), 0},
		"one of three": {everything, several(observing("two", "Observe", "Observe")),
			several(observing("two", "Enforce", "Sync")), 2},
		"Windows": {everything, crlf(several(observing("two", "Observe", "'Observe'"))),
			crlf(several(observing("two", "Enforce", "'Sync'"))), 2},
		"no last break": {everything, strings.TrimSpace(flow(`"Observe"`, "Observe")),
			strings.TrimSpace(flow(`"Enforce"`, "Sync")), 2},
		"guard": {guard, observing("two", "Observe", "Observe"),
			observing("two", "Enforce", "Observe"), 1},
		"second target": {second, observing("two", "Observe", "Observe", "Observe"),
			observing("two", "Observe", "Observe", "Sync"), 1},
	} {
		got, edits, err := Promote(File{"routes.yaml", []byte(test.before)},
			map[string]Parts{"two": test.parts})
		if err != nil || string(got) != test.want || len(edits) != test.edits {
			t.Errorf("%s: %v, %d edits:\n%s\nwant\n%s", name, err, len(edits), got, test.want)
			continue
		}
		for _, e := range edits {
			line := strings.Split(test.want, "\n")[e.Line-1]
			if !strings.Contains(line, e.To) || strings.Contains(line, e.From+" ") &&
				!strings.Contains(line, "#") {
				t.Errorf("%s: %+v is not in %q", name, e, line)
			}
		}
	}
	both := map[string]Parts{"one": everything, "two": everything}
	text, edits, err := Promote(File{"routes.yaml", []byte(observing("one", "Observe", "Observe") +
		"---\n" + observing("two", "Observe", "Observe", "Observe"))}, both)
	if want := observing("one", "Enforce", "Sync") + "---\n" + observing("two", "Enforce",
		"Sync", "Sync"); err != nil || string(text) != want || len(edits) != 5 {
		t.Errorf("two documents: %v, %d edits:\n%s\nwant\n%s", err, len(edits), text, want)
	}
	if text, _, err := Promote(File{"routes.yaml", []byte(several(""))},
		map[string]Parts{"two": everything}); text != nil || err != nil {
		t.Errorf("a name that is not there: %q, %v", text, err)
	}
}

// TestPromoteRefuses: what is written in a way that cannot be replaced in place is refused, with
// its line.
func TestPromoteRefuses(t *testing.T) {
	for name, mode := range map[string]string{
		"block": "|-\n      Observe", "folded": ">-\n      Observe", "escaped": `"Obs\u0065rve"`,
		"tagged": "!!str Observe",
	} {
		_, _, err := Promote(File{"routes.yaml", []byte(observing("two", mode, "Sync"))},
			map[string]Parts{"two": everything})
		if err == nil || !strings.HasPrefix(err.Error(), "routes.yaml:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
