package report

import (
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// How text from outside becomes Markdown: it stays the text that it is. It starts no heading, list,
// table cell, link or HTML. Words on which GitHub, GitLab or Azure DevOps act, such as @user, #123
// and addresses, become code. There they do nothing, and elsewhere no escape prevents a mention.

// active finds a word on which a site acts: mentions, references to issues and merge requests,
// addresses, formulas and emoji.
var active = lazy.Regexp(`(?i)@\w|[#!]\d|\bGH-\d|://|\bwww\.|\bmailto:|\$|:[a-z0-9_+-]+:`)

// prose shows text from outside in a paragraph or a list.
func prose(s string) string { return notFirst().ReplaceAllString(inline(s, "|"), `$1\$2`) }

// inline shows text from outside within a line. bar is how a vertical bar is written.
func inline(s, bar string) string {
	words := strings.Split(plain(s), " ")
	for i, word := range words {
		parts := strings.Split(word, "|")
		for j, part := range parts {
			if active().MatchString(part) {
				parts[j] = codeSpan(part)
			} else {
				parts[j] = escaped(part)
			}
		}
		words[i] = strings.Join(parts, bar)
	}
	return strings.Join(words, " ")
}

// escapes has the characters that mean something anywhere in a line.
var escapes = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", `\<`, "](", `]\(`,
	"~", `\~`, "&", `\&`)

// edge finds underscores that are not in the middle of a name: those would be emphasis.
var edge = lazy.Regexp(`(^|[^\pL\pN])_|_($|[^\pL\pN])`)

func escaped(word string) string {
	word = escapes.Replace(word)
	if edge().MatchString(word) {
		return strings.ReplaceAll(word, "_", `\_`)
	}
	return word
}

// notFirst matches what means something at the beginning of a line: a heading, a quote, a list, a
// checkbox, the definition of a link, a line below a heading.
var notFirst = lazy.Regexp(`^(\s*\d*)(>|\[|[-+=]+(?:\s|$)|#+(?:\s|$)|[.)](?:\s|$))`)

// codeSpan writes text as code in Markdown: code ends with as many backticks as it begins with.
func codeSpan(text string) string {
	text = plain(text)
	fence := longerThan("", text)
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

// longerThan returns at least the given backticks, and more than text has in a row.
func longerThan(fence, text string) string {
	for fence == "" || strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}

// codeBlock writes commands as a block of code, one a line, each after an indent.
func codeBlock(indent string, commands []string) string {
	fence := longerThan("```", strings.Join(commands, "\n"))
	var b strings.Builder
	fmt.Fprintf(&b, "%s%ssh\n", indent, fence)
	for _, command := range commands {
		fmt.Fprintf(&b, "%s%s\n", indent, plain(command))
	}
	fmt.Fprintf(&b, "%s%s\n", indent, fence)
	return b.String()
}

// MarkdownTable writes a table; cells are escaped.
func MarkdownTable(header []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + inline(strings.ReplaceAll(c, "\n", " "), `\|`) + " |")
		}
		b.WriteString("\n")
	}
	line(header)
	b.WriteString("|" + strings.Repeat(" --- |", len(header)) + "\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// FindingsMarkdown writes findings as a list, an empty line before it.
func FindingsMarkdown(findings []finding.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "\n- **%s** %s: %s\n", f.Severity, codeSpan(string(f.Code)),
			prose(f.Message))
		if f.File != "" {
			fmt.Fprintf(&b, "  - %s:%d\n", prose(f.File), f.Line)
		}
		for _, line := range few(f.Evidence) {
			fmt.Fprintf(&b, "  - %s\n", prose(line))
		}
		if f.Advice != "" {
			fmt.Fprintf(&b, "\n  %s\n", prose(f.Advice))
		}
		if f.Fix != "" {
			fmt.Fprintf(&b, "\n  %s\n", codeSpan(f.Fix))
		}
	}
	return b.String()
}
