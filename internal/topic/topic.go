// Package topic explains the network plugins of AKS and related topics, for routekeeper explain and
// docs/networking.md. It holds texts and decides nothing.
package topic

import (
	"embed"
	"fmt"
	"strings"
)

// Topic is an explanation.
type Topic struct {
	Name  string // as typed, such as kubenet
	Title string // one line
	Text  string // Markdown, without its heading, in 80 columns
}

//go:embed text/*.md
var files embed.FS

// All returns the topics in a good order for reading.
func All() []Topic {
	entries, err := files.ReadDir("text")
	if err != nil {
		panic(err) // they are embedded
	}
	var all []Topic
	for _, e := range entries {
		raw, err := files.ReadFile("text/" + e.Name())
		if err != nil {
			panic(err)
		}
		heading, text, _ := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n\n")
		name, title, _ := strings.Cut(strings.TrimPrefix(heading, "# "), ": ")
		all = append(all, Topic{Name: name, Title: title, Text: text})
	}
	return all
}

// Plain returns the text for a terminal: code blocks are indented, without fences.
func (t Topic) Plain() string {
	var b strings.Builder
	code := false
	for line := range strings.Lines(t.Text) {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
			b.WriteString("    " + line)
		default:
			b.WriteString(strings.ReplaceAll(line, "`", ""))
		}
	}
	return b.String()
}

// Page returns docs/networking.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Networking of AKS, explained\n\n" +
		"What `routekeeper explain TOPIC` prints. The facts and their sources are in " +
		"[azure.md](azure.md).\n")
	for _, t := range All() {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s", t.Name, t.Title, t.Text)
	}
	return b.String()
}
