package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"io"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/yuin/goldmark"
	markdown "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/plan"
	"routekeeper.dev/routekeeper/internal/trace"
)

type writer interface {
	Write(w io.Writer, format Format, style Style) error
}

// writers are all reports, with the formats that they have in addition to text and JSON.
var writers = map[string]struct {
	report  writer
	formats []Format
}{
	"Alerts": {Alerts{}, nil}, "Building": {Building{}, nil},
	"Capacity": {Capacity{}, []Format{Short}}, "Growth": {Growth{}, []Format{Short}},
	"Checked":   {Checked{}, []Format{Short, Markdown, SARIF}},
	"Diagnosis": {Diagnosis{}, []Format{Short, Markdown}}, "Egress": {Egress{}, nil},
	"Hello": {Hello{}, nil}, "Migrating": {Migrating{}, nil},
	"Migration": {Migration{}, []Format{Short, Markdown}},
	"History":   {History{}, []Format{Short, Markdown}}, "Past": {Past{},
		[]Format{Short, Markdown}},
	"Prevention": {Prevention{}, nil},
	"Promotion":  {Promotion{}, nil}, "Proof": {Proof{}, nil},
	"Result": {Result{}, []Format{Short, Markdown}},
	"Status": {Status{}, []Format{Short, Markdown}}, "Table": {Table{}, []Format{Short, Markdown}},
	"Ways": {Ways{}, nil}, "Matrix": {Matrix{}, nil},
	"Verification": {Verification{}, []Format{Markdown}},
}

// hostile are texts from outside, between marks by which the test finds them.
var hostile = []string{
	"x\n::error::y\x1b[31m\x1b]0;pwn\x07\u009b\u202e\u2066\u200b\x7f\u3164\ufe0f##[error]##vso[x]y",
	"`z`|a\\|b<script>alert(1)</script><!--x-->](http://evil)[y](z)\\<img src=x> ![i](u) end",
	"@user #123 GH-1 org/repo#5 !7 www.evil.test http://evil.test mailto:a@b.c $(x)$ :tada: @a|@b",
	"**b** _i_ a_b __c__ ~~s~~ &lt; &#64;user \\*x\\* ``` ~~~ end\\",
	"# h", "- [ ] task", "1. one", "12) two", "> quote", "[a]: http://evil.test", "===", "---",
	"+ list", "``` sh", "~~~", "\t tab", "| a | b |", "::error::first", "<b>", "&amp;",
}

const first, last = "⟦", "⟧"

// TestHostileReports fills every string of every report with hostile text, and checks that each
// format shows it as it is: nothing that moves the cursor, hides text, ends a cell or a block of
// code, links, mentions, or is a command to a pipeline.
func TestHostileReports(t *testing.T) {
	for _, name := range reportsOf(t) {
		if writers[name].report == nil {
			t.Errorf("report %s is not tested here", name)
		}
	}
	for _, bad := range hostile {
		for _, name := range slices.Sorted(maps.Keys(writers)) {
			for _, marked := range []bool{true, false} {
				value := bad
				if marked {
					value = first + bad + last
				}
				filled := reflect.New(reflect.TypeOf(writers[name].report)).Elem()
				fill(filled, value, 0)
				for _, format := range append([]Format{Text, JSON}, writers[name].formats...) {
					if name == "Past" && format == JSON {
						continue // the command writes it
					}
					for _, style := range []Style{{}, {Color: true}} {
						var b bytes.Buffer
						if err := filled.Interface().(writer).Write(Safe(&b, format, style), format,
							style); err != nil {
							t.Fatalf("%s, %s: %v", name, format, err)
						}
						at := fmt.Sprintf("%s, %s, %q", name, format, value)
						out := b.Bytes()
						shown(t, at, string(out), format, style)
						if format == Markdown {
							asText(t, at, out, plain(bad), marked)
						}
						if t.Failed() {
							t.Fatalf("%.3000s", out)
						}
					}
				}
			}
		}
	}
}

// shown checks that output is safe for a terminal and a pipeline.
func shown(t *testing.T, at, out string, format Format, style Style) {
	if (format == JSON || format == SARIF) && !json.Valid([]byte(out)) {
		t.Errorf("%s: no JSON: %s", at, out)
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			t.Errorf("%s: a command to a pipeline: %q", at, line)
		}
		if style.Color {
			for _, code := range paints {
				line = strings.ReplaceAll(line, "\x1b["+code+"m", "")
			}
		}
		whole := format == JSON || format == SARIF ||
			strings.Count(line, first) == strings.Count(line, last)
		if plain(line) != line || !whole {
			t.Errorf("%s: %q", at, line)
		}
	}
}

// TestHostileProposals: a proposed config is YAML of the same form, whatever the names in it.
func TestHostileProposals(t *testing.T) {
	lines := func(value string) int {
		var p plan.Proposal
		fill(reflect.ValueOf(&p).Elem(), value, 0)
		p.Skip, p.Config.APIVersion, p.Config.Kind = "", v1alpha1.APIVersion, v1alpha1.Kind
		spec := &p.Config.Spec
		spec.Guard.Mode, spec.Guard.OnOtherTable = "Observe", "Report" // words of this program
		spec.Guard.SecurityGroups = "Observe"
		spec.OnRemoval, spec.Targets[0].Policy, spec.Targets[1].Policy = "Keep", "Sync", "Sync"
		skipped := plan.Proposal{About: value, Skip: value}
		config := ConfigYAML([]plan.Proposal{p, skipped}, value, []string{value})
		shown(t, fmt.Sprintf("%q", value), config, Text, Style{})
		var read struct {
			Spec struct {
				ClusterID string `yaml:"clusterID"`
			}
		}
		err := yaml.Unmarshal([]byte(config), &read)
		if err != nil || read.Spec.ClusterID != value {
			t.Errorf("%q: %v, read %q from\n%s", value, err, read.Spec.ClusterID, config)
		}
		return strings.Count(config, "\n")
	}
	want := lines("shop")
	for _, bad := range hostile {
		if got := lines(first + bad + last); got != want {
			t.Errorf("%q: %d lines, want %d", bad, got, want)
		}
	}
}

var (
	mention   = regexp.MustCompile(`@\w|[#!]\d|GH-\d|www\.|://|mailto:|\$|:tada:`)
	parsed    = goldmark.New(goldmark.WithExtensions(extension.GFM))
	delimited = regexp.MustCompile(first + "(.*?)" + last)
)

// asText parses Markdown, and checks that the hostile text is text in it, or code.
func asText(t *testing.T, at string, out []byte, want string, marked bool) {
	root := parsed.Parser().Parse(text.NewReader(out))
	err := markdown.Walk(root, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		if !entering {
			return markdown.WalkContinue, nil
		}
		switch n := n.(type) {
		case *markdown.RawHTML, *markdown.HTMLBlock, *markdown.Image, *markdown.Link:
			t.Errorf("%s: %s in Markdown", at, n.Kind())
		case *markdown.AutoLink:
			if url := string(n.URL(out)); !strings.HasPrefix(url, "https://source.test") {
				t.Errorf("%s: a link to %s", at, url)
			}
		case *tables.Table:
			for row := n.FirstChild(); row != nil; row = row.NextSibling() {
				if row.ChildCount() != len(n.Alignments) {
					t.Errorf("%s: a row of %d cells, want %d", at, row.ChildCount(),
						len(n.Alignments))
				}
			}
		case *markdown.Paragraph, *markdown.TextBlock, *markdown.Heading, *tables.TableCell,
			*markdown.CodeBlock, *markdown.FencedCodeBlock:
			all, words := content(n, out)
			if mention.MatchString(strings.ReplaceAll(words, "https://source.test", "")) {
				t.Errorf("%s: a site acts on %q", at, words)
			}
			if !marked {
				break
			}
			found := delimited.FindAllStringSubmatch(all, -1)
			if len(found) != strings.Count(all, first) || len(found) != strings.Count(all, last) {
				t.Errorf("%s: %q is not whole", at, all)
			}
			for _, f := range found {
				// a cell has one line
				if oneLine.Replace(f[1]) != oneLine.Replace(want) {
					t.Errorf("%s: shown as %q, want %q", at, f[1], want)
				}
			}
		}
		return markdown.WalkContinue, nil
	})
	if err != nil {
		t.Error(err)
	}
}

var oneLine = strings.NewReplacer(`\n`, "", " ", "")

// content is the text of a block, and its text without code.
func content(block markdown.Node, source []byte) (all, words string) {
	if lines := block.Lines(); block.Type() == markdown.TypeBlock && !block.HasChildren() &&
		lines != nil {
		return string(lines.Value(source)), ""
	}
	_ = markdown.Walk(block, func(n markdown.Node, entering bool) (markdown.WalkStatus, error) {
		if !entering {
			return markdown.WalkContinue, nil
		}
		inCode := n.Parent() != nil && n.Parent().Kind() == markdown.KindCodeSpan
		switch n := n.(type) {
		case *markdown.Text:
			value := string(n.Segment.Value(source))
			if !inCode {
				value = unescaped.ReplaceAllStringFunc(value, func(s string) string {
					if s[0] == '&' {
						return html.UnescapeString(s)
					}
					return s[1:]
				})
				words += value
			}
			all += value
		case *markdown.String:
			all, words = all+string(n.Value), words+string(n.Value)
		}
		return markdown.WalkContinue, nil
	})
	return all, words
}

// unescaped finds the escapes and entities that the parser leaves to the renderer.
var unescaped = regexp.MustCompile("\\\\[!-/:-@\\[-`{-~]|&#?\\w+;")

// fill fills every string of a value.
func fill(v reflect.Value, bad string, depth int) {
	if depth > 8 || !v.CanSet() {
		return
	}
	switch value := v.Addr().Interface().(type) {
	case *time.Time:
		*value = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		return
	case *netip.Addr:
		*value = netip.MustParseAddr("10.0.0.4")
		return
	case *netip.Prefix:
		*value = netip.MustParsePrefix("10.0.0.0/24")
		return
	case *finding.Severity:
		*value = finding.Error
		return
	case *trace.Verdict:
		*value = trace.Dropped
		return
	case *arm.ID:
		*value = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/routeTables/"
		if strings.Contains(bad, "/") {
			bad = "rt" // it would be several names
		}
		*value += arm.ID(bad)
		return
	case *plan.Verb:
		*value = plan.Update
		return
	case *plan.OutcomeState:
		*value = plan.Failed
		return
	case *build.ClaimState:
		*value = build.ClaimWrong
		return
	case *json.RawMessage:
		*value, _ = json.Marshal(bad)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(bad)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.SetUint(2)
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(bad))
		}
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value {
			out := make([]reflect.Value, v.Type().NumOut())
			for i := range out {
				out[i] = reflect.New(v.Type().Out(i)).Elem()
				fill(out[i], bad, depth+1)
			}
			return out
		}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), bad, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), bad, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, bad, depth+1)
		fill(item, bad, depth+1)
		v.SetMapIndex(key, item)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "Source" && v.Field(i).Kind() == reflect.String {
				v.Field(i).SetString("https://source.test") // this program's own links
				continue
			}
			fill(v.Field(i), bad, depth+1)
		}
	}
}

// reportsOf are the types of this package that write themselves in a format.
func reportsOf(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if is && f.Recv != nil && f.Name.Name == "Write" && f.Type.Params.NumFields() == 3 {
				names = append(names, f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	return names
}
