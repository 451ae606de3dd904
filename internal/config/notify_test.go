package config

import (
	"strings"
	"testing"
)

const notifyDoc = `---
apiVersion: routekeeper.dev/v1alpha1
kind: Notify
spec:
  page: https://routekeeper.example.com
  places:
  - name: team
    type: Slack
    urlFile: slack-url
  - name: on-call
    type: Webhook
    urlEnv: ON_CALL_URL
    send: [Errors, Decisions]
`

// TestNotify: a Notify document can be in any of the files, and the ClusterRoutes stay readable.
func TestNotify(t *testing.T) {
	routes := File{Name: "conf/a.yaml", Data: []byte(doc("a", ""))}
	for name, files := range map[string][]File{
		"same file":      {{Name: "conf/a.yaml", Data: []byte(doc("a", "") + notifyDoc)}},
		"own file":       {routes, {Name: "conf/notify.yaml", Data: []byte(notifyDoc)}},
		"before":         {{Name: "conf/0.yaml", Data: []byte(notifyDoc)}, routes},
		"before, in one": {{Name: "conf/a.yaml", Data: []byte(notifyDoc + "---\n" + doc("a", ""))}},
	} {
		configs, err := Read(files...)
		if err != nil || len(configs) != 1 {
			t.Errorf("%s: %v, %v", name, configs, err)
		}
		n, err := ReadNotify(files...)
		if err != nil || n == nil || len(n.Spec.Places) != 2 {
			t.Fatalf("%s: %v, %v", name, n, err)
		}
		if got := n.Spec.Places[0].URLFile; got != "conf/slack-url" {
			t.Errorf("%s: urlFile %s", name, got)
		}
	}
	if n, err := ReadNotify(routes); n != nil || err != nil {
		t.Errorf("without a Notify: %v, %v", n, err)
	}
	if _, err := Read(File{Name: "n.yaml", Data: []byte(notifyDoc)}); err == nil {
		t.Error("a config without ClusterRoutes is taken")
	}
}

// TestNotifyMistakes: each mistake is one line that names the field. A URL in the config is refused
// without repeating it.
func TestNotifyMistakes(t *testing.T) {
	for want, change := range map[string][2]string{
		"spec.places[0].type: unknown value": {"type: Slack", "type: Mail"},
		"spec.places[0]: expected either":    {"    urlFile: slack-url\n", ""},
		"spec.places[1].name: listed twice":  {"on-call", "team"},
		"spec.places[1].urlEnv: not the na":  {"ON_CALL_URL", "https://hooks.example.com/SECRET"},
		"spec.places[0].url: unknown field":  {"urlFile: slack-url", "url: https://h/SECRET"},
		"spec.places[1].send[1]: unknown":    {"Decisions]", "Rumors]"},
		"spec.page: ":                        {"https://routekeeper", "javascript://routekeeper"},
		"kind: a second Notify, expected":    {"---", notifyDoc + "---"},
		"spec.places: 0 places, expected": {notifyDoc[strings.Index(notifyDoc, "  - name"):],
			""},
	} {
		text := doc("a", "") + strings.Replace(notifyDoc, change[0], change[1], 1)
		_, err := Read(File{Name: "a.yaml", Data: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the secret is repeated: %v", err)
		}
	}
}
