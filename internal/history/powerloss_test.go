package history

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/plan"
)

// TestPowerLoss records every write and sync of a history, and loses power after each of them: what
// was not synced is there, missing, there in another order, or there in part. Each history opens,
// has every record that was reported as written, and no record in part.
func TestPowerLoss(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "routes"+Extension)
	d := recordDisk(t, dir)
	states := d.play(t, path)
	d.lose(t, states)
}

// state is what a history says after a number of operations.
type state struct {
	ops  int
	says string
}

// play writes a history, and returns what it says after each transaction.
func (d *disk) play(t *testing.T, path string) (states []state) {
	var p *past
	after := func(step func()) {
		t.Helper()
		step()
		if p.j.trouble != nil {
			t.Fatal(p.j.trouble)
		}
		states = append(states, state{d.length(), rowsOf(t, p.j.db.DB)})
	}
	reopen := func() { p = open1(t, path) }
	after(reopen)
	states = slices.Insert(states, 0, state{0, states[0].says}) // an empty file
	r := p.start()
	intended := []plan.Change{associate(), create(1), create(2)}
	after(func() { p.Intend(r, intended) })
	after(func() { p.Settle(done(intended[0])) })
	after(func() { p.Settle(done(intended[1:]...)) })
	r.Changes = done(intended...)
	r.Findings = []finding.Finding{finding.New(finding.WriteFailed, "shop", string(target), "no")}
	r.Observed = []keeper.Observation{{Resource: nodes, Read: "no route table"}}
	after(func() { p.Record(r, seenWith("")) })
	after(func() { p.Keep(map[string]keeper.Lasting{"shop": {}}) })
	after(func() { p.Intend(p.start(), []plan.Change{create(3)}) })
	p.Close()
	after(reopen)
	many := make([]plan.Change, 20)
	for i := range many {
		many[i] = create(100 + i)
	}
	after(func() { p.Intend(p.start(), many) })
	after(func() {
		p.opts = Options{Age: time.Nanosecond}
		if err := p.removeOld(time.Now()); err != nil {
			t.Fatal(err)
		}
	})
	after(func() { p.Intend(p.start(), []plan.Change{create(4)}) })
	p.Close()
	return append(states, state{d.length(), states[len(states)-1].says})
}

// rowsOf is everything that a history says.
func rowsOf(t *testing.T, db *sql.DB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"checks", "changes", "findings", "standing", "memory",
		"sqlite_sequence"} {
		rows, err := db.Query("SELECT * FROM " + table + " ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, table, values)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// crash is a disk after a loss of power, and what its history may say.
type crash struct {
	media
	what  string
	mayBe []string
	// readFirst lets a person read the history before a program writes it again.
	readFirst bool
}

// lose opens the history after each loss of power.
func (d *disk) lose(t *testing.T, states []state) {
	tried := map[[sha256.Size]byte]bool{}
	var crashes []crash
	last, number, random := 0, 0, rand.New(rand.NewPCG(1, 2))
	d.cuts(func(n int, certain media, unsure []op) {
		for last+1 < len(states) && states[last+1].ops <= n {
			last++
		}
		mayBe := []string{states[last].says}
		if last+1 < len(states) {
			mayBe = append(mayBe, states[last+1].says)
		}
		atSync := n < len(d.ops) && d.ops[n].kind >= syncFile
		for what, kept := range losses(unsure, atSync, random) {
			number++
			if testing.Short() && number%41 != 0 { // the race detector finds all in some
				continue
			}
			c := crash{certain.with(kept...),
				fmt.Sprintf("operation %d, %s", n, what), mayBe, len(crashes)%8 == 1}
			if key := c.key(); !tried[key] {
				tried[key] = true
				crashes = append(crashes, c)
			}
		}
	})
	if !testing.Short() && len(crashes) < 300 || len(d.ops) < 100 {
		t.Fatalf("%d operations and %d crashes: too few", len(d.ops), len(crashes))
	}
	t.Logf("%d operations, %d crashes", len(d.ops), len(crashes))
	queue := make(chan crash)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for c := range queue {
				c.open(t)
			}
		})
	}
	for _, c := range crashes {
		queue <- c
	}
	close(queue)
	all.Wait()
}

// losses are sets of operations without a sync that reach the disk. There are the most of them
// before a sync, so there every single one is lost, or kept alone, or torn.
func losses(unsure []op, every bool, random *rand.Rand) map[string][]op {
	all := map[string][]op{"nothing more": nil, "everything": unsure}
	if len(unsure) == 0 {
		return all
	}
	var some []op
	for _, o := range unsure {
		if random.IntN(2) == 0 {
			some = append(some, o)
		}
	}
	all["some"] = some
	first := len(unsure) - 1
	if every {
		first = 0
	}
	for i := first; i < len(unsure); i++ {
		o := unsure[i]
		before, after := unsure[:i:i], unsure[i+1:]
		if every {
			all[fmt.Sprintf("all but %d", i)] = slices.Concat(before, after)
			all[fmt.Sprintf("only %d", i)] = []op{o}
		}
		if o.kind == write && len(o.data) > 1 {
			at := 1 + random.IntN(len(o.data)-1)
			head, tail := o, o
			head.data = o.data[:at]
			tail.offset, tail.data = o.offset+int64(at), o.data[at:]
			all[fmt.Sprintf("begin of %d", i)] = slices.Concat(before, []op{head}, after)
			all[fmt.Sprintf("end of %d", i)] = slices.Concat(before, []op{tail}, after)
		}
	}
	return all
}

// key is the same for crashes that leave the same files, and allow the same history.
func (c crash) key() (sum [sha256.Size]byte) {
	h := sha256.New()
	names := make([]string, 0, len(c.entries))
	for name := range c.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		data := c.content[c.entries[name]]
		fmt.Fprintln(h, name, len(data))
		h.Write(data)
	}
	fmt.Fprint(h, c.mayBe)
	h.Sum(sum[:0])
	return sum
}

// open starts a program after the power is back.
func (c crash) open(t *testing.T) {
	dir, err := os.MkdirTemp(quickDisk(), "powerloss")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	c.write(t, dir)
	path := filepath.Join(dir, "routes"+Extension)
	if c.readFirst && c.entries["routes"+Extension] != 0 {
		r, err := Read(path)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			return
		}
		c.expect(t, "to a reader ", r.db)
		r.Close()
	}
	l := Open(path, Options{})
	defer l.Close()
	if l.j.trouble != nil || l.j.aside != "" {
		t.Errorf("%s: %v %s", c.what, l.j.trouble, l.j.aside)
		return
	}
	c.expect(t, "", l.j.db.DB)
}

func (c crash) expect(t *testing.T, whom string, db *sql.DB) {
	if says := rowsOf(t, db); !slices.Contains(c.mayBe, says) {
		t.Errorf("%s: the history says %s\n%s\nwant\n%s", c.what, whom, says,
			strings.Join(c.mayBe, "\nor\n"))
	}
}

// quickDisk is a folder in memory if the machine has one: what SQLite syncs there takes no time.
func quickDisk() string {
	const inMemory = "/dev/shm"
	if _, err := os.Stat(inMemory); err == nil {
		return inMemory
	}
	return os.TempDir()
}
