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
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"routekeeper.dev/routekeeper/internal/input"
	"routekeeper.dev/routekeeper/internal/openfiles"
)

// users are the people in a file with lines of NAME:HASH, as htpasswd -B writes them.
type users struct {
	*reloaded[accounts]
	salt    []byte
	guesses *guesses // one check at a time, so that logins do not use the whole machine
	known   sync.Mutex
}

// accounts are the content of a users file.
type accounts struct {
	hashes map[string][]byte
	// known are correct passwords, by salted hash. Checking a bcrypt hash is slow, to prevent
	// guessing.
	known map[[sha256.Size]byte]bool
	// slowest is the slowest of the hashes. Unknown names are checked against it, so that they take
	// as long.
	slowest []byte
}

func newUsers(file string, log *slog.Logger, open *openfiles.Watch) (u *users, err error) {
	u = &users{salt: make([]byte, 32), guesses: newGuesses()}
	_, _ = rand.Read(u.salt) // it never fails
	u.reloaded, err = newReloaded("the users file", log, open, func() (accounts, error) {
		return readUsers(file)
	}, file)
	return u, err
}

func readUsers(file string) (a accounts, err error) {
	raw, err := input.ReadFile(file, input.Small)
	if err != nil {
		return a, err
	}
	a.known = map[[sha256.Size]byte]bool{}
	if a.hashes, err = parseUsers(file, raw); err == nil {
		a.slowest = slices.MaxFunc(slices.Collect(maps.Values(a.hashes)), func(a, b []byte) int {
			return cmp.Compare(cost(a), cost(b))
		})
	}
	return a, err
}

// cost returns how slow a hash is to check. It was validated when it was read.
func cost(hash []byte) int {
	n, _ := bcrypt.Cost(hash)
	return n
}

// CheckUsers says what is wrong in a users file.
func CheckUsers(file string) error {
	_, err := readUsers(file)
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

// know reports whether a name and a password are correct. It gives up if the caller has gone. An
// error says that they were not compared.
func (u *users) know(ctx context.Context, address, name, password string) (bool, error) {
	a := u.get()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s%d:%s%s", u.salt, len(name), name, password))
	u.known.Lock()
	right := a.known[sum]
	u.known.Unlock()
	if right {
		return true, nil
	}
	return u.guesses.check(ctx, address, name, func() bool {
		right := compare(a.hashes[name], a.slowest, func(hash []byte) bool {
			return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
		})
		if right {
			u.known.Lock()
			a.known[sum] = true // belongs to the file that was checked
			u.known.Unlock()
		}
		return right
	})
}

// compare reports whether a hash matches. The hash is nil for a name that is not in the file.
// compare takes as long as for the slowest hash. The time doubles with each cost. So a comparison
// at the hash's cost, and one at each cost from there to below the slowest's, add up to that time.
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
