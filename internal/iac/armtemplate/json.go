package armtemplate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxSize is the maximum size of a file in bytes. A template is limited to 4 MB
// (azure-subscription-service-limits).
const MaxSize = 16 << 20

// maxDepth is how deep values and expressions may nest.
const maxDepth = 200

// Parse parses a JSON document as Resource Manager does, with comments, and stores the line of each
// object and the name of the file. Errors are one line with the line number.
func Parse(file string, data []byte) (any, error) {
	mark := len(data)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	mark -= len(data)
	switch {
	case len(data) > MaxSize:
		return nil, fmt.Errorf("it has %d MB: no template has more than %d", len(data)>>20,
			MaxSize>>20)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, fmt.Errorf("it is empty, expected a JSON object")
	case !utf8.Valid(data):
		return nil, fmt.Errorf("not UTF-8 text (a file redirected by Windows PowerShell is " +
			"UTF-16: save it as UTF-8)")
	}
	p := &jsonParser{file: file, data: data, line: 1, mark: mark}
	v, err := p.value(0)
	if err == nil {
		err = p.space()
	}
	if err == nil && p.at < len(data) {
		err = p.fail("there is something after the end")
	}
	return v, err
}

type jsonParser struct {
	file     string
	data     []byte
	at, line int
	mark     int // the length of the byte order mark before the data
}

func (p *jsonParser) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: not JSON: "+format, append([]any{p.line}, args...)...)
}

// space skips white space and comments.
func (p *jsonParser) space() error {
	for p.at < len(p.data) {
		switch c := p.data[p.at]; {
		case c == '\n':
			p.line++
			p.at++
		case c == ' ' || c == '\t' || c == '\r':
			p.at++
		case bytes.HasPrefix(p.data[p.at:], []byte("//")):
			if n := bytes.IndexByte(p.data[p.at:], '\n'); n >= 0 {
				p.at += n
			} else {
				p.at = len(p.data)
			}
		case bytes.HasPrefix(p.data[p.at:], []byte("/*")):
			n := bytes.Index(p.data[p.at+2:], []byte("*/"))
			if n < 0 {
				return p.fail("a comment does not end")
			}
			p.line += bytes.Count(p.data[p.at:p.at+n+4], []byte("\n"))
			p.at += n + 4
		default:
			return nil
		}
	}
	return nil
}

// next skips space and returns the next byte, 0 at the end.
func (p *jsonParser) next() (byte, error) {
	if err := p.space(); err != nil {
		return 0, err
	}
	if p.at == len(p.data) {
		return 0, nil
	}
	return p.data[p.at], nil
}

func (p *jsonParser) value(depth int) (any, error) {
	c, err := p.next()
	switch {
	case err != nil:
		return nil, err
	case depth > maxDepth:
		return nil, p.fail("it is nested deeper than %d", maxDepth)
	case c == 0:
		return nil, p.fail("it is incomplete")
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"':
		return p.text()
	}
	start := p.at
	for p.at < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,]}/:"), p.data[p.at]) < 0 {
		p.at++
	}
	switch word := string(p.data[start:p.at]); word {
	case "true":
		return true, nil
	case "false":
		return false, nil
	case "null":
		return nil, nil
	default:
		if word == "" {
			return nil, p.fail("expected a value")
		}
		if !json.Valid([]byte(word)) {
			return nil, p.fail("%.30q is not a value", word)
		}
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, p.fail("%.30q is not a number", word)
		}
		return f, nil
	}
}

// item returns the first byte of the next item, or consumes the closing bracket and returns it.
// Resource Manager accepts a comma after the last item.
func (p *jsonParser) item(first bool, end byte, in string) (byte, error) {
	c, err := p.next()
	if err == nil && c != end && !first {
		if c != ',' {
			return c, p.fail("expected , or %c in %s", end, in)
		}
		p.at++
		c, err = p.next()
	}
	if err == nil && c == end {
		p.at++
	}
	return c, err
}

func (p *jsonParser) object(depth int) (any, error) {
	o := &Object{File: p.file, Line: p.line, Start: p.mark + p.at}
	p.at++
	for first := true; ; first = false {
		c, err := p.item(first, '}', "an object")
		if err != nil {
			return nil, err
		}
		if c == '}' {
			return o, nil
		}
		line, at := p.line, p.mark+p.at
		name, err := p.name(c)
		if err != nil {
			return nil, err
		}
		if c, err = p.next(); err != nil || c != ':' {
			return nil, p.fail("expected : after a name")
		}
		p.at++
		if _, err := p.next(); err != nil {
			return nil, err
		}
		from := p.mark + p.at
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.set(name.(string), v, line)
		m := o.Member(name.(string))
		m.At, m.From, m.To = at, from, p.mark+p.at
	}
}

// name reads the name of a member. Resource Manager accepts names without quotes: az writes
// template:{ around the content of a template file.
func (p *jsonParser) name(first byte) (any, error) {
	if first == '"' {
		return p.text()
	}
	start := p.at
	for p.at < len(p.data) && (p.data[p.at] == '_' || p.data[p.at] == '$' ||
		isLetter(p.data[p.at]) ||
		p.at > start && p.data[p.at] >= '0' && p.data[p.at] <= '9') {
		p.at++
	}
	if p.at == start {
		return nil, p.fail("expected the name of a member")
	}
	return string(p.data[start:p.at]), nil
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func (p *jsonParser) list(depth int) (any, error) {
	list := []any{}
	p.at++
	for first := true; ; first = false {
		c, err := p.item(first, ']', "a list")
		if err != nil {
			return nil, err
		}
		if c == ']' {
			return list, nil
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

// text reads a string. The Azure CLI accepts strings with line breaks in templates, so line breaks
// are kept.
func (p *jsonParser) text() (any, error) {
	start, breaks := p.at, 0
	for p.at++; p.at < len(p.data); p.at++ {
		switch p.data[p.at] {
		case '\\':
			p.at++
		case '\n':
			breaks++
		case '"':
			p.at++
			raw := p.data[start:p.at]
			if breaks > 0 {
				raw = bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r"), nil), []byte("\n"),
					[]byte(`\n`))
				p.line += breaks
			}
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, p.fail("%.40q is not a string", raw)
			}
			return s, nil
		}
	}
	return nil, p.fail("a string does not end")
}

// json encodes a value on one line. Unknown parts are in braces.
func (x *scope) json(v any) string {
	return string(appendJSON(nil, v, func(size int) {
		x.d.spend(1)
		if size > maxText {
			panic(limit{fmt.Sprintf("a value is longer than %d characters", maxText)})
		}
	}))
}

// JSON encodes a value that is completely known.
func JSON(v any) []byte { return appendJSON(nil, v, func(int) {}) }

// appendJSON encodes a value. It calls check for each part, with the size so far.
func appendJSON(b []byte, v any, check func(size int)) []byte {
	check(len(b))
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case *Unknown:
		return append(b, `"{`+strings.ReplaceAll(v.Why+" "+v.Of+" "+v.Path, `"`, "'")+`}"`...)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item, check)
		}
		return append(b, ']')
	case *Object:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSON(b, m.Name, check), ':')
			b = appendJSON(b, m.Value, check)
		}
		return append(b, '}')
	}
	text, _ := TextOf(v)
	raw, _ := json.Marshal(text) // strings always marshal
	return append(b, raw...)
}
