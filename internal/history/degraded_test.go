package history

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/plan"
)

// lockedEnv names a file that this program, as a child process, keeps locked until its standard
// input ends.
const lockedEnv = "ROUTEKEEPER_TEST_LOCKS"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockedEnv); path != "" {
		db, err := open(path)
		if err == nil {
			_, err = db.Begin()
		}
		fmt.Println(err)
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}
	os.Exit(pastetest.Main(m.Run))
}

// degraded expects that a check reports the trouble with the right reason, and that it waited only
// briefly.
func degraded(t *testing.T, why string, check func() []finding.Finding) {
	t.Helper()
	start := time.Now()
	found := check()
	if len(found) != 1 || found[0].Code != finding.HistoryDegraded ||
		!strings.Contains(found[0].Message, why) {
		t.Errorf("findings %+v, want one with %q", found, why)
	}
	if took := time.Since(start); took > 3*patience {
		t.Errorf("the keeper was held up for %s", took)
	}
}

// well expects that everything is fine again.
func well(t *testing.T, found []finding.Finding) {
	t.Helper()
	if len(found) > 0 {
		t.Errorf("findings %+v, want none", found)
	}
}

// TestLocked: another process locks the file. Nothing is lost when it releases the lock.
func TestLocked(t *testing.T) {
	p := newPast(t)
	p.change(create(1))
	locker := exec.Command(os.Args[0])
	locker.Env = append(os.Environ(), lockedEnv+"="+p.path)
	release, err := locker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := locker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := locker.Start(); err != nil {
		t.Fatal(err)
	}
	defer locker.Process.Kill()
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "<nil>\n" {
		t.Fatalf("it is not locked: %q, %v", line, err)
	}
	degraded(t, "another program holds it locked", func() []finding.Finding {
		return p.change(create(2))
	})
	degraded(t, "another program holds it locked", func() []finding.Finding {
		return p.change(create(3))
	})
	expect(t, p.checks(), "done create node1") // people can still read
	release.Close()
	_ = locker.Wait()
	well(t, p.change(create(4)))
	expect(t, p.checks(), "done create node1", "done create node2", "done create node3",
		"done create node4")
}

// TestFull: the disk is full, and then has room again.
func TestFull(t *testing.T) {
	p := newPast(t)
	p.change(create(1))
	var pages int
	if err := p.j.db.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		if _, err := p.j.db.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages)
	long := create(2)
	long.Why = strings.Repeat("a long story ", 10000)
	degraded(t, "the disk is full", func() []finding.Finding { return p.change(long) })
	degraded(t, "the disk is full", func() []finding.Finding { return p.change(create(3)) })
	limit(1 << 20)
	well(t, p.change(create(4)))
	expect(t, p.checks(), "done create node1", "done create node2", "done create node3",
		"done create node4")
}

// TestFolder: the folder does not exist, or does not accept a file, and then does.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	p := open1(t, filepath.Join(dir, "routes"+Extension))
	degraded(t, "no such file or directory", func() []finding.Finding {
		return p.change(create(1))
	})
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	well(t, p.change(create(2)))
	expect(t, p.checks(), "done create node1", "done create node2")

	// A file has the folder's name, which stops root as well.
	blocked := filepath.Join(t.TempDir(), "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p = open1(t, filepath.Join(blocked, "routes"+Extension))
	degraded(t, "not a directory", func() []finding.Finding { return p.change(create(1)) })
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	well(t, p.change(create(2)))
	expect(t, p.checks(), "done create node1", "done create node2")

	if os.Geteuid() == 0 {
		return // the rest needs a user that the folder's mode stops; root is not stopped
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	p = open1(t, filepath.Join(dir, "other"+Extension))
	degraded(t, "permission denied", func() []finding.Finding { return p.change(create(1)) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	well(t, p.change(create(2)))
}

// TestRemoved: a person removes the open file during a check. The check is in the new file.
func TestRemoved(t *testing.T) {
	p := newPast(t)
	p.change(create(1))
	r := p.start()
	p.Intend(r, []plan.Change{associate()})
	for _, part := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(p.path + part)
	}
	r.Changes = done(associate())
	p.Settle(r.Changes)
	well(t, p.Record(r, seenWith("")))
	expect(t, p.checks(), "done associate")
}

// TestDamaged: a file that was truncated or overwritten is moved aside, and a new one begins,
// before the start and while the file is open.
func TestDamaged(t *testing.T) {
	garbage := func(path string) error {
		return os.WriteFile(path, []byte(strings.Repeat("garbage ", 2000)), 0o600)
	}
	cut := func(path string) error { return os.Truncate(path, 9000) }
	for name, damage := range map[string]func(string) error{"garbage": garbage, "cut": cut} {
		for _, when := range []string{"before", "while open"} {
			t.Run(name+" "+when, func(t *testing.T) {
				first := newPast(t)
				for i := range 30 {
					first.change(create(i))
				}
				p := first
				if when == "before" {
					first.Close()
				} else if _, err := first.j.db.Exec("PRAGMA wal_checkpoint(truncate)"); err != nil {
					t.Fatal(err)
				}
				if err := damage(first.path); err != nil {
					t.Fatal(err)
				}
				if when == "before" {
					p = open1(t, first.path)
				}
				found := p.change(create(100))
				if len(found) != 1 || found[0].Code != finding.HistoryDegraded ||
					!strings.Contains(found[0].Message, "was damaged") {
					t.Fatalf("findings %+v", found)
				}
				checks := p.checks()
				expect(t, checks[len(checks)-1:], "done create node100")
				if aside, err := filepath.Glob(p.path + ".damaged-*"); err != nil ||
					len(aside) == 0 {
					t.Errorf("nothing was put aside: %v, %v", aside, err)
				}
			})
		}
	}
}

// TestNotOurs: a file that is not a history is never touched.
func TestNotOurs(t *testing.T) {
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes.txt")
	text := []byte("not a database, but a person's notes, which are longer than a header")
	if err := os.WriteFile(notes, text, 0o600); err != nil {
		t.Fatal(err)
	}
	degraded(t, "it is not a routekeeper history; it stays unchanged", func() []finding.Finding {
		return open1(t, notes).change(create(1))
	})
	if now, err := os.ReadFile(notes); err != nil || string(now) != string(text) {
		t.Errorf("%q, %v", now, err)
	}
	for name, query := range map[string]string{
		"it is another program's database": "PRAGMA application_id = 7",
		"a newer routekeeper wrote it":     "PRAGMA user_version = 99",
		"no release wrote it":              "PRAGMA user_version = 1"} {
		p := newPast(t)
		p.change(create(1))
		if _, err := p.j.db.Exec(query); err != nil {
			t.Fatal(err)
		}
		p.Close()
		before, _ := os.ReadFile(p.path)
		degraded(t, name, func() []finding.Finding { return open1(t, p.path).change(create(2)) })
		if after, _ := os.ReadFile(p.path); string(after) != string(before) {
			t.Errorf("%s: the file was changed", name)
		}
		if _, err := Read(p.path); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("reading it: %v, want %q", err, name)
		}
	}
}
