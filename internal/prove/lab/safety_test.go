package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
	"routekeeper.dev/routekeeper/internal/prove"
)

// isGroup reports whether a request is for a throwaway group itself.
func isGroup(r *http.Request, method string) bool {
	return r.Method == method && strings.Contains(r.URL.Path, groupPrefix) &&
		strings.Count(r.URL.Path, "/") == 4
}

// TestNothingWorks: if everything after the set-up is refused, or not answered, no fact has a wrong
// result, and the group is deleted.
func TestNothingWorks(t *testing.T) {
	for name, broken := range map[string]bend{
		"refused": refusing(afterSetup(), 403, "AuthorizationFailed", "no"),
		"faulty":  refusing(afterSetup(), 503, "ServerTimeout", "later"),
		"throttled": refusing(afterSetup(), 429, "RetryableErrorDueToAnotherOperation",
			"another operation"),
		"silent": hanging(afterSetup()),
	} {
		t.Run(name, func(t *testing.T) {
			b := bench{bends: []bend{broken}, logWait: time.Minute}
			for fact, r := range b.run(t, nil) {
				if r.Verdict != prove.Untested || r.Seen == "" {
					t.Errorf("%s: %s, %q", fact, r.Verdict, r.Seen)
				}
			}
		})
	}
}

// hanging does not answer some requests.
func hanging(of func(*http.Request) bool) bend {
	return func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
		if !of(r) {
			azure.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client is gone
		<-r.Context().Done()
	}
}

// afterSetup matches resources in the group after the network was read.
func afterSetup() func(*http.Request) bool {
	var mu sync.Mutex
	ready := false
	return func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		late := ready && !isGroup(r, r.Method) && !strings.HasSuffix(r.URL.Path, "/resources")
		if is(r, "GET", endNetwork) {
			ready = true
		}
		return late
	}
}

// TestInterrupted: at any time of an interrupt, the group is deleted at the end, and facts that
// were not tested say so.
func TestInterrupted(t *testing.T) {
	_, all := trialsOf(t)
	for i := range 2 * (len(all) - 1) {
		at, after := all[i/2], time.Duration(i%2)*time.Second
		t.Run(fmt.Sprint(at.Name, " after ", after), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			b := bench{ctx: ctx, opts: slowly, logWait: time.Minute}
			b.tell.Begins = func(_, _ int, trial prove.Trial) {
				if trial.Name == at.Name && after == 0 {
					cancel()
				} else if trial.Name == at.Name {
					time.AfterFunc(after, cancel)
				}
			}
			results := b.run(t, func(e *emulator.Emulator, out Outcome, err error) {
				if left := groups(t, e); len(left) > 0 || out.Group != "" && !out.Deleted {
					t.Errorf("left behind: %v (%v)", left, err)
				}
			})
			if r := results["log-delay"]; after == 0 && r.Verdict != prove.Untested {
				t.Errorf("log-delay: %s %s", r.Verdict, r.Seen)
			}
		})
	}
}

// TestDeletes: failures while the group is created and deleted.
func TestDeletes(t *testing.T) {
	group := "resourceGroups/" + groupPrefix + "[0-9a-f]+$"
	for name, c := range map[string]struct {
		b       bench
		deleted bool
		left    int
		says    string
		deletes int // DELETEs of the group
	}{
		"correct": {bench{}, true, 0, "", 1},
		"the answer to the group's PUT is lost": {bench{faults: []emulator.Fault{
			{Method: "PUT", Path: group, Cut: "after"}}}, true, 0, "set-up", 1},
		"the answer to the DELETE is lost": {bench{faults: []emulator.Fault{
			{Method: "DELETE", Path: group, Cut: "after"}}}, true, 0, "", 1},
		"the DELETE is refused for now": {bench{faults: []emulator.Fault{
			{Method: "DELETE", Path: group, Status: 409, Code: "Conflict", Count: 3}}}, true, 0, "",
			4},
		"the deletion fails in the end": {bench{faults: []emulator.Fault{
			{Method: "DELETE", Path: group, Fail: true, Code: "Other"}}}, true, 0, "", 2},
		"the DELETE is forbidden": {bench{faults: []emulator.Fault{
			{Method: "DELETE", Path: group, Status: 403, Code: "AuthorizationFailed", Count: -1}}},
			false, 1, "--clean", 1},
		"the group is there already": {bench{bends: []bend{answers(
			func(r *http.Request) bool { return isGroup(r, "PUT") },
			func(body []byte, _ http.Header, _ int) ([]byte, int) { return body, 200 })}},
			false, 1, "another program", 0},
		"every name is taken": {bench{bends: []bend{answers(
			func(r *http.Request) bool { return isGroup(r, "GET") },
			func([]byte, http.Header, int) ([]byte, int) { return []byte(`{}`), 200 })}},
			false, 0, "may exist already", 0},
		"the tag is gone": {bench{bends: []bend{tagged(nil)}}, false, 1, "lacks the tag", 0},
		"the tag names another group": {bench{bends: []bend{tagged(groupPrefix + "other")}},
			false, 1, "lacks the tag", 0},
		"something else is in it": {bench{bends: []bend{answers(
			func(r *http.Request) bool { return is(r, "GET", "/resources") },
			func(body []byte, _ http.Header, status int) ([]byte, int) {
				return set(body, "value.-1",
					object{"id": "/subscriptions/x/resourceGroups/y/providers/" +
						"Microsoft.Network/routeTables/production"}), status
			})}}, false, 1, "production", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.b.facts = []string{"shared-etag"}
			var mu sync.Mutex
			deletes := 0
			c.b.bends = append(c.b.bends,
				func(w http.ResponseWriter, r *http.Request, a http.Handler) {
					mu.Lock()
					if r.Method == "DELETE" {
						deletes++
					}
					mu.Unlock()
					a.ServeHTTP(w, r)
				})
			c.b.run(t, func(e *emulator.Emulator, out Outcome, err error) {
				said := ""
				if err != nil {
					said = err.Error()
				}
				if out.Deleted != c.deleted || len(groups(t, e)) != c.left ||
					!strings.Contains(said, c.says) || c.says == "" && err != nil {
					t.Errorf("deleted %v, left %v, error %q", out.Deleted, groups(t, e), said)
				}
				if deletes != c.deletes {
					t.Errorf("%d DELETEs, want %d", deletes, c.deletes)
				}
			})
		})
	}
}

// tagged sets the tag that a group is read with, after its creation.
func tagged(value any) bend {
	return answers(func(r *http.Request) bool { return isGroup(r, "GET") },
		func(body []byte, _ http.Header, status int) ([]byte, int) {
			if status == 200 {
				body = set(body, "tags."+Tag, value)
			}
			return body, status
		})
}

// TestLeftovers: groups of earlier runs are found by their tag only.
func TestLeftovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulatortest.New(t, emulator.Options{})
		op, err := e.Client(emulatortest.Operator)
		if err != nil {
			t.Fatal(err)
		}
		put := func(name string, tags object) {
			id := arm.GroupID(emulator.DefaultSubscription, name)
			if err := op.Put(id, groupVersion,
				object{"location": "westeurope", "tags": tags}); err != nil {
				t.Fatal(err)
			}
		}
		soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		past := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		put(groupPrefix+"ended", object{Tag: groupPrefix + "ended", byTag: "dead", untilTag: soon})
		put(groupPrefix+"over", object{Tag: groupPrefix + "over", byTag: "alive", untilTag: past})
		put(groupPrefix+"going", object{Tag: groupPrefix + "going", byTag: "alive", untilTag: soon})
		put(groupPrefix+"bare", object{Tag: groupPrefix + "bare", byTag: "alive"})
		put(groupPrefix+"copied", object{Tag: groupPrefix + "over", byTag: "dead", untilTag: past})
		put(groupPrefix+"untagged", object{byTag: "dead", untilTag: past})
		put("production", object{Tag: "production", byTag: "dead", untilTag: past})
		client := emulatortest.Client(t, e, emulatortest.Keeper)
		ended := Process{Ended: func(by string) bool { return by == "dead" }}
		left, err := Leftovers(t.Context(), client, emulator.DefaultSubscription, ended)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, l := range left {
			found[strings.TrimPrefix(l.Group.Name(), groupPrefix)] = l.Stale
		}
		want := map[string]bool{"ended": true, "over": true, "going": false, "bare": false}
		if len(found) != len(want) {
			t.Errorf("found %v", found)
		}
		for name, stale := range want {
			if have, there := found[name]; !there || have != stale {
				t.Errorf("%s: found %v, stale %v", name, there, have)
			}
		}
		for _, name := range []string{"copied", "untagged"} {
			id := arm.GroupID(emulator.DefaultSubscription, groupPrefix+name)
			if err := Remove(t.Context(), client, id); err == nil {
				t.Errorf("%s was deleted", name)
			}
		}
		over := arm.GroupID(emulator.DefaultSubscription, groupPrefix+"over")
		if err := Remove(t.Context(), client, over); err != nil {
			t.Error(err)
		}
		if now := groups(t, e); len(now) != 5 || slices.Contains(now, over.Name()) {
			t.Errorf("left: %v", now)
		}
	})
}

// TestPlannedCalls: the plan lists the calls that are made, and how often. If operations take time,
// there are more.
func TestPlannedCalls(t *testing.T) {
	made := map[string]int{}
	for _, opts := range []emulator.Options{atOnce, slowly} {
		var mu sync.Mutex
		current := ""
		now := map[string]int{}
		b := bench{opts: opts, logWait: time.Minute}
		b.tell.Begins = func(_, _ int, trial prove.Trial) {
			mu.Lock()
			defer mu.Unlock()
			current = trial.Name
		}
		b.bends = []bend{func(w http.ResponseWriter, r *http.Request, azure http.Handler) {
			mu.Lock()
			now[current+": "+r.Method+" "+wordOf(r.URL.String())]++
			mu.Unlock()
			azure.ServeHTTP(w, r)
		}}
		b.run(t, nil)
		for call, n := range now {
			made[call] = max(made[call], n)
		}
	}
	_, trials := trialsOf(t)
	for _, trial := range trials {
		for _, c := range trial.Calls {
			call := trial.Name + ": " + c.Method + " " + c.What
			if c.Times > 0 && made[call] != c.Times {
				t.Errorf("%s was made %d times, the plan says %d", call, made[call], c.Times)
			}
			delete(made, call)
		}
	}
	for call, n := range made {
		t.Errorf("%s was made %d times, and is not in the plan", call, n)
	}
}

// TestEveryTrial: every trial of the plan exists, and no other.
func TestEveryTrial(t *testing.T) {
	_, planned := trialsOf(t)
	if len(planned) != len(trials) {
		t.Errorf("%d trials are planned, %d can be made", len(planned), len(trials))
	}
	for _, p := range planned {
		if trials[p.Name] == nil {
			t.Errorf("%s cannot be made", p.Name)
		}
	}
}

// TestNoLogin: without a login, nothing is made.
func TestNoLogin(t *testing.T) {
	client, err := newWithoutLogin()
	if err != nil {
		t.Fatal(err)
	}
	_, trials := trialsOf(t)
	out, err := Run(t.Context(), client, Settings{Trials: trials}, Observer{})
	if !errors.Is(err, errLogin) || out.Group != "" {
		t.Errorf("%v, %v", out.Group, err)
	}
}
