package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// told returns the Events of an API server.
func told(f *fakeAPI) (all []string) {
	for _, e := range f.stored("events") {
		text := fmt.Sprintf("%s %s: %s", e["reason"], e["action"], e["note"])
		if s, is := e["series"].(map[string]any); is {
			text += fmt.Sprintf(" (%v)", s["count"])
		}
		all = append(all, text)
	}
	return all
}

// TestEvents: what happens again within six minutes is counted in one Event. A flood blocks
// nothing, and what happened while the API server was away is written once it answers.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &way{fakeAPI: newFakeAPI()}
		object := refusable("shop", "1", 1)
		c := leading(t, w, object)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			c.events.run(ctx)
			close(done)
		}()
		say := func(action, note string) { c.addEvent(&object, "Normal", "Changed", action, note) }
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := told(w.fakeAPI); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the Events are %q, want %q", got, want)
			}
		}
		say("table", "one")
		say("subnet", "two")
		expect("Changed table: one", "Changed subnet: two")
		e := w.stored("events")[0]
		of := e["regarding"].(map[string]any)
		if of["kind"] != "ClusterRoutes" || of["name"] != "shop" || of["uid"] != "shop" ||
			e["reportingController"] != "routekeeper" || e["type"] != "Normal" {
			t.Errorf("the Event is %v", e)
		}
		for range 3 {
			time.Sleep(5 * time.Minute)
			say("table", "again")
		}
		expect("Changed table: one (4)", "Changed subnet: two")
		object.ResourceVersion = "2"
		say("table", "of another version")
		expect("Changed table: one (4)", "Changed subnet: two", "Changed table: of another version")
		time.Sleep(7 * time.Minute)
		say("table", "later")
		expect("Changed table: one (4)", "Changed subnet: two", "Changed table: of another version",
			"Changed table: later")
		w.forget() // a person deleted them
		say("table", "afresh")
		expect("Changed table: afresh")
		w.cutOff(true)
		say("nodes", "away")
		time.Sleep(time.Hour)
		w.cutOff(false)
		time.Sleep(retryEvent)
		expect("Changed table: afresh", "Changed nodes: away")
		w.cutOff(true)
		for i := range 2 * mostEvents { // it does not block
			say(fmt.Sprint(i), "flood")
		}
		w.cutOff(false)
		cancel() // what waits is still written
		<-done
		if n := len(w.stored("events")); n < mostEvents || n > mostEvents+10 {
			t.Errorf("%d Events are written", n)
		}
	})
}
