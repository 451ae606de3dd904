package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

// users are the people in a file with lines of NAME:HASH, as htpasswd -B writes them.
type users struct {
	file string
	log  *slog.Logger
	open *openfiles.Watch

	mu      sync.Mutex
	read    time.Time // modification time of the file when it was read
	checked time.Time
	hashes  map[string][]byte
	// known are correct passwords, by salted hash. Checking a bcrypt hash is slow, to prevent
	// guessing.
	known   map[[sha256.Size]byte]bool
	salt    []byte
	guesses *guesses // one check at a time, so that logins do not use the whole machine
	// slowest is the slowest of the hashes. Unknown names are checked against it, so that they take
	// as long.
	slowest []byte
}

func newUsers(file string, log *slog.Logger, open *openfiles.Watch) (*users, error) {
	u := &users{file: file, log: log, open: open, salt: make([]byte, 32), guesses: newGuesses()}
	_, _ = rand.Read(u.salt) // it never fails
	return u, u.load()
}

// load reads the file.
func (u *users) load() error {
	info, err := os.Stat(u.file)
	if err != nil {
		return err
	}
	raw, err := input.ReadFile(u.file, input.Small)
	if err != nil {
		return err
	}
	hashes, err := parseUsers(u.file, raw)
	if err != nil {
		return err
	}
	u.hashes, u.read, u.known = hashes, info.ModTime(), map[[sha256.Size]byte]bool{}
	u.slowest = slices.MaxFunc(slices.Collect(maps.Values(hashes)), func(a, b []byte) int {
		return cmp.Compare(cost(a), cost(b))
	})
	return nil
}

// cost returns how slow a hash is to check. It was validated when it was read.
func cost(hash []byte) int {
	n, _ := bcrypt.Cost(hash)
	return n
}

// CheckUsers says what is wrong in a users file.
func CheckUsers(file string) error {
	raw, err := input.ReadFile(file, input.Small)
	if err == nil {
		_, err = parseUsers(file, raw)
	}
	return err
}

func parseUsers(file string, raw []byte) (map[string][]byte, error) {
	hashes := map[string][]byte{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, hash, found := strings.Cut(text, ":")
		if !found || name == "" {
			return nil, fmt.Errorf("%s:%d: expected NAME:HASH, as htpasswd -B writes it", file, n)
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil || len(hash) != 60 {
			return nil, fmt.Errorf("%s:%d: the password of %s is not a bcrypt hash, expected "+
				"one as htpasswd -B writes it", file, n, name)
		}
		if hashes[name] != nil {
			return nil, fmt.Errorf("%s:%d: %s is in the file twice", file, n, name)
		}
		hashes[name] = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("%s: it names no users, expected lines of NAME:HASH, as htpasswd "+
			"-B writes them", file)
	}
	return hashes, nil
}

// again reloads the file if it has changed, at most once a second. If the new file has a mistake,
// the old users stay.
func (u *users) again() {
	if time.Since(u.checked) < time.Second {
		return
	}
	u.checked = time.Now()
	info, err := os.Stat(u.file)
	if err == nil && info.ModTime().Equal(u.read) {
		return
	}
	if err == nil {
		err = u.load()
	}
	if u.open.Note(err) {
		return // the next calls try again
	}
	if err != nil {
		u.log.Error("the new users file cannot be used; the previous users stay in use", "error",
			err.Error())
		return
	}
	u.log.Info("the users file was reloaded", "users", len(u.hashes))
}

// know reports whether a name and a password are correct. It gives up if the caller has gone. An
// error says that they were not compared.
func (u *users) know(ctx context.Context, address, name, password string) (bool, error) {
	u.mu.Lock()
	u.again()
	hash, known, slowest := u.hashes[name], u.known, u.slowest
	sum := sha256.Sum256(fmt.Appendf(nil, "%s%d:%s%s", u.salt, len(name), name, password))
	right := known[sum]
	u.mu.Unlock()
	if right {
		return true, nil
	}
	return u.guesses.check(ctx, address, name, func() bool {
		right := compare(hash, slowest, func(hash []byte) bool {
			return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
		})
		if right {
			u.mu.Lock()
			known[sum] = true // belongs to the file that was checked
			u.mu.Unlock()
		}
		return right
	})
}

// compare reports whether a hash, nil for a name that is not in the file, matches. It takes as long
// as for the slowest hash: the time doubles with each cost, so a comparison at the cost of the hash
// and one at each cost from there to below the slowest's add up to that.
func compare(hash, slowest []byte, matches func(hash []byte) bool) bool {
	if hash == nil {
		matches(slowest)
		return false
	}
	right := matches(hash)
	for c := cost(hash); c < cost(slowest); c++ {
		matches(atCost(slowest, c))
	}
	return right
}

// atCost returns a hash with another cost, which no password matches: $2y$12$ becomes $2y$10$.
func atCost(hash []byte, cost int) []byte {
	other := slices.Clone(hash)
	copy(other[4:6], fmt.Sprintf("%02d", cost))
	return other
}
