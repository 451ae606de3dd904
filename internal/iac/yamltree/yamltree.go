// Package yamltree reads YAML text of other tools into values that know their line.
//
// It resolves aliases and merge keys, up to a limit, and keeps what it does not understand, such as
// a value with a tag of its own, as unknown.
//
// The package is pure.
package yamltree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/yamllimits"
)

// Kind is a kind of value.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Scalar
	List
	Map
	// Unknown is a value that needs a program to be understood, such as one with a tag.
	Unknown
)

// Value is a value at a line, counted from 1. All methods accept nil, which is a missing value.
type Value struct {
	Kind Kind
	Line int
	// Text is a scalar as written, without quotes, or the reason why a value is unknown.
	Text    string
	Items   []*Value
	Members []Member
	size    int
}

// Member is a key with its value.
type Member struct {
	Key   string
	Line  int
	Value *Value
}

// Get returns the value of a key, nil if it is missing.
func (v *Value) Get(key string) *Value {
	if v != nil {
		for _, m := range v.Members {
			if m.Key == key {
				return m.Value
			}
		}
	}
	return nil
}

// At returns the value at a path of keys, nil if one is missing.
func (v *Value) At(path ...string) *Value {
	for _, key := range path {
		v = v.Get(key)
	}
	return v
}

// String returns the text of a scalar, "" for any other value.
func (v *Value) String() string {
	if v == nil || v.Kind != Scalar {
		return ""
	}
	return v.Text
}

// Is reports whether a value is of a kind.
func (v *Value) Is(k Kind) bool { return v != nil && v.Kind == k }

// List returns the items of a list, none for any other value.
func (v *Value) List() []*Value {
	if v == nil {
		return nil
	}
	return v.Items
}

const (
	// deepest limits how deep values are nested.
	deepest = 100
	// mostValues limits the values of one document after its aliases are resolved: a few aliases
	// of aliases stand for millions of values.
	mostValues = 100_000
	// mostAliased limits what the aliases of all documents stand for, mostDocuments the number of
	// documents: a file has room for a hundred thousand small ones.
	mostAliased   = 500_000
	mostDocuments = 20_000
	// longest limits a text in bytes. Names and expressions are shorter, and each alias repeats the
	// text.
	longest = 8 << 10
)

// errTemplate says that a text is a template of YAML.
const errTemplate = "braces outside quotes: a template must be rendered first, for example with " +
	"helm template CHART | routekeeper iac check -"

// longestMessage limits how many bytes of a text a message quotes.
const longestMessage = 300

// Texts are texts that are read together. They share the limits on documents and aliases.
type Texts struct{ documents, aliased int }

// Parse reads all documents of a text; an empty document is left out. The error is one short line.
func (t *Texts) Parse(text []byte) ([]*Value, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8 text")
	}
	var out []*Value
	for _, part := range yamllimits.Split(string(text)) {
		v, err := t.parseOne(part)
		if err != nil {
			if message := err.Error(); len(message) > longestMessage {
				err = errors.New(strings.ToValidUTF8(message[:longestMessage], "") + "…")
			}
			return nil, err
		}
		if v == nil {
			continue
		}
		if t.documents++; t.documents > mostDocuments {
			return nil, fmt.Errorf("line %d: there are more than %d documents", v.Line,
				mostDocuments)
		}
		out = append(out, v)
	}
	return out, nil
}

func (t *Texts) parseOne(part yamllimits.Part) (*Value, error) {
	tokens := lexer.Tokenize(part.Text)
	if much, ok := errors.AsType[*yamllimits.TooMuch](yamllimits.CheckTokens(tokens)); ok {
		return nil, fmt.Errorf("line %d: %s", part.Line+much.Line, much.Problem)
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		if line := template(tokens); line > 0 {
			return nil, fmt.Errorf("line %d: %s", part.Line+line, errTemplate)
		}
		return nil, oneLine(err, part.Line)
	}
	c := converter{Texts: t, line: part.Line, anchors: map[string]*Value{}}
	var out *Value
	for _, d := range tree.Docs {
		if d.Body == nil || d.Body.Type() == ast.CommentType {
			continue
		}
		if out != nil {
			return nil, fmt.Errorf("line %d: a second document, expected --- before it",
				part.Line+d.Body.GetToken().Position.Line)
		}
		if out, err = c.value(d.Body, 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// template returns the line of an expression of a template outside quotes, or 0: two braces, or a
// brace and a percent sign, next to each other.
func template(tokens token.Tokens) int {
	for i, t := range tokens[:max(0, len(tokens)-1)] {
		next := tokens[i+1]
		if t.Type == token.MappingStartType && next.Position.Line == t.Position.Line &&
			(next.Type == token.MappingStartType || strings.HasPrefix(next.Value, "%")) &&
			next.Position.Column == t.Position.Column+1 {
			return t.Position.Line
		}
	}
	return 0
}

var placeInMessage = lazy.Regexp(`\[\d+:\d+\]`)

// oneLine turns an error of the YAML library, which draws the source, into one line.
func oneLine(err error, before int) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return errors.New("it is not valid YAML: " + line)
	}
	problem := placeInMessage().ReplaceAllStringFunc(e.GetMessage(), func(place string) string {
		var line, column int
		_, _ = fmt.Sscanf(place, "[%d:%d]", &line, &column) // it matched
		return fmt.Sprintf("line %d", before+line)
	})
	problem = strings.NewReplacer("\r", " ", "\n", " ").Replace(problem)
	return fmt.Errorf("line %d: it is not valid YAML: %s", before+e.GetToken().Position.Line,
		problem)
}

// converter turns the library's nodes into values.
type converter struct {
	*Texts
	line    int // before the document
	values  int
	anchors map[string]*Value
}

// count adds values to the total of the document.
func (c *converter) count(n, line int) error {
	if c.values += n; c.values > mostValues {
		return fmt.Errorf("line %d: with its aliases resolved, a document has more than %d values",
			line, mostValues)
	}
	return nil
}

// countAliased adds values that an alias stands for.
func (c *converter) countAliased(n, line int) error {
	if c.aliased += n; c.aliased > mostAliased {
		return fmt.Errorf("line %d: the aliases of all documents stand for more than %d values",
			line, mostAliased)
	}
	return c.count(n, line)
}

func (c *converter) value(n ast.Node, depth int) (*Value, error) {
	if n == nil {
		return &Value{size: 1, Line: c.line + 1}, nil
	}
	v := &Value{size: 1, Line: c.line + n.GetToken().Position.Line}
	if depth > deepest {
		return nil, fmt.Errorf("line %d: values are nested more than %d deep", v.Line, deepest)
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		inner, err := c.value(n.Value, depth+1)
		if err == nil && n.Name != nil {
			c.anchors[n.Name.GetToken().Value] = inner
		}
		return inner, err
	case *ast.AliasNode:
		named := c.anchors[n.Value.GetToken().Value]
		if named == nil {
			v.Kind, v.Text = Unknown, "the alias *"+n.Value.GetToken().Value
			return v, c.count(1, v.Line)
		}
		return named, c.countAliased(named.size, v.Line)
	case *ast.TagNode:
		return c.tagged(n, v, depth)
	}
	if err := c.count(1, v.Line); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		v.text(n.Value)
	case *ast.LiteralNode:
		v.text(n.Value.Value)
	case ast.ScalarNode:
		v.text(n.GetToken().Value)
	case *ast.SequenceNode:
		v.Kind = List
		for _, item := range n.Values {
			inner, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, inner)
			v.size += inner.size
		}
	case *ast.MappingNode:
		v.Kind = Map
		return v, c.members(v, n.Values, depth)
	case *ast.MappingValueNode:
		v.Kind = Map
		return v, c.members(v, []*ast.MappingValueNode{n}, depth)
	default:
		v.Kind, v.Text = Unknown, "a value of a kind that is not understood"
	}
	return v, nil
}

// text sets the text of a scalar.
func (v *Value) text(text string) {
	v.Kind, v.Text = Scalar, text
	if len(text) > longest {
		v.Kind, v.Text = Unknown, fmt.Sprintf("a text of more than %d KiB", longest>>10)
	}
}

// tagged reads a value with a tag. Standard tags say what the value is anyway.
func (c *converter) tagged(n *ast.TagNode, v *Value, depth int) (*Value, error) {
	tag := n.GetToken().Value
	if strings.HasPrefix(tag, "!!") {
		return c.value(n.Value, depth+1)
	}
	v.Kind, v.Text = Unknown, "a value with the tag "+tag
	return v, c.count(1, v.Line)
}

// members reads the keys of a map. Keys of the map itself win over those of merge keys.
func (c *converter) members(v *Value, nodes []*ast.MappingValueNode, depth int) error {
	var merged []*Value
	for _, n := range nodes {
		value, err := c.value(n.Value, depth+1)
		if err != nil {
			return err
		}
		v.size += value.size
		if _, is := n.Key.(*ast.MergeKeyNode); is {
			if value.Kind == List {
				merged = append(merged, value.Items...)
			} else {
				merged = append(merged, value)
			}
			continue
		}
		v.Members = append(v.Members,
			Member{Key: key(n.Key), Value: value, Line: c.line + n.Key.GetToken().Position.Line})
	}
	if len(merged) == 0 {
		return nil
	}
	own := map[string]bool{}
	for _, m := range v.Members {
		own[m.Key] = true
	}
	for _, m := range merged {
		if m.Kind == Unknown {
			return fmt.Errorf("line %d: a merge key (<<) with %s, which stands for nothing in its "+
				"document", v.Line, m.Text)
		}
		if m.Kind != Map {
			return fmt.Errorf("line %d: a merge key (<<) whose value is not a map", v.Line)
		}
		for _, member := range m.Members {
			if own[member.Key] {
				continue
			}
			own[member.Key] = true
			v.Members = append(v.Members, member)
			v.size += member.Value.size
			if err := c.countAliased(member.Value.size, v.Line); err != nil {
				return err
			}
		}
	}
	return nil
}

// key returns the text of a key. What is not a scalar is no key of any format.
func key(n ast.MapKeyNode) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case ast.ScalarNode:
		return n.GetToken().Value
	}
	return ""
}
