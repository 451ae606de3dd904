// Package cli is the command line. Each command has its own file, which turns flags into one
// call and the answer into a report. The commands share root.go (exit codes), help.go (help texts),
// output.go (where reports go) and azure.go (how Azure is reached).
//
// It decides nothing about routes, and no other package imports it, except in tests.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/report"
)

// Main runs the command line of this process and returns its exit code: 0 fine, 1 error, 2 changes
// or findings.
func Main() int { return mainOf(programOf(os.Args[0]), (*app).newRoot) }

// Run runs one command line of routekeeper and returns its exit code, for tests of what commands
// show.
func Run(ctx context.Context, out io.Writer, args ...string) int {
	a := &app{in: strings.NewReader(""), out: out, err: out, repeat: finding.Repeat}
	return a.run(ctx, args)
}

// mainOf runs a command line of a program, under the name by which the user called it.
func mainOf(program string, root func(*app) *cobra.Command) int {
	// If the reader of a pipe is gone (| head), the next write fails and the command cleans up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := interruptible(context.Background())
	defer stop()
	app := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, repeat: finding.Repeat,
		program: program}
	finding.Program(app.program)
	return execute(ctx, app, root, os.Args[1:])
}

// interruptible ends the context at the first Ctrl-C or SIGTERM, so that the command can finish the
// write in flight. The second one ends the program at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// exitCode ends the program with this code and without a message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// attention is the exit code for changes or findings.
const attention = exitCode(2)

// attentionIf returns the error, or else attention if something needs it.
func attentionIf(needed bool, err error) error {
	if err == nil && needed {
		return attention
	}
	return err
}

// run executes one command line of routekeeper.
func (a *app) run(ctx context.Context, args []string) int {
	return execute(ctx, a, (*app).newRoot, args)
}

// execute executes one command line. Exit code 1 for an error wins over 2 for changes and findings.
// If standard output did not accept the answer, that is an error, even if the command did not
// notice.
func execute(ctx context.Context, a *app, program func(*app) *cobra.Command, args []string) int {
	out := &standardOutput{Writer: a.out}
	a.out = out
	root := program(a)
	defer func() {
		if a.lines != nil {
			a.lines.Flush(lastWords)
		}
	}()
	a.args = args
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = noArgs, needsCommand
		case "help":
			c.Run, c.RunE = nil, showHelpOf
		}
	}
	root.SetArgs(args)
	started := false
	for _, c := range commands(root) {
		if work := c.RunE; work != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				started = true
				return work(cmd, args)
			}
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !started && out.failure() == nil {
		err = fmt.Errorf("%w (see %s --help)", usageError(cmd, err), cmd.CommandPath())
	}
	if err = a.closeOutput(err); err == nil || errors.Is(err, attention) {
		err = cmp.Or(out.failure(), err)
	}
	if err == nil {
		return 0
	}
	var code exitCode
	err = overdue(a, err)
	switch {
	case errors.As(err, &code) && err == error(code):
		return int(code)
	case errors.Is(err, syscall.EPIPE): // the reader is gone
		return 1
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	fmt.Fprintln(a.err, root.DisplayName()+": "+
		inProgram(root, strings.Join(slices.Compact(problems(err)), "\n  ")))
	return 1
}

// problems returns the lines of an error: one line for each error that was joined. Other line
// breaks are escaped. They come from outside, and the text after a line break could begin with a
// command that a pipeline runs, such as ::error::.
func problems(err error) []string {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		return []string{report.Plain(err.Error())}
	}
	var texts, lines []string
	for _, e := range joined.Unwrap() {
		texts, lines = append(texts, e.Error()), append(lines, problems(e)...)
	}
	if strings.Join(texts, "\n") != err.Error() { // not errors.Join
		return []string{report.Plain(err.Error())}
	}
	return lines
}

// commands returns a command and all commands below it.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "routekeeper",
		Short: "Keep AKS pod routes and route tables correct",
		Long: `routekeeper does three things:
  - It puts back the route table, NAT gateway or security group that a subnet
    has lost.
  - It copies a cluster's pod routes to every other route table that needs
    them, such as that of an Application Gateway, and updates them.
  - It tells you what breaks pod routes, who changed it, and what to do.

Exit codes: 0 fine; 1 error; 2 changes or findings, where the command says so.`,
		Example: `  routekeeper demo                         try it on a local Azure emulator
  routekeeper demo --web                   the same, shown in a browser
  routekeeper init --subscription <id> > routes.yaml
  routekeeper run -f routes.yaml           show the changes it would make
  routekeeper promote shop -f routes.yaml  let it make the changes
  routekeeper doctor shop                  what is wrong, and who did it
  routekeeper iac check plan.json          what a plan would break`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	if a.program == plugin {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: plugin}
	}
	configureRoot(a, root)
	commandsOf(a, root)
	return root
}

// The groups of commands in the help, in their order. The commands that a person needs first come
// first.
const (
	groupStart    = "Start"
	groupKeep     = "Keep clusters correct"
	groupDiagnose = "Diagnose"
	groupBuild    = "Plan and build"
	groupSetUp    = "Set up and try"
)

// commandsOf adds the commands, in groups.
func commandsOf(a *app, root *cobra.Command) {
	cobra.EnableCommandSorting = false // they are in the order of use
	group := func(title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		for _, c := range commands {
			c.GroupID = title
		}
		root.AddCommand(commands...)
	}
	about := newVersion(a)
	about.AddCommand(newLicenses(a)) // the controller has both at its top
	group(groupStart, newDemo(a), newInit(a), newPromote(a))
	group(groupKeep, newRun(a), newSync(a), newStatus(a), newHistory(a), newPause(a),
		newSilence(a), newPrevent(a))
	group(groupDiagnose, newDoctor(a), newTrace(a), newExplain(a))
	group(groupBuild, newCluster(a), newIaC(a), newMigrate(a))
	group(groupSetUp, newNotify(a), newEmulator(a), newProve(a), about)
	root.AddCommand(newHello(a), newMan())
	root.SetHelpCommandGroupID(groupSetUp)
	root.SetCompletionCommandGroupID(groupSetUp)
}

// configureRoot sets what the root commands of all programs share: version, help, the flags about
// Azure, and where input and output go.
func configureRoot(a *app, root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors, root.Version = true, true, version()
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return checkCloud(a, cmd)
	}
	root.SetVersionTemplate(versionLine())
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { writeHelp(c.OutOrStdout(), c) })
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.emulatorDir, "emulator", "",
		"use the emulator whose emulator.json is in `DIR` (or ROUTEKEEPER_EMULATOR)")
	flags.StringVar(&a.cloudName, "cloud", "public",
		"Azure cloud: "+strings.Join(cloudNames, ", ")+" (or ROUTEKEEPER_CLOUD)")
	_ = root.MarkPersistentFlagDirname("emulator")
	_ = root.RegisterFlagCompletionFunc("cloud",
		cobra.FixedCompletions(cloudNames, cobra.ShellCompDirectiveNoFileComp))
}

// showHelpOf writes the help of the command that the arguments name.
func showHelpOf(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	if err != nil {
		return err
	}
	if about.HasSubCommands() {
		if err := noArgs(about, rest); err != nil {
			return err
		}
	}
	return about.Help()
}

// noArgs refuses arguments, and suggests commands with a similar name.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		if _, err := os.Stat(args[0]); err == nil && cmd.Flags().ShorthandLookup("f") != nil {
			return fmt.Errorf("unexpected argument %q: did you mean -f %s?", args[0],
				finding.Show(args[0]))
		}
		return fmt.Errorf("unexpected argument %q: %s takes flags only", args[0], cmd.Name())
	}
	meant := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		meant = ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q%s", args[0], meant)
}
