package pastetest

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"pgregory.net/rapid"
)

// marks has the endings of hostile names. Each would do harm in an unquoted word. Each contains
// "pwned", so that no harmless name contains one.
var marks = []string{"$(touch pwned)", "`touch pwned`", "';touch pwned;'", `";touch pwned;"`,
	" && touch pwned", "|touch pwned", ">pwned", " a  pwned", "*~?[a]{b,c}pwned", `pwned\`,
	"#pwned", "!pwned"}

// unusable has marks with which no command can be shown. The last two come first in a name.
var unusable = []string{"\ntouch pwned", "\x1b[31mpwned", "\u202epwned", "\u200bpwned", "-pwned",
	"@pwned"}

// drawn has random marks of any characters.
var drawn = rapid.StringOfN(rapid.RuneFrom([]rune("a $`'\"\\;&|<>()*?~#!{}[]=-@%é")), 1, 8, -1)

// used are all marks that tests have used, the pattern that finds them, and the texts without them.
var used struct {
	sync.Mutex
	marks   []string
	pattern *regexp.Regexp
	without map[string]string
}

// Names returns functions that make a harmless name hostile, each in another way: with every mark,
// and with a drawn one.
func Names() []func(name string) string {
	all := []func(string) string{with(drawnMark(0))}
	for _, mark := range slices.Concat(marks, unusable) {
		all = append(all, with(mark))
	}
	return all
}

// some returns three of these functions: of a mark, of an unusable one and of a drawn one.
func some(n int) []func(name string) string {
	return []func(string) string{with(marks[n%len(marks)]), with(unusable[n%len(unusable)]),
		with(drawnMark(n))}
}

// drawnMark returns one of 40: looking for more takes the tests longer than what they find is
// worth.
func drawnMark(n int) string { return strings.ToLower(drawn.Example(n%40)) + "~pwned" }

func with(mark string) func(name string) string {
	used.Lock()
	defer used.Unlock()
	if !slices.Contains(used.marks, mark) {
		used.marks, used.pattern, used.without = append(used.marks, mark), nil, map[string]string{}
	}
	if mark == "-pwned" || mark == "@pwned" {
		return func(name string) string { return mark + name }
	}
	return func(name string) string { return name + mark }
}

// unmark returns text without marks.
func unmark(text string) string {
	if !strings.Contains(strings.ToLower(text), "pwned") {
		return text
	}
	used.Lock()
	defer used.Unlock()
	if plain, known := used.without[text]; known {
		return plain
	}
	if used.pattern == nil {
		longest := slices.SortedFunc(slices.Values(used.marks), func(a, b string) int {
			return len(b) - len(a)
		})
		for i, mark := range longest {
			longest[i] = regexp.QuoteMeta(mark)
		}
		used.pattern = regexp.MustCompile("(?i)" + strings.Join(longest, "|"))
	}
	plain := used.pattern.ReplaceAllString(text, "")
	used.without[text] = plain
	return plain
}

// cannotShow reports whether a value has a mark with which no command can be shown. What a person
// typed may begin with any character.
func cannotShow(value string, typed bool) bool {
	for i, mark := range unusable {
		if first := i >= len(unusable)-2; !first && strings.Contains(value, mark) ||
			first && !typed && strings.HasPrefix(value, mark) {
			return true
		}
	}
	return false
}
