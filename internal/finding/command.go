package finding

import (
	"fmt"
	"reflect"
	"strings"
)

// CommandLine is what to type next: a command for a POSIX shell, or words that contain such
// commands.
type CommandLine struct {
	text     string
	withheld bool
}

// withheld replaces a command that cannot be pasted. POSIX has no quoting that shows a control
// character, and an invisible character would hide what is pasted. The sentence contains no value,
// so it is safe to paste.
const withheld = "no command is shown, because a name in it has characters that cannot be shown; " +
	"-o json shows them"

// repeated are the flags that commands of routekeeper repeat when this process prints them: a
// person pastes them into a shell that does not know them.
var repeated struct{ global, config string }

// program is what commands of routekeeper begin with when this process prints them.
var program = "routekeeper"

// Program sets it: kubectl's plugin is called "kubectl routekeeper". The process calls it once,
// before the first command is made.
func Program(name string) { program = name }

// Repeat sets these flags: the global ones, such as --emulator and its value, and the config files.
// The process calls it once, before the first command is made.
func Repeat(global, configs []string) {
	repeated.global, repeated.config = "", ""
	if len(global) > 0 {
		repeated.global = Command("%s", global).String() + " "
	}
	for _, path := range configs {
		repeated.config += Command(" -f %s", path).String()
	}
}

// Config returns the -f flags of the command line, each after a space.
func Config() CommandLine { return CommandLine{text: repeated.config} }

// withGlobals adds the global flags to each command of routekeeper in a template, and names the
// program as it was called.
func withGlobals(template string) string {
	const ours = "routekeeper "
	if !strings.Contains(template, ours) {
		return template
	}
	flags := program + " " + strings.ReplaceAll(repeated.global, "%", "%%")
	if rest, is := strings.CutPrefix(template, ours); is {
		template = flags + rest
	}
	return strings.ReplaceAll(template, "&& "+ours, "&& "+flags)
}

// Command makes a command line from a template and values. The result is safe to paste, whatever
// the values: each string becomes one word of a POSIX shell, a slice of strings one word each.
// Numbers and other command lines are inserted unchanged. A value that cannot be shown withholds
// the whole command. Commands of routekeeper get the flags of Repeat.
func Command(template string, values ...any) CommandLine {
	c := CommandLine{}
	words := make([]any, len(values))
	for i, value := range values {
		words[i] = c.word(value)
	}
	if c.text = fmt.Sprintf(withGlobals(template), words...); c.withheld {
		c.text = withheld
	}
	return c
}

// String returns the line, or words that say why there is none.
func (c CommandLine) String() string { return c.text }

// word returns a value as it appears in the line.
func (c *CommandLine) word(value any) any {
	if line, ok := value.(CommandLine); ok {
		c.withheld = c.withheld || line.withheld
		return line.text
	}
	if s, ok := value.(fmt.Stringer); ok {
		return c.quote(s.String())
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		return c.quote(v.String())
	case reflect.Slice:
		words := make([]string, v.Len())
		for i := range words {
			words[i] = c.quote(fmt.Sprint(v.Index(i).Interface()))
		}
		return strings.Join(words, " ")
	default:
		return value
	}
}

// quote returns a value as one word of a POSIX shell.
func (c *CommandLine) quote(value string) string {
	c.withheld = c.withheld || !shows(value)
	if value != "" && strings.Trim(value, plainCharacters) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// plainCharacters mean nothing to a shell inside of a word.
const plainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
