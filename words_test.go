package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is the greatest width of a line in columns. A tab counts 4.
const widest = 100

// tracked returns the files in the repository that match a pattern.
func tracked(t *testing.T, patterns ...string) (files []string) {
	out, err := exec.Command("git", append([]string{"ls-files", "--"}, patterns...)...).Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for _, file := range strings.Fields(string(out)) {
		if _, err := os.Stat(file); err == nil { // else it is removed, and not committed yet
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		t.Fatalf("no file matches %q", patterns)
	}
	return files
}

// goToken is a comment or a string literal in a Go file.
type goToken struct {
	kind     token.Token
	text     string
	from, to int // lines, from 1
}

// commentsAndStrings returns the comments and string literals of a Go file.
func commentsAndStrings(t *testing.T, name string, source []byte) (found []goToken) {
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, func(at token.Position, problem string) {
		t.Errorf("%s: %s", at, problem)
	}, scanner.ScanComments)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind == token.COMMENT || kind == token.STRING {
			line := file.Line(at)
			found = append(found, goToken{kind, text, line, line + strings.Count(text, "\n")})
		}
	}
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// generated matches the line that marks generated code (go help generate).
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestLineWidth: no line is wider than 100 columns, in code, comments and paragraphs. Lines of raw
// strings and of strings with line breaks are exempt, because they are fixtures. So are lines that
// cannot be broken.
func TestLineWidth(t *testing.T) {
	for _, name := range tracked(t, "*.go") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "testdata/") || generated.Match(source) {
			continue
		}
		fixtures := map[int]bool{}
		for _, found := range commentsAndStrings(t, name, source) {
			if found.kind == token.STRING &&
				(found.text[0] == '`' || strings.Contains(found.text, `\n`)) {
				for line := found.from; line <= found.to; line++ {
					fixtures[line] = true
				}
			}
		}
		for i, line := range strings.Split(string(source), "\n") {
			if columns(line) > widest && !fixtures[i+1] && !unbreakable(line) {
				t.Errorf("%s:%d: %d columns, at most %d", name, i+1, columns(line), widest)
			}
		}
	}
	for _, name := range tracked(t, "*.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range paragraphs(string(text)) {
			if columns(line.text) > widest && !unbreakable(line.text) {
				t.Errorf("%s:%d: %d columns, at most %d", name, line.number, columns(line.text),
					widest)
			}
		}
	}
}

// longWord is the width of a word that excuses a wide line, because the word cannot be broken.
const longWord = 45

// unbreakable reports whether a line has a long word, such as a resource ID, or is part of a drawn
// table, which a comment has after a tab.
func unbreakable(line string) bool {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "//\t") {
		return true
	}
	return slices.ContainsFunc(strings.Fields(line), func(word string) bool {
		return utf8.RuneCountInString(word) >= longWord
	})
}

type numbered struct {
	number int
	text   string
}

// paragraphs returns the lines of a Markdown page, except tables, code blocks and links.
func paragraphs(page string) (lines []numbered) {
	code := false
	for i, line := range strings.Split(page, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			code = !code
		case code, strings.HasPrefix(line, "    "), strings.HasPrefix(trimmed, "|"):
		case strings.Contains(line, "]("), strings.Contains(line, "://"):
		default:
			lines = append(lines, numbered{i + 1, line})
		}
	}
	return lines
}

// glossary has words that must not come back, in comments, messages, pages and documents, and what
// to say instead. A pattern matches in any case; a space in it also matches a line break. If a word
// is plain English in another sense, only phrases with it are listed.
var glossary = []struct{ not, say string }{
	{`(some|no)body`, "who or what it is: the user, another writer; or no ..."},
	{`whoever`, "who it is"},
	{`anew`, "again"},
	{`beside`, "next to, along with, in addition to"},
	{`(that which|those (that|who|of which|whose))`, "what, the ... that"},
	{`of which`, "a sentence of its own"},
	{`(is|are|was|were) told`, "gets, receives"},
	{`as (it|they) should( be)?`, "correct"},
	{`in (its|their) turn`, "then"},
	{`the like`, "name them"},
	{`mend(s|ed|ing)?`, "repair, fix"},
	{`(puts?|putting) right`, "repair, fix"},
	{`sees? to (it|the|this|that)`, "check, make sure"},
	{`(foes?|fight(s|ing)?)`, "other writer, conflict"},
	{`(bells?|rung|rang)`, "wake-up, trigger"},
	{`shel(f|ves|ved?|ving)`, "store"},
	{`wish(es|ed)?`, "request"},
	{`agendas?`, "worker, group"},
	{`(brakes?|held back)`, "safeguard, withheld"},
	{`foreign routes?`, "unmanaged route"},
	{`(an|the|each|every) own`, "its own"},
	{`local Azures?`, "emulator; a local Azure emulator at first mention"},
	{`(was brought|brought (route )?(table|subnet)s?)`, "bring-your-own, existing"},
	{`((kept|keeps?|made?|makes?|all) true|routes? (is|are) true)`, "correct, in sync"},
	{`kept (clusters?|targets?)`, "managed"},
	{`routes? (that )?carr(y|ies)`, "work, are used"},
	{`look(s|ed)? (now|at)`, "check, read"},
	{`(a|the|each|every|next|last|first|one) look`, "check"},
	{`(?-i:rounds?)`, "check"},
	{`azure-silent`, "azure-unreachable"},
	{`stands? in the way`, "blocks, prevents"},
	{`what (be)?came of`, "the outcome, the result"},
	{`way (out|on)`, "egress, next step"},
}

// allowed are uses of these words in their plain sense, or as names of other programs and of fields
// that stay.
var allowed = []string{
	`local Azure emulators?`,
	`bring-your-own`, `as of which`,
	`round[- ]?trips?`,
	`round corners`, `round robin`, `stroke-linecap: round|stroke-linecap="round"`,
	// in the first schema of a history, which later ones rename
	`row of rounds`, `(table|references|on) rounds|on (changes|findings)\(round`,
	`round (integer|to)`, `rename column round`,
	`audience api://somebody`,
	`those whose (condition|expression)`, `without those\s+whose`,
}

// TestGlossary: words of the project's own that readers had to learn stay out.
func TestGlossary(t *testing.T) {
	var patterns []*regexp.Regexp
	var all []string
	for _, word := range glossary {
		pattern := strings.ReplaceAll(word.not, " ", `\s+`)
		patterns = append(patterns, regexp.MustCompile(`(?i)\b`+pattern+`\b`))
		all = append(all, pattern)
	}
	some := regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
	plain := regexp.MustCompile(`(?i)` + strings.ReplaceAll(strings.Join(allowed, "|"), " ", `\s+`))
	for _, name := range tracked(t, "*.go", "*.md", "*.html", "*.js", "*.tmpl", "*.yaml", "*.yml",
		"deploy/*/*", "*.txtar") {
		if name == "words_test.go" {
			continue
		}
		if strings.Contains(name, "testdata/") && !strings.HasSuffix(name, ".txtar") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		passages := []goToken{{text: string(text), from: 1}}
		if strings.HasSuffix(name, ".go") {
			passages = joined(commentsAndStrings(t, name, text))
		}
		for _, passage := range passages {
			if !some.MatchString(passage.text) {
				continue // far faster than one pattern after the other
			}
			// Keep the length, so that lines can be counted.
			said := plain.ReplaceAllStringFunc(passage.text, func(match string) string {
				return regexp.MustCompile(`\S`).ReplaceAllString(match, "-")
			})
			for i, pattern := range patterns {
				for _, at := range pattern.FindAllStringIndex(said, -1) {
					line := passage.from + strings.Count(said[:at[0]], "\n")
					t.Errorf("%s:%d: %q; say: %s", name, line, said[at[0]:at[1]], glossary[i].say)
				}
			}
		}
	}
}

// TestVerbs: a function's comment says what the function does. "X is" describes a value.
func TestVerbs(t *testing.T) {
	for _, name := range tracked(t, "*.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			for _, verb := range []string{" is ", " are "} {
				if is && strings.HasPrefix(f.Doc.Text(), f.Name.Name+verb) {
					t.Errorf("%s: %s%s…; say what the function does: returns, reports", name,
						f.Name.Name, verb)
				}
			}
		}
	}
}

// joined joins comments and strings that are on lines next to each other, because a phrase may be
// broken over two of them.
func joined(tokens []goToken) (passages []goToken) {
	for _, next := range tokens {
		next.text = strings.TrimPrefix(next.text, "//")
		n := len(passages)
		if n > 0 && passages[n-1].kind == next.kind && passages[n-1].to+1 == next.from {
			passages[n-1].text = strings.TrimSuffix(passages[n-1].text, `"`) + "\n" +
				strings.TrimPrefix(next.text, `"`)
			passages[n-1].to = next.to
			continue
		}
		passages = append(passages, next)
	}
	return passages
}
