// Package cli is the command line: one file a command, each of which turns its flags into one call and its answer into a
// report. What commands share (where output goes, how Azure is reached, exit codes) is in root.go, output.go and azure.go.
//
// It decides nothing about routes, and no other room imports it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/report"
)

// Main runs the command line of this process and returns its exit code: 0 fine, 1 error, 2 changes or findings.
func Main() int {
	// A reader that went away (| head) is an error of the next write: what was begun is cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := interruptible(context.Background())
	defer stop()
	app := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	return app.run(ctx, os.Args[1:])
}

// interruptible ends the context at the first Ctrl-C or SIGTERM, so that the write in flight can be finished, and lets
// the second one end the program at once.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// exitCode ends the program with a code of its own; what there is to say has been said.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// attention is the exit code for changes or findings, where a command says so.
const attention = exitCode(2)

// run executes one command line. An error always wins over changes and findings.
func (a *app) run(ctx context.Context, args []string) int {
	defer func() {
		if a.lines != nil {
			a.lines.Flush(lastWords)
		}
	}()
	root := a.newRoot()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noArgs, needsCommand
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
	if err != nil && !started {
		err = fmt.Errorf("%w (see %s --help)", usageError(cmd, err), cmd.CommandPath())
	}
	if closed := a.closeOutput(err != nil && !errors.Is(err, attention)); err == nil || errors.Is(err, attention) && closed != nil {
		err = closed
		if closed == nil {
			return 0
		}
	}
	var code exitCode
	switch {
	case errors.As(err, &code) && err == error(code):
		return int(code)
	case errors.Is(err, syscall.EPIPE): // nobody reads on
		return 1
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	fmt.Fprintln(a.err, "routekeeper: "+strings.Join(problems(err), "\n  "))
	return 1
}

// problems are the lines of an error: one, or one of each error that was joined. Other ends of lines come from outside, and
// could begin a command of a pipeline, such as ::error::.
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

// commands returns a command with all below it.
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
		Short: "Keeps AKS pod routes true",
		Long: `routekeeper keeps AKS pod routes true: on the cluster's own subnets (it puts a stripped route table back) and on
every other route table that must reach pods (it copies the pod routes there), and tells you what breaks them.

Exit codes: 0 fine; 1 error; 2 changes or findings, where the command says so.`,
		Example: `  routekeeper demo                                  see all of it on a local Azure, no account needed
  routekeeper demo --web                            the same, watched in a browser
  routekeeper init --subscription <id> > routes.yaml
  routekeeper run -f routes.yaml                    show what would be done
  routekeeper promote shop -f routes.yaml           have it done, and keep it true
  routekeeper doctor shop                           what is wrong, who did it, what to type
  routekeeper iac check plan.json                   what a plan would break`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Version:           version(),
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.checkCloud(cmd) },
	}
	root.SetVersionTemplate(versionLine())
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.emulatorDir, "emulator", "", "use the emulator whose `DIR` holds emulator.json (or ROUTEKEEPER_EMULATOR)")
	flags.StringVar(&a.cloudName, "cloud", "public", "Azure cloud: "+strings.Join(cloudNames, ", ")+" (or ROUTEKEEPER_CLOUD)")
	_ = root.MarkPersistentFlagDirname("emulator")
	_ = root.RegisterFlagCompletionFunc("cloud", cobra.FixedCompletions(cloudNames, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(a.newPromote())
	root.AddCommand(a.newInit(), a.newSchema(), a.newRun(), a.newPause(), a.newResume(), a.newInstall(), a.newSync(), a.newDiff(), a.newDoctor(), a.newCollect(), a.newPruneOrphans(), a.newStatus(), a.newHistory(), a.newExplain(), a.newTrace(), a.newCapacity(), a.newIaC(), a.newCluster(), a.newDemo(), a.newEmulator(), a.newVersion(), a.newHello())
	return root
}

// noArgs refuses arguments that are no flags, and says which command may have been meant.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return fmt.Errorf("unexpected argument %q: %s takes flags only", args[0], cmd.Name())
	}
	meant := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		meant = ", did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q%s", args[0], meant)
}
