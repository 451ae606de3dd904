package report

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	markdown "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/migrate"
)

// TestPastedMarkdown copies each block of code and each command from Markdown, as a site shows it,
// into a real shell: every program gets the arguments that the command was made of, and nothing
// else runs. The names in the commands, and all other texts of the report, are hostile.
func TestPastedMarkdown(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT RUN: the commands are for a POSIX shell, which Windows does not have")
	}
	names := []string{"shop", "```", "shop```\ntouch pwned\n```sh", "` touch pwned `", "~~~", " a ",
		"a | b", "\\`touch pwned\\`", "<!--", "</code>touch pwned<code>", "&#96;touch pwned&#96;"}
	for _, rename := range pastetest.Names() {
		names = append(names, rename("shop"))
	}
	var pasted []string   // as a person copies it
	var expected []string // the calls, as the stubs record them
	for _, name := range names {
		calls := [][]string{
			{"az", "network", "route-table", "create", "-g", name, "-n", name, "--location", name},
			{"kubectl", "--context", name, "get", "nodes"},
			{"routekeeper", "cluster", "verify", name},
		}
		create := finding.Command("az network route-table create -g %s -n %s", name, name)
		commands := []string{finding.Command("%s --location %s", create, name).String(),
			finding.Command("kubectl --context %s get nodes", name).String(),
			finding.Command("routekeeper cluster verify %s", name).String()}
		var each []string
		for i, call := range calls {
			each = append(each, strings.Join(call, "\x00")+"\x00\x01")
			if strings.HasPrefix(commands[i], "no command is shown") {
				each[i] = ""
			}
		}
		found := finding.New(finding.WriteRefused, name, "", "%s", name).With(name).About(name).
			At(name, 1)
		found = found.WithFix("az network route-table create -g %s -n %s --location %s", name, name,
			name)
		if found.Fix != commands[0] {
			t.Fatalf("%q, want %q", found.Fix, commands[0])
		}
		findings := []finding.Finding{found}
		step := migrate.Step{Phase: "prepare", Title: name, Why: name, Commands: commands,
			Source: "https://source.test"}
		plan := migrate.Plan{Clusters: []migrate.Cluster{{Name: name, Blockers: findings,
			// from the tenth on, a list is indented more
			Steps:     slices.Repeat([]migrate.Step{step}, 11),
			Questions: []migrate.Question{{Text: name, Command: commands[1]}}}}}
		block := strings.Join(each, "")
		for report, r := range map[string]struct {
			report writer
			calls  []string // of each block and command
		}{
			"migrate plan": {Migration{Plan: plan, Steps: true},
				append(slices.Repeat([]string{block}, 11), each[1])},
			"iac check":      {Checked{Findings: findings}, each[:1]},
			"doctor":         {Diagnosis{Findings: findings}, each[:1]},
			"cluster verify": {Verification{Findings: findings}, each[:1]},
		} {
			var b bytes.Buffer
			if err := r.report.Write(Safe(&b, Markdown, Style{}), Markdown, Style{}); err != nil {
				t.Fatal(err)
			}
			copied := commandsIn(t, b.Bytes())
			if len(copied) != len(r.calls) {
				t.Fatalf("%s of %q has %d commands, want %d: %q in\n%s", report, name, len(copied),
					len(r.calls), copied, b.String())
			}
			for i, command := range copied {
				if !slices.Contains(pasted, command) {
					pasted, expected = append(pasted, command), append(expected, r.calls[i])
				}
			}
		}
	}
	got, said, left, err := pastetest.Run(t.TempDir(), pasted)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range expected {
		if got[i] != want {
			t.Errorf("%s\ncalls %q\nwant  %q", pasted[i], got[i], want)
		}
	}
	for line := range strings.Lines(said) { // of the words in place of a command
		if !strings.Contains(line, "no: ") && !strings.Contains(line, "-o: ") &&
			line != "exit status 127" {
			t.Errorf("the shell says %q", line)
		}
	}
	if len(left) > 0 {
		t.Errorf("the commands made %q", left)
	}
}

// commandsIn are the blocks of code and the commands within lines, as a browser shows them.
func commandsIn(t *testing.T, out []byte) (all []string) {
	t.Helper()
	root := parsed.Parser().Parse(text.NewReader(out))
	err := markdown.Walk(root, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		if !entering {
			return markdown.WalkContinue, nil
		}
		switch n := n.(type) {
		case *markdown.FencedCodeBlock:
			all = append(all, string(n.Lines().Value(out)))
		case *markdown.CodeSpan:
			var b strings.Builder
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				b.Write(c.(*markdown.Text).Segment.Value(out))
			}
			program, _, _ := strings.Cut(b.String(), " ")
			if slices.Contains([]string{"az", "kubectl", "routekeeper", "no"}, program) {
				all = append(all, b.String())
			}
		}
		return markdown.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
