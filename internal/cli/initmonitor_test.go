package cli

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// scriptMonitor simulates people who work next to init monitor: others adds to its resources,
// and creates other rules and groups; disable disables its rule; show prints that rule, list all
// resources.
func scriptMonitor(ts *testscript.TestScript, _ bool, args []string) {
	a := running.get(ts.Getenv("WORK"))
	in := func(resourceType, name string) arm.ID {
		return arm.ResourceID(a.demo.Cluster.Subscription(), "shop-rg", resourceType, name)
	}
	do := func(method string, id arm.ID, body []byte) []byte {
		status, answer := a.op.Do(method, id, "2023-01-01", body)
		if status >= 300 {
			ts.Fatalf("%s %s: %d %s", method, id, status, answer)
		}
		return answer
	}
	set := func(id arm.ID, path, value string) {
		raw, err := sjson.SetRawBytes(do("GET", id, nil), path, []byte(value))
		ts.Check(err)
		do("PUT", id, raw)
	}
	rule, group := in(arm.TypeAlertRule, "routekeeper"), in(arm.TypeActionGroup, "routekeeper")
	switch args[0] {
	case "others":
		set(group, "properties.emailReceivers", `[{"name":"ops","emailAddress":"ops@example.com"}]`)
		set(rule, "properties.notInAnySDK", `{"answer":42}`)
		set(rule, "properties.actions.actionGroups.-1",
			fmt.Sprintf(`{"actionGroupId":%q}`, in(arm.TypeActionGroup, "theirs")))
		set(rule, "properties.scopes",
			strings.ToUpper(gjson.GetBytes(do("GET", rule, nil), "properties.scopes").Raw))
		do("PUT", in(arm.TypeActionGroup, "routekeeper-others"),
			[]byte(`{"location":"Global","properties":{"groupShortName":"others"}}`))
		do("PUT", in(arm.TypeAlertRule, "theirs"), do("GET", rule, nil))
	case "disable":
		set(rule, "properties.enabled", "false")
	case "show":
		fmt.Fprintln(ts.Stdout(), string(do("GET", rule, nil)))
	case "list":
		for _, resourceType := range []string{arm.TypeActionGroup, arm.TypeAlertRule} {
			for _, r := range gjson.GetBytes(do("GET", in(resourceType, "x").Group()+
				arm.ID("/providers/"+resourceType), nil), "value").Array() {
				fmt.Fprintln(ts.Stdout(), strings.TrimPrefix(resourceType, "Microsoft.Insights/")+
					"/"+r.Get("name").String())
			}
		}
	default:
		ts.Fatalf("usage: monitor others|disable|show|list")
	}
}
