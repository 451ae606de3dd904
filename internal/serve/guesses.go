package serve

import (
	"context"
	"errors"
	"sync"
	"time"
)

// How it works: checking a password is slow on purpose, so checks queue. A login waits for three
// places, one after the other: that of its name at its address, that of its address, and the only
// one where a password is compared. So a flood of guesses from one address waits for itself, and
// delays others by one check. After some wrong passwords, a name has to wait longer and longer, for
// that address only: its owner can log in from elsewhere.

// Reasons why a caller is refused without a comparison.
var (
	errBusy = errors.New("too many logins are being checked; try again")
	errSlow = errors.New("too many wrong passwords for this name from this address; wait")
)

const (
	// turnWithin is how long a login waits for its turn.
	turnWithin = 10 * time.Second
	// mostWaiting is how many logins may wait for a place, other than the last one.
	mostWaiting = 8
	// freeGuesses is how many wrong passwords in a row cost nothing.
	freeGuesses = 5
	// longestDelay is how long the next check for a name has to wait at most.
	longestDelay = 30 * time.Second
	// forgetAfter is after how long wrong passwords are forgotten.
	forgetAfter = 10 * time.Minute
	// mostGuessers limits the memory for wrong passwords.
	mostGuessers = 10_000
)

// guesses queue the checks of passwords, and count wrong ones.
type guesses struct {
	mu    sync.Mutex
	turns map[string]*turn
	wrong map[string]*wrong // by address and name
}

// turn is a place in the queue.
type turn struct {
	taken chan struct{}
	users int // who holds it or waits for it
}

// wrong counts the wrong passwords for a name from an address.
type wrong struct {
	times int
	last  time.Time
}

func newGuesses() *guesses {
	return &guesses{turns: map[string]*turn{}, wrong: map[string]*wrong{}}
}

// all is the last place in the queue: one password is compared at a time.
const all = "all"

// take waits for a place, and returns the function that gives it back.
func (g *guesses) take(ctx context.Context, key string) (release func(), err error) {
	g.mu.Lock()
	t := g.turns[key]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		g.turns[key] = t
	}
	if t.users > mostWaiting && key != all {
		g.mu.Unlock()
		return nil, errBusy
	}
	t.users++
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(g.turns, key)
		}
	}
	if ctx.Err() != nil { // select might choose the place
		leave()
		return nil, errBusy
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, errBusy
	}
}

// check waits for the three places, compares the password with right, and counts a wrong one.
func (g *guesses) check(ctx context.Context, address, name string, right func() bool) (bool,
	error) {
	key := address + " " + name
	ctx, cancel := context.WithTimeout(ctx, turnWithin)
	defer cancel()
	for _, at := range []string{"name " + key, "address " + address, all} {
		release, err := g.take(ctx, at)
		if err != nil {
			return false, err
		}
		defer release()
		if at != all && g.delayed(key) {
			return false, errSlow
		}
	}
	ok := right()
	g.note(key, ok)
	return ok, nil
}

// delayed reports whether a name has to wait.
func (g *guesses) delayed(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.wrong[key]
	if w == nil || w.times < freeGuesses {
		return false
	}
	delay := min(time.Second<<min(w.times-freeGuesses, 10), longestDelay)
	return time.Since(w.last) < delay
}

// note counts a wrong password; a correct one ends the count.
func (g *guesses) note(key string, right bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if right {
		delete(g.wrong, key)
		return
	}
	w := g.wrong[key]
	if w == nil || time.Since(w.last) > forgetAfter {
		if len(g.wrong) >= mostGuessers {
			g.forget()
		}
		w = &wrong{}
		g.wrong[key] = w
	}
	w.times++
	w.last = time.Now()
}

// forget makes room: it drops old entries, or else all of them.
func (g *guesses) forget() {
	for key, w := range g.wrong {
		if time.Since(w.last) > forgetAfter {
			delete(g.wrong, key)
		}
	}
	if len(g.wrong) >= mostGuessers {
		clear(g.wrong)
	}
}
