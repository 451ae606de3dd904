package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/emulator"
)

// hostileCaller is the name of one who undoes repairs, sends events, and wants to write on the
// screens of all who watch.
const hostileCaller = "evil-caller\x1b[31m\x1b]0;pwn\a\u009b2J\u202e\u2066\u200b\n::error::x " +
	"$(touch PWNED)`touch PWNED`<img src=x>##[error]"

// TestHostileCallers: one with a hostile name strips a subnet again and again, an event names it,
// and a route has its name, too. Neither the log, nor a check, the history, a page, a message, the
// status or a diagnosis has its hidden characters, or a line that begins as the caller wants.
func TestHostileCallers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var messages []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		messages = append(messages, string(body))
	}))
	t.Cleanup(hook.Close)
	notify := filepath.Join(t.TempDir(), "notify.yaml")
	if err := os.WriteFile(notify, []byte("apiVersion: routekeeper.dev/v1alpha1\nkind: Notify\n"+
		"spec:\n  places:\n  - name: hook\n    type: Webhook\n    urlEnv: HOOK_URL\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	evil := emulator.Principal{Name: hostileCaller, Secret: "local-secret",
		ClientID: "0a0a0000-0000-4000-8000-00000000000e", ObjectID: hostileCaller}
	f := newFlooded(t, emulator.Options{Principals: []emulator.Principal{evil}}, 4096,
		[]string{"HOOK_URL=" + hook.URL}, "-f", notify)
	client, err := f.e.Client(evil)
	if err != nil {
		t.Fatal(err)
	}
	f.op = client
	f.route(hostileCaller)
	f.event(hostileCaller)
	f.until("the conflict", 2*time.Minute, func() bool {
		if strings.Contains(f.document(t, f.demo.NodeSubnet), `"routeTable"`) {
			_ = f.strip(f.demo.NodeSubnet) // what another write prevents is tried again
		}
		return strings.Contains(f.read("checks.json"), `"conflict"`)
	})
	f.until("the name of the writer", time.Minute, func() bool {
		return strings.Contains(f.page(), "last written by evil-caller")
	})
	outputs := map[string]string{}
	for _, path := range []string{"/", "/index.json", "/clusters/shop", "/history", "/history.json",
		"/history/1", "/history/2", "/history/3", "/metrics"} {
		status, body, err := f.get(path)
		if err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %v", path, status, err)
		}
		outputs[path] = body
	}
	keeper, err := os.FindProcess(f.pid)
	if err == nil {
		err = keeper.Signal(os.Interrupt) // then it sends what waits
	}
	if err != nil {
		t.Fatal(err)
	}
	f.until("a message", time.Minute, func() bool {
		mu.Lock()
		defer mu.Unlock()
		outputs["messages"] = strings.Join(messages, "\n")
		return len(messages) > 0
	})
	outputs["the log"], outputs["checks"] = f.read("log"), f.read("checks.json")
	config, b := f.file("routes.yaml"), newBatch(t, "")
	for _, command := range []string{"history -f", "history show 1 -f", "history show 2 -f",
		"history show 3 -f", "status -f", "doctor -f", "sync --dry-run -f"} {
		for _, format := range []string{"text", "short", "markdown", "json"} {
			args := append(append([]string{"--emulator", filepath.Join(f.dir, "az")},
				strings.Fields(command)...), config, "-o", format)
			a := b.run(t, nil, args...)
			if a.Out+a.Stderr == "" {
				t.Errorf("%v: exit code %d", args, a.Code)
			}
			outputs[command+" "+format] = a.Out + a.Stderr
		}
	}
	named := 0
	for _, where := range []string{"the log", "checks", "messages"} {
		if !strings.Contains(outputs[where], "evil-caller") {
			t.Errorf("%s do not have the name: the test shows nothing: %s", where, outputs[where])
		}
	}
	for where, out := range outputs {
		if strings.Contains(out, "evil-caller") {
			named++
		}
		element := strings.Contains(strings.ReplaceAll(out, `\<`, ""), "<img src=x")
		if element && !strings.Contains(where, "json") &&
			(strings.HasPrefix(where, "/") || strings.HasSuffix(where, "markdown")) {
			t.Errorf("%s has an element of the caller:\n%s", where, out)
		}
		clean(t, out)
	}
	if named < 10 {
		t.Errorf("only %d outputs name the caller: the test shows nothing", named)
	}
}

// route replaces a pod route of the target by one that leads nowhere.
func (f *flooded) route(name string) {
	f.t.Helper()
	doc, err := f.op.Get(f.demo.GatewayTable, "2025-05-01")
	if err != nil {
		f.t.Fatal(err)
	}
	properties := doc["properties"].(map[string]any)
	routes := slices.DeleteFunc(properties["routes"].([]any), func(r any) bool {
		return r.(map[string]any)["properties"].(map[string]any)["addressPrefix"] == "10.244.0.0/24"
	})
	properties["routes"] = append(routes, map[string]any{"name": name, "properties": map[string]any{
		"addressPrefix": "10.244.0.0/24", "nextHopType": "None"}})
	if err := f.op.Put(f.demo.GatewayTable, "2025-05-01", doc); err != nil {
		f.t.Fatal(err)
	}
}

// event sends an event about the node subnet, which names a caller.
func (f *flooded) event(caller string) {
	f.t.Helper()
	raw, err := os.ReadFile("../../testdata/activity-log/alert-common-schema.json")
	if err != nil {
		f.t.Fatal(err)
	}
	var alert map[string]any
	if err := json.Unmarshal(raw, &alert); err != nil {
		f.t.Fatal(err)
	}
	data := alert["data"].(map[string]any)
	data["essentials"].(map[string]any)["alertTargetIDs"] = []string{string(f.demo.NodeSubnet)}
	about := data["alertContext"].(map[string]any)
	about["caller"], about["operationName"] = caller, "x/write\x1b[2J"
	about["authorization"] = map[string]string{"action": "x/write\x1b[2J",
		"scope": string(f.demo.NodeSubnet)}
	about["claims"] = fmt.Sprintf(`{"name":%q}`, "evil-claim\x1b[2J")
	body, err := json.Marshal(alert)
	if err != nil {
		f.t.Fatal(err)
	}
	response, err := http.Post("http://"+f.address+"/events", "application/json",
		strings.NewReader(string(body)))
	if err != nil {
		f.t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted &&
		response.StatusCode != http.StatusNoContent {
		f.t.Errorf("the event: %s", response.Status)
	}
}
