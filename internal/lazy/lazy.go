// Package lazy makes values at their first use. Regular expressions compiled at the start were a
// third of the time of a short command. It must not import other packages of the program.
package lazy

import (
	"regexp"
	"sync"
)

// Value returns a function that makes a value when it is first called.
func Value[T any](made func() T) func() T { return sync.OnceValue(made) }

// Regexp returns a function that compiles a valid regular expression when it is first called.
func Regexp(text string) func() *regexp.Regexp {
	return Value(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
