package keeper

import (
	"math/rand/v2"
	"os"
	"strconv"
)

// seeds are the first seed of a test's days or hours, and how many there are. They are the same
// ones each time, so that a change is judged by what it changes. make days hunts with others:
// ROUTEKEEPER_SEED is "random" then, or the seed of the one that is repeated.
func seeds(usual int) (first, number int) {
	text := os.Getenv("ROUTEKEEPER_SEED")
	if text == "random" {
		return int(rand.Uint32()), usual
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n, 1
	}
	return 1, usual
}
