// Package topic explains the network plugins of AKS and related topics, for routekeeper explain, in
// the words of docs/networking.md. It decides nothing.
package topic

import (
	"strings"

	"routekeeper.dev/routekeeper/docs"
)

// Topic is an explanation.
type Topic struct {
	Name  string // as typed, such as kubenet
	Title string // one line
	Text  string // Markdown, without its heading, in 80 columns
}

// All returns the topics in a good order for reading: the sections of docs/networking.md.
func All() []Topic {
	var all []Topic
	page := strings.ReplaceAll(docs.Networking, "\r\n", "\n")
	for _, section := range strings.Split(page, "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n\n")
		name, title, _ := strings.Cut(heading, ": ")
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
