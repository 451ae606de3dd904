package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func hashOf(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// TestUsers: a file is read again when it has changed. A file with a mistake is not used, and old
// passwords do not stay valid forever.
func TestUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	at := time.Now().Add(-time.Hour)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// the clock of a file system may not advance during a test
		at = at.Add(time.Minute)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("# people\n\nada:" + hashOf(t, "first") + "\r\n")
	u, err := newUsers(file, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	know := func(name, password string, want bool) {
		t.Helper()
		for range 2 { // the second time from memory
			from := strconv.Itoa(calls) // wrong passwords slow down an address
			calls++
			if got, err := u.know(t.Context(), from, name, password); got != want || err != nil {
				t.Errorf("%s with %q: %v, %v", name, password, got, err)
			}
		}
	}
	know("ada", "first", true)
	know("ada", "second", false)
	know("eve", "first", false)
	know("ada", "", false)
	know("adaf", "irst", false) // the same letters, divided differently
	write("ada:" + hashOf(t, "second") + "\neve:" + hashOf(t, "third") + "\n")
	u.checked = time.Time{} // a second has passed
	know("ada", "first", false)
	know("ada", "second", true)
	know("eve", "third", true)
	write("ada:plain\n")
	u.checked = time.Time{}
	know("ada", "second", true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	u.checked = time.Time{}
	know("ada", "second", true)
}

// TestUsersTime: the time of an answer does not reveal which names are in the file, and passwords
// of callers who have gone are not compared.
func TestUsersTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	slow, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost+1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("ada:"+hashOf(t, "first")+"\neve:"+string(slow)+"\nbob:"+
		hashOf(t, "third")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := newUsers(file, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(u.get().slowest) != string(slow) {
		t.Errorf("who is not in the file is compared with a hash of cost %d", cost(u.get().slowest))
	}
	// the password of that hash
	if ok, err := u.know(t.Context(), "here", "mallory", "x"); ok || err != nil {
		t.Errorf("a name that is not in the file is accepted: %v, %v", ok, err)
	}
	if _, err := u.guesses.take(t.Context(), all); err != nil { // another caller's turn, forever
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if ok, err := u.know(gone, "here", "ada", "first"); ok || !errors.Is(err, errBusy) {
		t.Errorf("a password was compared for a caller who has gone: %v, %v", ok, err)
	}
}

func TestUsersFileMistakes(t *testing.T) {
	good := hashOf(t, "x")
	for text, want := range map[string]string{
		"":                      "users: it names no users",
		"ada:" + good + "\neve": "users:2: expected NAME:HASH",
		":" + good:              "users:1: expected NAME:HASH",
		"ada:$apr1$x$y": "users:1: the password of ada is not a bcrypt " +
			"hash",
		"ada:" + good + "\n\nada:" + good + "\n": "users:3: ada is in the file twice",
		"ada:" + good[:len(
			good)-1]: "users:1: the password of ada is not a bcrypt hash",
		"# no users yet\n" + strings.Repeat("\n", 9): "users: it names no users",
	} {
		if _, err := parseUsers("users", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := Start(Options{Address: "127.0.0.1:0",
		Auth: Auth{UsersFile: filepath.Join(t.TempDir(), "none")}, Log: slog.New(
			slog.DiscardHandler), Metrics: NewMetrics()}, &woken{}); err == nil {
		t.Error("a file that is not there was taken")
	}
}

// FuzzUsers: any file is read, or refused in one line, and admits no caller without a password.
func FuzzUsers(f *testing.F) {
	f.Add("ada:$2y$04$abcdefghijklmnopqrstuuDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD")
	f.Add("ada:x\neve")
	f.Add("#\n:\n")
	f.Fuzz(func(t *testing.T, text string) {
		hashes, err := parseUsers("users", []byte(text))
		if err != nil {
			if strings.ContainsAny(strings.TrimSuffix(err.Error(), "\n"), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			return
		}
		for name, hash := range hashes {
			if name == "" || len(hash) != 60 {
				t.Errorf("%q: %q", name, hash)
			}
		}
	})
}
