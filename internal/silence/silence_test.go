package silence

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

func lost(cluster string, evidence ...string) finding.Finding {
	return finding.New(finding.AssociationLost, cluster, "/subscriptions/s/"+cluster,
		"lost").With(evidence...)
}

func entry(e Entry, length time.Duration) Entry {
	e.Reason, e.By, e.From, e.Until = "work", "ada", "a test", time.Now().Add(length)
	return e
}

// marked returns the clusters whose findings are silenced.
func marked(s *Store, findings ...finding.Finding) (clusters string) {
	for _, f := range Mark(s.Current(), findings) {
		if f.Silenced != nil {
			clusters += f.Cluster + " "
		}
	}
	return clusters
}

// TestMark: a silence is for one finding, until its end, and not for a worse one.
func TestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.silences")
	synctest.Test(t, func(t *testing.T) {
		s := Open(path, nil)
		if err := s.Add(entry(Of(lost("shop", "a")), time.Hour)); err != nil {
			t.Fatal(err)
		}
		worse := lost("shop", "a")
		worse.Severity++
		other := lost("shop", "a")
		other.Resource += "2"
		subject := lost("shop", "a").About("another route")
		for _, f := range []finding.Finding{worse, other, subject, lost("shop", "a", "b"),
			lost("play")} {
			if got := marked(s, f); got != "" {
				t.Errorf("%+v is silenced", f)
			}
		}
		same := lost("shop", "b")
		same.Message, same.Severity = "other words", finding.Info
		if got := marked(Open(path, nil), same, lost("play")); got != "shop " {
			t.Errorf("silenced: %q, want shop", got)
		}
		time.Sleep(time.Hour)
		if got := marked(s, same); got != "" || len(s.Current()) != 0 {
			t.Error("the silence does not end")
		}
	})
}

// TestForgotten: a pause stops one cluster until its end, and after a day it is a finding.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Open(filepath.Join(t.TempDir(), "routes.silences"), nil)
		if err := s.Add(entry(Entry{Kind: Pause, Cluster: "shop"}, 48*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if p := s.Paused("shop"); !strings.HasPrefix(p, "until 20") ||
			!strings.HasSuffix(p, "by ada: work") || s.Paused("play") != "" {
			t.Errorf("shop is paused %q, play %q", p, s.Paused("play"))
		}
		count := func(code finding.Code) (n int) {
			for _, f := range Findings(s.Current(), time.Now()) {
				if f.Code == code && f.Cluster == "shop" {
					n++
				}
			}
			return n
		}
		if count(finding.Paused) != 1 || count(finding.PauseForgotten) != 0 {
			t.Error("a new pause is forgotten, or not told")
		}
		time.Sleep(25 * time.Hour)
		if count(finding.Paused) != 1 || count(finding.PauseForgotten) != 1 {
			t.Error("after a day the pause is not a finding")
		}
		time.Sleep(24 * time.Hour)
		if count(finding.Paused)+count(finding.PauseForgotten) != 0 || s.Paused("shop") != "" {
			t.Error("the pause does not end")
		}
	})
}

// TestEnd: a finding says for a day who ended what, and nothing is silenced or paused meanwhile.
func TestEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.silences")
	synctest.Test(t, func(t *testing.T) {
		s := Open(path, nil)
		if err := s.Add(entry(Of(lost("shop")), time.Hour),
			entry(Entry{Kind: Pause, Cluster: "play"}, time.Hour)); err != nil {
			t.Fatal(err)
		}
		if ended, err := s.End("eve", "a test, too", func(Entry) bool {
			return true
		}); err != nil || len(ended) != 2 || ended[0].By != "ada" {
			t.Fatalf("ended %v, %v", ended, err)
		}
		if again, err := s.End("bob", "", func(Entry) bool { return true }); err != nil ||
			len(again) != 0 {
			t.Errorf("ended again: %v, %v", again, err)
		}
		if marked(s, lost("shop")) != "" || s.Paused("play") != "" || len(s.Current()) != 0 {
			t.Error("what was ended goes on")
		}
		time.Sleep(23 * time.Hour)
		found := Findings(Open(path, nil).All(), time.Now()) // as another program sees it
		if len(found) != 2 {
			t.Fatalf("found %v", found)
		}
		for i, what := range []string{"the silence of association-lost on shop",
			"the pause of play"} {
			f := found[i]
			if f.Code != finding.SilenceEnded || !strings.HasPrefix(f.Message, "eve ended "+what+
				" at 2000-01-01T00:00:00Z") ||
				!strings.HasSuffix(f.Message, "; ada began it: work") ||
				f.Evidence[0] != "from a test, too" {
				t.Errorf("found %+v", f)
			}
		}
		time.Sleep(time.Hour)
		if all := s.All(); len(all) != 0 {
			t.Errorf("after a day: %v", all)
		}
	})
}

// TestAdd: an entry needs a reason and an end, and replaces the one about the same thing.
func TestAdd(t *testing.T) {
	s := Open(filepath.Join(t.TempDir(), "routes.silences"), nil)
	for want, bad := range map[string]Entry{
		"the reason is missing": {Kind: Pause, Until: time.Now().Add(time.Hour), Reason: " \t"},
		"the reason has 301 bytes": {Until: time.Now().Add(time.Hour),
			Reason: strings.Repeat("x", 301)},
		"the time is out of range": {Kind: Pause, Reason: "x"},
		"expected more than 0 and": {Reason: "x", Until: time.Now().Add(8 * 24 * time.Hour)},
	} {
		if err := s.Add(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for range 2 {
		if err := s.Add(entry(Entry{Kind: Pause, Cluster: "shop"}, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if now := s.Current(); len(now) != 1 || now[0].ID != 2 {
		t.Errorf("the entries %+v", now)
	}
	if err := Open("", nil).Add(entry(Entry{Kind: Pause}, time.Hour)); err == nil {
		t.Error("a store without a file takes entries")
	}
}

// TestTogether: several programs change the file at once, and nothing is lost.
func TestTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.silences")
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			if err := Open(path, nil).Add(entry(Entry{Kind: Pause, Cluster: fmt.Sprint("c", i)},
				time.Hour)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := len(Open(path, nil).Current()); n != 20 {
		t.Errorf("%d entries of 20", n)
	}
}

// TestDamaged: a file that cannot be read ends nothing, and is not overwritten. A lock that a
// killed program left behind does not hold up the next.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.silences")
	s := Open(path, nil)
	if err := s.Add(entry(Entry{Kind: Pause, Cluster: "shop"}, time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"entries": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Paused("shop") == "" {
		t.Error("a damaged file ends the pause")
	}
	if err := s.Add(entry(Entry{Kind: Pause, Cluster: "play"}, time.Hour)); err == nil {
		t.Error("a damaged file is overwritten")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if s.Paused("shop") != "" {
		t.Error("the pause outlives its file")
	}
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(entry(Entry{Kind: Pause, Cluster: "play"}, time.Hour)); err != nil {
		t.Error(err)
	}
}

// TestHeld: a change waits for another program's, and says so if that does not end.
func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "routes.silences")
	synctest.Test(t, func(t *testing.T) {
		unlock, err := lock(path + ".lock")
		if err != nil {
			t.Fatal(err)
		}
		s, pause := Open(path, nil), entry(Entry{Kind: Pause, Cluster: "shop"}, time.Hour)
		if err := s.Add(pause); err == nil || !strings.Contains(err.Error(), "another program") {
			t.Errorf("%v, want that another program holds the lock", err)
		}
		time.AfterFunc(time.Second, unlock)
		if err := s.Add(pause); err != nil || len(s.Current()) != 1 {
			t.Errorf("%v; %d entries", err, len(s.Current()))
		}
	})
}
