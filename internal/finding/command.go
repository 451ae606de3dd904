package finding

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
)

// CommandLine is what to type next: a command for a POSIX shell, or words that contain such
// commands.
type CommandLine struct{ text, withheld string }

// These replace a command that cannot be pasted. The sentences contain no value, so they are safe
// to paste.
const (
	// POSIX quoting cannot make control characters visible, and an invisible character would hide
	// what is pasted.
	withheld = "no command is shown, because a name in it has characters that cannot be shown; " +
		"-o json shows them"
	// Quotes do not help: the program itself reads such a word as a flag, and the Azure CLI reads
	// the file that a word names after @, also as the value of a key: tags=@FILE.
	misread = "no command is shown, because a program would take a name in it for a flag or a file"
)

// repeated has the flags that commands of routekeeper repeat when this process prints them, because
// a person pastes them into a shell that does not know them.
var repeated struct{ global, config CommandLine }

// program is how commands of routekeeper begin when this process prints them.
var program = "routekeeper"

// Program sets program: kubectl's plugin is called "kubectl routekeeper". The process calls it
// once, before the first command is made.
func Program(name string) { program = name }

// Repeat sets repeated: the global flags, such as --emulator and its value, and the config files.
// The process calls it once, before the first command is made.
func Repeat(global, configs []string) {
	repeated.global, repeated.config = CommandLine{}, CommandLine{}
	if len(global) > 0 {
		repeated.global = Words(global...)
		repeated.global.text += " "
	}
	for _, path := range configs {
		repeated.config = Command("%s -f %s", repeated.config, path)
	}
}

// Config returns the -f flags of the command line, each after a space.
func Config() CommandLine { return repeated.config }

// withGlobals adds the global flags to each command of routekeeper in a template, and names the
// program as it was called. A command that needs flags which cannot be shown is withheld.
func (c *CommandLine) withGlobals(template string) string {
	const ours = "routekeeper "
	if !strings.Contains(template, ours) {
		return template
	}
	flags := program + " " + strings.ReplaceAll(repeated.global.text, "%", "%%")
	rest, changed := strings.CutPrefix(template, ours)
	if changed {
		template = flags + rest
	}
	if chained := "&& " + ours; strings.Contains(template, chained) {
		template, changed = strings.ReplaceAll(template, chained, "&& "+flags), true
	}
	if changed {
		c.withheld = repeated.global.withheld
	}
	return template
}

// watch is called with each command that is made. The template of Words is "".
var watch func(template string, values []any, made CommandLine)

// Watch sets a function that is called with each command that is made, before the first one is.
// Tests set it: they paste the commands into a shell.
func Watch(f func(template string, values []any, made CommandLine)) { watch = f }

// Command makes a command line from a template and values. The result is safe to paste, whatever
// the values: each string becomes one word of a POSIX shell, a slice of strings one word each.
// Numbers and other command lines are inserted unchanged. A value that cannot be shown withholds
// the whole command. Commands of routekeeper get the flags of Repeat.
func Command(template string, values ...any) CommandLine {
	c := CommandLine{}
	line := c.withGlobals(template)
	words := make([]any, len(values))
	for i, value := range values {
		words[i] = c.word(value)
	}
	if c.text = fmt.Sprintf(line, words...); c.withheld != "" {
		c.text = c.withheld
	}
	if watch != nil {
		watch(template, values, c)
	}
	return c
}

// Words makes a command line from words that a person typed, flags among them.
func Words(words ...string) CommandLine {
	c := CommandLine{}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = c.quote(word)
	}
	if c.text = strings.Join(quoted, " "); c.withheld != "" {
		c.text = c.withheld
	}
	if watch != nil {
		watch("", []any{words}, c)
	}
	return c
}

// String returns the line, or words that say why there is none.
func (c CommandLine) String() string { return c.text }

// word returns a value in the form in which it appears in the line.
func (c *CommandLine) word(value any) any {
	if line, ok := value.(CommandLine); ok {
		c.withheld = cmp.Or(c.withheld, line.withheld)
		return line.text
	}
	if s, ok := value.(fmt.Stringer); ok {
		return c.value(s.String())
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		return c.value(v.String())
	case reflect.Slice:
		words := make([]string, v.Len())
		for i := range words {
			words[i] = c.value(fmt.Sprint(v.Index(i).Interface()))
		}
		return strings.Join(words, " ")
	default:
		return value
	}
}

// value returns a value as one word that a program reads unchanged.
func (c *CommandLine) value(value string) string {
	if len(value) > 1 && value[0] == '-' || strings.HasPrefix(value, "@") ||
		strings.Contains(value, "=@") {
		c.withheld = cmp.Or(c.withheld, misread)
	}
	return c.quote(value)
}

// quote returns a value as one word of a POSIX shell.
func (c *CommandLine) quote(value string) string {
	if !shows(value) {
		c.withheld = withheld
	}
	if value != "" && strings.Trim(value, plainCharacters) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// plainCharacters mean nothing to a shell inside of a word.
const plainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
