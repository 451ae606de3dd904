package generate

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"unicode"
)

// bicepReader parses Bicep as a compiler does, as far as the generated code needs, and turns it
// into an ARM template. It does not know how the code is generated. What it does not understand
// fails the test.
type bicepReader struct {
	t       *testing.T
	files   map[string]string
	name    string
	tokens  []bicepToken
	at      int
	params  map[string]object
	vars    map[string]any
	outputs map[string]any
	// resources are their declarations, by symbol.
	resources map[string]*bicepDeclared
	used      map[string]bool // the symbols that an expression refers to
	scope     string
}

type bicepToken struct {
	kind  byte // i identifier, n number, s string, or the character itself; 0 the end
	text  string
	parts []any // of a string: text and expressions
	line  int
}

type bicepDeclared struct {
	kind, version, module string
	once, existing        bool
	body                  bicepObject
}

// Expressions are string, float64, bool, and these.
type (
	bicepObject []struct {
		name  any
		value any
	}
	bicepArray  []any
	bicepIdent  string
	bicepMember struct {
		of   any
		name string
	}
	bicepCall struct {
		of   string
		args []any
	}
	bicepParts []any // of a string
)

// readBicep reads a file and the modules that it calls as an ARM template.
func readBicep(t *testing.T, files []Output, name string) object {
	t.Helper()
	b := &bicepReader{t: t, files: map[string]string{}, name: name, params: map[string]object{},
		vars: map[string]any{}, outputs: map[string]any{}, resources: map[string]*bicepDeclared{},
		used: map[string]bool{}}
	for _, f := range files {
		b.files[f.Name] = string(f.Text)
	}
	text, there := b.files[name]
	if !there {
		t.Fatalf("%s is not written", name)
	}
	b.scan(text)
	b.file()
	return b.template(files)
}

func (b *bicepReader) fail(format string, args ...any) {
	b.t.Helper()
	b.t.Fatalf("%s:%d: %s", b.name, b.tokens[min(b.at, len(b.tokens)-1)].line,
		fmt.Sprintf(format, args...))
}

// scan splits the text into tokens. Line breaks are tokens: they separate members and items.
func (b *bicepReader) scan(text string) {
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ':
			i++
		case strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '\'':
			parts, n := b.scanString(text[i:])
			b.tokens = append(b.tokens, bicepToken{kind: 's', parts: parts, line: line})
			i += n
		case unicode.IsLetter(rune(c)) || c == '_':
			n := i
			for n < len(text) && (unicode.IsLetter(rune(text[n])) ||
				unicode.IsDigit(rune(text[n])) || text[n] == '_') {
				n++
			}
			b.tokens = append(b.tokens, bicepToken{kind: 'i', text: text[i:n], line: line})
			i = n
		case unicode.IsDigit(rune(c)):
			n := i
			for n < len(text) && unicode.IsDigit(rune(text[n])) {
				n++
			}
			b.tokens = append(b.tokens, bicepToken{kind: 'n', text: text[i:n], line: line})
			i = n
		case strings.ContainsRune("\n@(){}[]=,:.", rune(c)):
			b.tokens = append(b.tokens, bicepToken{kind: c, line: line})
			if c == '\n' {
				line++
			}
			i++
		default:
			b.t.Fatalf("%s:%d: %q is no Bicep", b.name, line, c)
		}
	}
	b.tokens = append(b.tokens, bicepToken{line: line})
}

// scanString reads a string at the start of the text, and returns its length.
func (b *bicepReader) scanString(text string) (parts []any, n int) {
	literal := ""
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
			literal += map[byte]string{'n': "\n", '\'': "'", '\\': "\\", '$': "$"}[text[i]]
		case text[i] == '\'':
			return append(parts, literal), i + 1
		case text[i] == '\n':
			b.t.Fatalf("%s: a string has no end: %s", b.name, text[:i])
		case strings.HasPrefix(text[i:], "${"):
			end, quoted := i, false
			for end < len(text) && (text[end] != '}' || quoted) {
				quoted = quoted != (text[end] == '\'')
				end++
			}
			inner := &bicepReader{t: b.t, name: b.name}
			inner.scan(text[i+2 : end])
			parts = append(parts, literal, inner.expression())
			literal, i = "", end
		default:
			literal += text[i : i+1]
		}
	}
	b.t.Fatalf("%s: a string has no end", b.name)
	return nil, 0
}

func (b *bicepReader) peek() bicepToken { return b.tokens[b.at] }

func (b *bicepReader) next() bicepToken {
	b.at++
	return b.tokens[b.at-1]
}

func (b *bicepReader) expect(kind byte) bicepToken {
	b.t.Helper()
	if b.peek().kind != kind {
		b.fail("%q %s, expected %q", b.peek().kind, b.peek().text, kind)
	}
	return b.next()
}

func (b *bicepReader) breaks() {
	for b.peek().kind == '\n' {
		b.at++
	}
}

// file reads the declarations.
func (b *bicepReader) file() {
	var decorators []bicepCall
	for b.breaks(); b.peek().kind != 0; b.breaks() {
		if b.peek().kind == '@' {
			b.next()
			decorators = append(decorators, b.expression().(bicepCall))
			continue
		}
		word := b.expect('i').text
		if word == "targetScope" {
			b.expect('=')
			b.scope = b.literal()
			continue
		}
		name := b.expect('i').text
		switch word {
		case "param":
			p := object{"type": b.expect('i').text}
			for _, d := range decorators {
				switch d.of {
				case "secure":
					p["type"] = "securestring"
				case "minLength":
					p["minLength"] = d.args[0]
				case "description":
				default:
					b.fail("the decorator %s", d.of)
				}
			}
			if b.peek().kind == '=' {
				b.next()
				p["defaultValue"] = b.expression()
			}
			b.params[name] = p
		case "var":
			b.expect('=')
			b.vars[name] = b.expression()
		case "output":
			b.expect('i')
			b.expect('=')
			b.outputs[name] = b.expression()
		case "resource", "module":
			d := &bicepDeclared{}
			if what := b.literal(); word == "module" {
				d.module = path.Join(path.Dir(b.name), what)
			} else {
				d.kind, d.version, _ = strings.Cut(what, "@")
			}
			if b.peek().text == "existing" {
				b.next()
				d.existing = true
			}
			for _, x := range decorators {
				if x.of != "onlyIfNotExists" {
					b.fail("the decorator %s", x.of)
				}
				d.once = true
			}
			b.expect('=')
			d.body = b.expression().(bicepObject)
			b.resources[name] = d
		default:
			b.fail("the declaration %s", word)
		}
		decorators = nil
		if kind := b.peek().kind; kind != '\n' && kind != 0 {
			b.fail("more on a line than a declaration")
		}
	}
}

func (b *bicepReader) literal() string {
	parts := b.expect('s').parts
	if len(parts) != 1 {
		b.fail("a text with expressions")
	}
	return parts[0].(string)
}

// expression reads an expression.
func (b *bicepReader) expression() any {
	var v any
	switch token := b.next(); token.kind {
	case 's':
		if len(token.parts) == 1 {
			v = token.parts[0]
		} else {
			v = bicepParts(token.parts)
		}
	case 'n':
		var n float64
		fmt.Sscan(token.text, &n)
		v = n
	case 'i':
		switch {
		case token.text == "true" || token.text == "false":
			v = token.text == "true"
		case b.peek().kind == '(':
			v = b.call(token.text)
		default:
			v = bicepIdent(token.text)
		}
	case '[':
		v = b.array()
	case '{':
		v = b.object()
	default:
		b.at--
		b.fail("%q is not an expression", token.kind)
	}
	for b.peek().kind == '.' {
		b.next()
		v = bicepMember{v, b.expect('i').text}
	}
	return v
}

func (b *bicepReader) call(of string) bicepCall {
	c := bicepCall{of: of}
	b.expect('(')
	for b.breaks(); b.peek().kind != ')'; b.breaks() {
		c.args = append(c.args, b.expression())
		if b.peek().kind == ',' {
			b.next()
		}
	}
	b.next()
	return c
}

func (b *bicepReader) array() bicepArray {
	out := bicepArray{}
	for b.breaks(); b.peek().kind != ']'; b.breaks() {
		out = append(out, b.expression())
		if kind := b.peek().kind; kind != '\n' && kind != ']' {
			b.fail("items of an array stand on lines of their own")
		}
	}
	b.next()
	return out
}

func (b *bicepReader) object() bicepObject {
	out := bicepObject{}
	for b.breaks(); b.peek().kind != '}'; b.breaks() {
		var key any
		if b.peek().kind == 'i' {
			key = b.next().text
		} else {
			key = b.expression()
		}
		b.expect(':')
		out = append(out, struct{ name, value any }{key, b.expression()})
		if kind := b.peek().kind; kind != '\n' && kind != '}' {
			b.fail("members of an object stand on lines of their own")
		}
	}
	b.next()
	return out
}

// encodeTemplate is a template as JSON.
func encodeTemplate(t *testing.T, template object) []byte {
	raw, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
