package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/api/v1alpha1"
)

// secretPath is the secret part of all URLs in these tests.
const secretPath = "/services/T0/B0/SECRET?sig=SECRET"

// hostile is a name that tries to reach people and places.
const hostile = "<!channel> @everyone <https://evil.example|a> [x](https://evil.example) \x1b[2J" +
	"\u202e\nERROR <at>all</at> &lt;!here&gt;"

// serverOf plays a place. Its bodies arrive in the channel.
func serverOf(t *testing.T, answer http.HandlerFunc) (url string, bodies chan string) {
	bodies = make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.RequestURI() != secretPath ||
			!strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %s, %v", r.Method, r.URL, err)
		}
		bodies <- string(raw)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + secretPath, bodies
}

func fixed(url string) func(v1alpha1.Place) (string, error) {
	return func(v1alpha1.Place) (string, error) { return url + "\n", nil }
}

// TestBodies: what Slack, Teams and a webhook get, of a message with hostile names.
func TestBodies(t *testing.T) {
	m := compose([]Event{
		{Kind: Error, Code: "association-lost", Severity: "error", Cluster: "shop", Resource: "/x",
			Text: hostile, Fix: "routekeeper sync -f routes.yaml", At: time.Unix(0, 0).UTC()},
		{Kind: Repaired, Cluster: "shop", Text: "nodes has its route table shop-rt again"},
	}, 3, "https://page.example.com")
	url, bodies := serverOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	})
	n := New(Options{Secret: fixed(url)})
	send := func(kind v1alpha1.PlaceType) (raw string, doc map[string]any) {
		t.Helper()
		if err := n.post(context.Background(), v1alpha1.Place{Name: "p", Type: kind},
			m); err != nil {
			t.Fatal(err)
		}
		raw = <-bodies
		if err := json.Unmarshal([]byte(raw), &doc); err != nil {
			t.Fatal(err)
		}
		for _, control := range []string{"\x1b", `\u001b`, "\u202e", "\x07"} {
			if strings.Contains(raw, control) {
				t.Errorf("%s gets %q:\n%s", kind, control, raw)
			}
		}
		return raw, doc
	}
	// texts collects every text in a document, as a chat reads it.
	var texts func(any, *[]string)
	texts = func(v any, all *[]string) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if text, is := value.(string); is && key == "text" {
					*all = append(*all, text)
				}
				texts(value, all)
			}
		case []any:
			for _, value := range v {
				texts(value, all)
			}
		}
	}
	title := "routekeeper: 1 new error, 1 repair, 3 dropped"
	for kind, want := range map[v1alpha1.PlaceType]string{
		v1alpha1.PlaceSlack: "ERROR association-lost (shop): &lt;!channel&gt; @\u200beveryone " +
			"&lt;https:\u200b//evil.example|a&gt;",
		v1alpha1.PlaceTeams: "ERROR association-lost (shop): <!channel> @\u200beveryone " +
			"<https:\u200b//evil.example|a>",
	} {
		raw, doc := send(kind)
		var all []string
		texts(doc, &all)
		joined := strings.Join(all, "\n")
		for _, part := range []string{title, want, "next: routekeeper sync -f routes.yaml",
			"REPAIRED (shop): nodes has its route table shop-rt again", "3 earlier events"} {
			if !strings.Contains(joined, part) {
				t.Errorf("%s lacks %q:\n%s", kind, part, joined)
			}
		}
		for _, bad := range []string{"@everyone", "https://evil"} {
			if strings.Contains(joined, bad) {
				t.Errorf("%s gets %q:\n%s", kind, bad, joined)
			}
		}
		if kind == v1alpha1.PlaceSlack && strings.ContainsAny(joined, "<>") {
			t.Errorf("Slack reads markup:\n%s", joined)
		}
		if strings.Contains(raw, `"mrkdwn"`) && doc["mrkdwn"] != false ||
			strings.Contains(raw, `"type":"TextBlock"`) {
			t.Errorf("%s reads Markdown:\n%s", kind, raw)
		}
		if !strings.Contains(raw, `"url":"https://page.example.com"`) {
			t.Errorf("%s: no link to the page:\n%s", kind, raw)
		}
	}
	_, doc := send(v1alpha1.PlaceWebhook)
	events := doc["events"].([]any)
	first := events[0].(map[string]any)
	if doc["title"] != title || doc["version"] != 1. || doc["dropped"] != 3. || len(events) != 2 ||
		first["kind"] != "error" || first["code"] != "association-lost" ||
		first["cluster"] != "shop" || first["at"] != "1970-01-01T00:00:00Z" ||
		!strings.HasPrefix(first["text"].(string), `<!channel> @everyone`) {
		t.Errorf("the webhook gets %v", doc)
	}
}

// TestLong: the longest message stays within what chats take (Slack: 50 blocks of 3000 characters;
// Teams: 28 KB).
func TestLong(t *testing.T) {
	var events []Event
	for i := range 1000 {
		events = append(events, Event{Kind: kinds[i%5], Code: strings.Repeat("c", i%60),
			Cluster: strings.Repeat("n", 63), Text: strings.Repeat("long ", 1000)})
	}
	m := compose(events, 1, "")
	for _, kind := range []v1alpha1.PlaceType{v1alpha1.PlaceSlack, v1alpha1.PlaceTeams} {
		raw, err := body(kind, m)
		if err != nil || len(raw) > 28<<10 || len(m.Lines) > 49 {
			t.Errorf("%s: %d bytes, %d lines, %v", kind, len(raw), len(m.Lines), err)
		}
	}
	if len(m.Events) != mostEvents || m.More != 800 {
		t.Errorf("%d events and %d more", len(m.Events), m.More)
	}
}

// TestSecret: no error has the URL, whatever the place does.
func TestSecret(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"it answers 404 Not Found (no_service)": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no_service", http.StatusNotFound)
		},
		"it answers 500 Internal Server Error": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.URL.String(), http.StatusInternalServerError)
		},
		"it answers 302 Found": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example"+secretPath, http.StatusFound)
		},
		"EOF": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		},
	}
	try := func(want, url string, kind v1alpha1.PlaceType) {
		t.Helper()
		n := New(Options{Secret: fixed(url)})
		err := n.Try(context.Background(), v1alpha1.Place{Name: "p", Type: kind, URLEnv: "U"}, "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error has the secret: %v", err)
		}
	}
	for want, answer := range answers {
		url, _ := serverOf(t, answer)
		try(want, url, v1alpha1.PlaceSlack)
	}
	try("refused", "http://127.0.0.1:1"+secretPath, v1alpha1.PlaceSlack)
	try("cannot be resolved", "https://no-such-host.invalid"+secretPath, v1alpha1.PlaceSlack)
	try("$U holds an http URL", "http://10.0.0.1"+secretPath, v1alpha1.PlaceSlack)
	try("$U holds no URL", "ftp://h"+secretPath, v1alpha1.PlaceWebhook)
	try("$U holds no URL", "https://h:x"+secretPath, v1alpha1.PlaceWebhook)
	try("$U is empty", "", v1alpha1.PlaceWebhook)
}
