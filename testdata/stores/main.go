// Stores compares what the history could be kept in: SQLite, bbolt, and lines of JSON. It writes a
// million changes in synced transactions of a hundred, reads the last fifty of a cluster, and has
// another process read while this one has the file open, as status and history do during run.
//
//	go -C testdata/stores run .
//
// It is a module of its own, so that bbolt is not in the program's go.mod.
package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	_ "modernc.org/sqlite"
)

const (
	changes, each = 1_000_000, 100
	clusters      = 200
	last          = 50
	cluster       = "cluster-7"
)

// change is a row as long as one of the history.
type change struct {
	At                              int64
	Cluster, Resource, Kind, Detail string
}

func changeOf(i int) change {
	return change{int64(i), fmt.Sprintf("cluster-%d", i%clusters), fmt.Sprintf("/subscriptions/"+
		"5ab00000-0000-4000-8000-000000000001/resourceGroups/net-rg/providers/Microsoft.Network/"+
		"routeTables/rt-%d", i%400), "create", fmt.Sprintf("aks-nodepool1-12345678-vmss%06d "+
		"10.244.%d.0/24 -> 10.42.1.%d", i%5000, i%250, i%250)}
}

// store keeps changes in a file.
type store interface {
	write(from, to int)
	read() int // the last changes of the cluster
	close()
}

var kinds = map[string]func(path string) store{"SQLite": openSQLite, "bbolt": openBolt,
	"lines": openLines}

func main() {
	if len(os.Args) == 3 { // the other process
		began := time.Now()
		n := kinds[os.Args[1]](os.Args[2]).read()
		fmt.Printf("%d rows in %s", n, time.Since(began))
		return
	}
	self, err := os.Executable()
	must(err)
	folder, err := os.MkdirTemp("", "stores")
	must(err)
	defer os.RemoveAll(folder)
	for _, kind := range []string{"SQLite", "bbolt", "lines"} {
		path := filepath.Join(folder, kind)
		s := kinds[kind](path)
		began := time.Now()
		for i := 0; i < changes; i += each {
			s.write(i, i+each)
		}
		wrote := time.Since(began)
		began = time.Now()
		n := s.read()
		read := time.Since(began)
		about, err := os.Stat(path)
		must(err)
		other, err := exec.Command(self, kind, path).CombinedOutput()
		if err != nil {
			other = fmt.Appendf(nil, "refused: %v", err)
		}
		fmt.Printf("%-7s wrote in %.1f s, %d MB; %d rows in %s; another process: %s\n", kind,
			wrote.Seconds(), about.Size()/1e6, n, read, other)
		s.close()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type sqlite struct{ *sql.DB }

func openSQLite(path string) store {
	db, err := sql.Open("sqlite", "file:"+path+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	must(err)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS changes (id INTEGER PRIMARY KEY, at INTEGER,
		cluster TEXT, resource TEXT, kind TEXT, detail TEXT);
		CREATE INDEX IF NOT EXISTS of_cluster ON changes (cluster, at)`)
	must(err)
	return sqlite{db}
}

func (s sqlite) write(from, to int) {
	tx, err := s.Begin()
	must(err)
	insert, err := tx.Prepare("INSERT INTO changes (at, cluster, resource, kind, detail) " +
		"VALUES (?, ?, ?, ?, ?)")
	must(err)
	for i := from; i < to; i++ {
		c := changeOf(i)
		_, err := insert.Exec(c.At, c.Cluster, c.Resource, c.Kind, c.Detail)
		must(err)
	}
	must(tx.Commit())
}

func (s sqlite) read() (n int) {
	rows, err := s.Query("SELECT at FROM changes WHERE cluster = ? ORDER BY at DESC LIMIT ?",
		cluster, last)
	must(err)
	for rows.Next() {
		n++
	}
	must(rows.Err())
	return n
}

func (s sqlite) close() { must(s.Close()) }

type bolt struct{ *bbolt.DB }

var rowsBucket, clustersBucket = []byte("rows"), []byte("clusters")

func openBolt(path string) store {
	// A second process cannot open a file that the first has open for writing.
	_, err := os.Stat(path)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: err == nil, Timeout: time.Second})
	must(err)
	return bolt{db}
}

func (b bolt) write(from, to int) {
	must(b.Update(func(tx *bbolt.Tx) error {
		rows, err := tx.CreateBucketIfNotExists(rowsBucket)
		must(err)
		byCluster, err := tx.CreateBucketIfNotExists(clustersBucket)
		must(err)
		for i := from; i < to; i++ {
			c := changeOf(i)
			raw, err := json.Marshal(c)
			must(err)
			id := binary.BigEndian.AppendUint64(nil, uint64(i))
			must(rows.Put(id, raw))
			must(byCluster.Put(append([]byte(c.Cluster+"\x00"), id...), nil))
		}
		return nil
	}))
}

func (b bolt) read() (n int) {
	must(b.View(func(tx *bbolt.Tx) error {
		at := tx.Bucket(clustersBucket).Cursor()
		at.Seek([]byte(cluster + "\x01"))
		for key, _ := at.Prev(); key != nil && n < last; key, _ = at.Prev() {
			var c change
			must(json.Unmarshal(tx.Bucket(rowsBucket).Get(key[len(key)-8:]), &c))
			n++
		}
		return nil
	}))
	return n
}

func (b bolt) close() { must(b.Close()) }

type lines struct{ *os.File }

func openLines(path string) store {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	must(err)
	return lines{f}
}

func (l lines) write(from, to int) {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	for i := from; i < to; i++ {
		must(encode.Encode(changeOf(i)))
	}
	_, err := l.Write(b.Bytes())
	must(err)
	must(l.Sync())
}

func (l lines) read() int {
	_, err := l.Seek(0, 0)
	must(err)
	var of []change
	in := bufio.NewReaderSize(l, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return min(last, len(of))
		}
		if bytes.Contains(line, []byte(`"`+cluster+`"`)) {
			var c change
			must(json.Unmarshal(line, &c))
			of = append(of, c)
		}
	}
}

func (l lines) close() { must(l.Close()) }
