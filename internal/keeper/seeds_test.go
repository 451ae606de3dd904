package keeper

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// seeds are the first seed of a test's days or hours, and how many there are. They are the same
// ones each time, so that a change is judged by what it changes. make days hunts with others:
// ROUTEKEEPER_SEED is "random" then, or the seed of the one that is repeated, and ROUTEKEEPER_DAYS
// the number of days or hours.
func seeds(usual int) (first, number int) {
	if n, err := strconv.Atoi(os.Getenv("ROUTEKEEPER_DAYS")); err == nil {
		usual = n
	}
	text := os.Getenv("ROUTEKEEPER_SEED")
	if text == "random" {
		return int(rand.Uint32()), usual
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n, 1
	}
	return 1, usual
}

// whole reports whether simulated days are asked for. If not, a third of one day is played.
func whole() bool {
	return os.Getenv("ROUTEKEEPER_DAYS") != "" || os.Getenv("ROUTEKEEPER_SEED") != ""
}

// full reports whether .ci/run runs the tests, which has time for every case.
func full() bool { return os.Getenv("ROUTEKEEPER_FULL") != "" && !testing.Short() }

// long is how long an hour or a third of a day is: half of it in a plain go test, and a sixth with
// -short, which is enough for the race detector.
func long(usual time.Duration) time.Duration {
	switch {
	case testing.Short():
		return usual / 6
	case full() || whole():
		return usual
	}
	return usual / 2
}
