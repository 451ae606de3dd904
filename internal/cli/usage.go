package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/report"
	"routekeeper.dev/routekeeper/internal/trace"
)

// The errors of pflag and cobra are for programmers. usageError rewrites them for people. Errors of
// cobra have no types, so these patterns recognize them.
var (
	requiredFlags = lazy.Regexp(`^required flag\(s\) (.*) not set$`)
	oneOfFlags    = lazy.Regexp(`^at least one of the flags in the group \[(.*)\] is required$`)
	allOfFlags    = lazy.Regexp(
		`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)
)

// usageError rewrites the error of a command line as one clear line.
func usageError(cmd *cobra.Command, err error) error {
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name := "--" + value.GetFlag().Name
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%s: %s is out of range", name, report.Plain(value.GetValue()))
		}
		return fmt.Errorf("%s: %q is not %s", name, report.Plain(value.GetValue()),
			kindOf(value.GetFlag()))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if unknown.GetSpecifiedShortnames() != "" {
			return fmt.Errorf("unknown flag -%s", report.Plain(unknown.GetSpecifiedName()))
		}
		name := "--" + unknown.GetSpecifiedName()
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return fmt.Errorf("unknown flag %s%s", report.Plain(name), trace.Near(name, names))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("expected a value: %s", withValue(missing.GetFlag()))
	}
	text := err.Error()
	if m := requiredFlags().FindStringSubmatch(text); m != nil {
		names := strings.Split(strings.ReplaceAll(m[1], `"`, ""), ", ")
		return fmt.Errorf("expected %s", flagsOf(cmd, names, " and "))
	}
	if m := oneOfFlags().FindStringSubmatch(text); m != nil {
		return fmt.Errorf("expected %s", flagsOf(cmd, strings.Fields(m[1]), " or "))
	}
	if m := allOfFlags().FindStringSubmatch(text); m != nil {
		names := strings.Fields(m[1])
		return fmt.Errorf("--%s and --%s exclude each other",
			strings.Join(names[:len(names)-1], ", --"), names[len(names)-1])
	}
	return err
}

// oneOf returns an error if the value of a flag is not a known one.
func oneOf(flag, what, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	last := len(known) - 1
	return fmt.Errorf("%s: unknown %s %q, expected %s or %s", flag, what, value,
		strings.Join(known[:last], ", "), known[last])
}

// withValue returns a flag with its value, such as --subscription ID.
func withValue(f *pflag.Flag) string {
	flag := "--" + f.Name
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand
	}
	if value, _ := pflag.UnquoteUsage(f); value != "" {
		flag += " " + value
	}
	return flag
}

// flagsOf lists flags with their values, such as --subscription ID or --cluster ID.
func flagsOf(cmd *cobra.Command, names []string, between string) string {
	var out []string
	for _, name := range names {
		out = append(out, withValue(cmd.Flag(name)))
	}
	if len(out) == 1 {
		return out[0]
	}
	return strings.Join(out[:len(out)-1], ", ") + between + out[len(out)-1]
}

// kindOf describes the values of a flag.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64", "uint", "uint16":
		return "a whole number"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 30s, 10m, 2h or 2d"
	case "ipNet":
		return "a prefix such as 10.0.0.0/16"
	}
	return "a " + f.Value.Type()
}

// duration is a flag's value that accepts days.
type duration time.Duration

// durationFlag adds a flag for a duration that time.ParseDuration reads, or one with days (2d,
// 1d12h).
func durationFlag(flags *pflag.FlagSet, into *time.Duration, name string, value time.Duration,
	usage string) {
	*into = value
	flags.Var((*duration)(into), name, usage)
	if value == 0 {
		flags.Lookup(name).DefValue = "" // help shows no default
	}
}

func (d *duration) Type() string { return "duration" }

func (d *duration) String() string {
	if length := time.Duration(*d); length >= 24*time.Hour && length%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", length/(24*time.Hour))
	}
	return time.Duration(*d).String()
}

func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = duration(parsed)
	return err
}

var daysFirst = lazy.Regexp(`^(\d{1,5})d(.*)$`)

// parseDuration works like time.ParseDuration, but accepts days at the beginning.
func parseDuration(text string) (time.Duration, error) {
	m := daysFirst().FindStringSubmatch(text)
	if m == nil {
		return time.ParseDuration(text)
	}
	days, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, err
	}
	all := time.Duration(days) * 24 * time.Hour
	if m[2] == "" {
		return all, nil
	}
	rest, err := time.ParseDuration(m[2])
	return all + rest, err
}

// needsCommand returns the error of a command that only groups other commands.
func needsCommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	all := strings.Join(names, ", ")
	if last := strings.LastIndex(all, ", "); last >= 0 {
		all = all[:last] + " or " + all[last+2:]
	}
	return fmt.Errorf("expected a command: %s (see %s --help)", all, cmd.CommandPath())
}
