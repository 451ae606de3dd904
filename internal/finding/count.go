package finding

import "fmt"

// Count writes a number with its noun: 1 route, 3 routes.
func Count(n int, noun string) string { return CountOf(n, noun, noun+"s") }

// CountOf writes a number with one of two words: 1 node has, 3 nodes have.
func CountOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
