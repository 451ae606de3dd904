package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/finding"
)

// hostileText is text of hidden characters, of markup and of any others, short or far too long.
// JSON escapes only a part of it.
var hostileText = rapid.Custom(func(t *rapid.T) string {
	part := rapid.OneOf(rapid.SampledFrom([]string{"\n::error::y", "\x1b[2J", "\u009b", "\u202e",
		"\u2066", "\u200b", "\x7f", "\U000e0001", "\x00", "\xff", "é", "##[error]", "%s%!d(x)"}),
		rapid.String())
	text := strings.Join(rapid.SliceOfN(part, 0, 5).Draw(t, "parts"), "")
	times := rapid.SampledFrom([]int{1, 1, 1, 1, 200, 200, 33_000}).Draw(t, "times")
	return strings.Repeat("x"+text, times)
})

// TestStatusOfHostileNames: whatever the names in findings, changes and refused objects are, the
// status is one line each, without hidden characters, and fits Kubernetes' limits.
func TestStatusOfHostileNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return hostileText.Draw(t, name) }
		ready := text("ready")
		of := shown{failed: text("failed"), change: &v1alpha1.Change{Message: text("change")},
			conditions: []v1alpha1.Condition{{Type: v1alpha1.ConditionReady, Message: ready},
				{Type: v1alpha1.ConditionGuarded, Message: text("guarded")}}}
		unguarded, refused := text("unguarded"), refusal{reason: "Invalid",
			message: text("refused")}
		for name, status := range map[string]func() (v1alpha1.Status, bool){
			"checked": func() (v1alpha1.Status, bool) {
				return statusOf(&ClusterRoutes{}, of, true, refusal{}, unguarded, time.Now())
			},
			"refused": func() (v1alpha1.Status, bool) {
				return statusOf(&ClusterRoutes{}, of, true, refused, "", time.Now())
			},
		} {
			s, ok := status()
			texts := []string{s.LastError}
			if s.LastChange != nil {
				texts = append(texts, s.LastChange.Message)
			}
			for _, c := range s.Conditions {
				texts = append(texts, c.Message)
			}
			if !ok || len(s.Conditions) < 2 || name == "checked" &&
				len(finding.Show(ready)) <= 32768 &&
				s.Conditions[0].Message != finding.Show(ready) {
				t.Errorf("%s: %.1000s", name, fmt.Sprint(s))
			}
			for _, text := range texts {
				if finding.Show(text) != text || len(text) > 32768 {
					t.Errorf("%s: %d bytes: %.1000q", name, len(text), text)
				}
			}
			if raw, err := json.Marshal(s); err != nil || finding.Show(string(raw)) != string(raw) {
				t.Errorf("%s: hidden characters in %.1000s, %v", name, raw, err)
			}
		}
	})
}

// TestEventsOfHostileNames: whatever changed or was found, Events have no hidden characters,
// and fit the API server's limits.
func TestEventsOfHostileNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &controller{events: newEvents(new(dynamic.DynamicClient), testOptions())}
		action, note := hostileText.Draw(t, "action"), hostileText.Draw(t, "note")
		c.addEvent(&ClusterRoutes{}, "Warning", "Changed", action, note)
		h := <-c.events.queue
		for text, limit := range map[string]int{h.action: 128, h.note: 1024} {
			if finding.Show(text) != text || len(text) > limit || text == "" {
				t.Errorf("%d bytes: %q", len(text), text)
			}
		}
		if shown := finding.Show(note); len(shown) <= 1024 && h.note != shown {
			t.Errorf("%q, want %q", h.note, shown)
		}
	})
}
