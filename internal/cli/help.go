package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"routekeeper.dev/routekeeper/internal/report"
)

// helpWidth is the width of help texts in columns.
const helpWidth = 80

// flagsWidth is the width that pflag gets. Its last lines may be up to four columns longer.
const flagsWidth = helpWidth - 4

// flagGroup is the annotation that names the group of a flag.
const flagGroup = "routekeeper/group"

// The groups of flags in help texts, in their order. Flags without a group come last.
const (
	groupManage  = "What to manage"
	groupKube    = "Kubernetes"
	groupListen  = "Listener and authentication"
	groupHistory = "History"
	groupOutput  = "Output"
)

var flagGroups = []string{groupManage, groupKube, groupListen, groupHistory, groupOutput, ""}

// groupFlags puts the flags of a command that have no group yet into a group.
func groupFlags(cmd *cobra.Command, group string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[flagGroup]) == 0 {
			_ = cmd.Flags().SetAnnotation(f.Name, flagGroup, []string{group})
		}
	})
}

// writeHelp writes the help of a command: what it does, how to call it, examples, explanations,
// and then the commands below it and the flags.
func writeHelp(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, "%s.\n\n", c.Short)
	writeUsage(w, c)
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", inProgram(c, c.Example))
	}
	if long := strings.TrimSpace(inProgram(c, c.Long)); long != "" {
		for paragraph := range strings.SplitSeq(long, "\n\n") {
			fmt.Fprintln(w)
			// this is no list: its line breaks come from the source code
			if !strings.Contains(paragraph, "\n ") {
				paragraph = strings.ReplaceAll(paragraph, "\n", " ")
			}
			for line := range strings.SplitSeq(paragraph, "\n") {
				indent := len(line) - len(strings.TrimLeft(line, " "))
				fmt.Fprintln(w, wrapped(line, indent))
			}
		}
	}
	writeCommands(w, c)
	writeFlags(w, c)
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nMore about a command: %s COMMAND --help\n", c.CommandPath())
	}
}

// writeCommands lists the commands below a command, group by group.
func writeCommands(w io.Writer, c *cobra.Command) {
	subs, width := available(c), 0
	for _, sub := range subs {
		width = max(width, len(sub.Name()))
	}
	group := "" // commands without one come under this title
	for i, sub := range subs {
		if i == 0 || sub.GroupID != group {
			group = sub.GroupID
			fmt.Fprintf(w, "\n%s:\n", cmp.Or(group, "Commands"))
		}
		line := fmt.Sprintf("  %-*s  %s", width, sub.Name(), sub.Short)
		fmt.Fprintln(w, wrapped(line, width+4))
	}
}

// writeUsage writes how to call a command.
func writeUsage(w io.Writer, c *cobra.Command) {
	fmt.Fprintln(w, "Usage:")
	if c.Runnable() {
		fmt.Fprintln(w, wrapped("  "+c.UseLine(), 6))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintln(w, "  "+c.CommandPath()+" COMMAND")
	}
}

// writeFlags writes the flags of a command, group by group.
func writeFlags(w io.Writer, c *cobra.Command) {
	groups := map[string]*pflag.FlagSet{}
	for _, name := range flagGroups {
		groups[name] = pflag.NewFlagSet(name, pflag.ContinueOnError)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name := ""
		if of := f.Annotations[flagGroup]; len(of) > 0 {
			name = of[0]
		}
		groups[name].AddFlag(f)
	})
	for _, name := range flagGroups {
		if groups[name].HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", cmp.Or(name, "Flags"),
				groups[name].FlagUsagesWrapped(flagsWidth))
		}
	}
	if c.HasAvailableInheritedFlags() {
		fmt.Fprintf(w, "\nGlobal flags:\n%s", c.InheritedFlags().FlagUsagesWrapped(flagsWidth))
	}
}

// available returns the commands below a command that its help lists.
func available(c *cobra.Command) (subs []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			subs = append(subs, sub)
		}
	}
	return subs
}

// wrapped breaks a line that is too long between words. The lines that follow are indented.
func wrapped(line string, indent int) string { return report.Wrap(line, helpWidth, indent) }
