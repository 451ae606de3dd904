package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/report"
)

// How changing commands ask. A command shows its plan first. With --dry-run it ends there, and with
// --yes it continues without a question. Otherwise a person at a terminal answers the question. If
// no person can have seen the plan, the command fails and says how to confirm.

// confirm asks a question about a plan that was shown. Any answer except yes means no.
func (a *app) confirm(question string) (bool, error) {
	return a.confirmOr(question, a.repeated("--yes").String())
}

// confirmOr works like confirm, with other words for what to type if no person can answer.
func (a *app) confirmOr(question, next string) (bool, error) {
	switch {
	case report.Format(a.format) == report.JSON:
		return false, errors.New("-o json asks no question; to confirm: " + next)
	case a.outFile != nil:
		return false, fmt.Errorf("the plan is in %s; to confirm: %s", finding.Show(a.outPath), next)
	}
	return a.askOr(question, next)
}

// ask works like confirm, for a plan that the command always shows on standard error.
func (a *app) ask(question string) (bool, error) {
	return a.askOr(question, a.repeated("--yes").String())
}

func (a *app) askOr(question, next string) (bool, error) {
	if !terminal(a.in) {
		return false, errors.New("standard input is not a terminal; to confirm: " + next)
	}
	answer, err := a.answer(question + " [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// answer reads the answer of a person to a question.
func (a *app) answer(question string) (string, error) {
	say(a.err, "%s ", question)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// unlessYes ends the command if the answer to a question is not yes: nothing was written.
func (a *app) unlessYes(yes bool, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("nothing was written: %w", err)
	case !yes:
		say(a.err, "nothing was written\n")
		return attention
	}
	return nil
}

// repeated returns this command line with more flags.
func (a *app) repeated(flags ...string) finding.CommandLine {
	words := append(strings.Fields(cmp.Or(a.program, "routekeeper")), a.args...)
	return finding.Words(append(words, flags...)...)
}

// confirmed returns a function that recognizes the changes that a plan showed.
func confirmed(shown []plan.Outcome) func(plan.Change) bool {
	key := func(c plan.Change) string {
		value := c.New
		if c.Verb == plan.Delete {
			value = c.Old
		}
		return strings.Join([]string{c.Resource.Key(), string(c.Verb), strings.ToLower(c.Route),
			strings.ToLower(value.String())}, " ")
	}
	keys := map[string]bool{}
	for _, c := range shown {
		keys[key(c.Change)] = true
	}
	return func(c plan.Change) bool { return keys[key(c)] }
}
