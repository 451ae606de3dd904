package armtemplate

import (
	"fmt"
	"strconv"
	"strings"
)

// expression is one of literal, call and access.
type expression interface{ depth() int }

type literal struct{ value any }

// call is a function with its arguments, as written. A user-defined function has its namespace
// before its name.
type call struct {
	name string
	args []expression
	deep int
}

// access takes a member or an element out of a value.
type access struct {
	of, at expression
	deep   int
}

func (literal) depth() int   { return 1 }
func (c *call) depth() int   { return c.deep }
func (a *access) depth() int { return a.deep }

// isExpression reports whether a text of a template is an expression. If not, it returns the text's
// meaning: "[[x]" means "[x]".
func isExpression(text string) (bool, string) {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return false, text
	}
	if text[1] == '[' {
		return false, text[1:]
	}
	return true, text[1 : len(text)-1]
}

// parseExpression parses the text between the brackets.
func parseExpression(source string) (expression, error) {
	p := &parser{source: source}
	e, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(source) {
		return nil, fmt.Errorf("unexpected %.20q after the end", source[p.at:])
	}
	return e, nil
}

type parser struct {
	source string
	at     int
}

func (p *parser) space() {
	for p.at < len(p.source) && strings.IndexByte(" \t\r\n", p.source[p.at]) >= 0 {
		p.at++
	}
}

// take consumes a character if it comes next.
func (p *parser) take(c byte) bool {
	if p.space(); p.at < len(p.source) && p.source[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) fail(expected string) error {
	if p.at >= len(p.source) {
		return fmt.Errorf("it ends, expected %s", expected)
	}
	return fmt.Errorf("unexpected %.20q, expected %s", p.source[p.at:], expected)
}

func (p *parser) word() string {
	start := p.at
	for p.at < len(p.source) {
		c := p.source[p.at]
		if c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			c >= '0' && c <= '9' || c == '-' && p.at > start || c >= 0x80 {
			p.at++
			continue
		}
		break
	}
	return p.source[start:p.at]
}

func (p *parser) expression(depth int) (expression, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	e, err := p.primary(depth)
	if err != nil {
		return nil, err
	}
	for {
		var at expression
		switch {
		case p.take('.'):
			p.space()
			name := p.word()
			if name == "" {
				return nil, p.fail("a name")
			}
			at = literal{name}
		case p.take('['):
			if at, err = p.expression(depth + 1); err != nil {
				return nil, err
			}
			if !p.take(']') {
				return nil, p.fail("]")
			}
		default:
			return e, nil
		}
		a := &access{e, at, max(e.depth(), at.depth()) + 1}
		if a.deep > maxDepth {
			return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
		}
		e = a
	}
}

func (p *parser) primary(depth int) (expression, error) {
	p.space()
	if p.at == len(p.source) {
		return nil, p.fail("a value")
	}
	switch c := p.source[p.at]; {
	case c == '\'':
		return p.text()
	case c >= '0' && c <= '9' || c == '-' || c == '+':
		start := p.at
		for p.at++; p.at < len(p.source) &&
			strings.IndexByte("0123456789.eE", p.source[p.at]) >= 0; p.at++ {
		}
		number := p.source[start:p.at]
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			return literal{n}, nil
		}
		f, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("%.30q is not a number", number)
		}
		return literal{f}, nil
	}
	name := p.word()
	if name == "" {
		return nil, p.fail("a value")
	}
	if p.take('.') {
		p.space()
		member := p.word()
		if member == "" {
			return nil, p.fail("a name")
		}
		name += "." + member
	}
	if !p.take('(') {
		return nil, p.fail("( behind " + name)
	}
	c := &call{name: name, deep: 1}
	for !p.take(')') {
		if len(c.args) > 0 && !p.take(',') {
			return nil, p.fail(", or )")
		}
		arg, err := p.expression(depth + 1)
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, arg)
		c.deep = max(c.deep, arg.depth()+1)
	}
	return c, nil
}

// text reads a string; two single quotes in it are one.
func (p *parser) text() (expression, error) {
	var b strings.Builder
	for p.at++; p.at < len(p.source); p.at++ {
		if c := p.source[p.at]; c != '\'' {
			b.WriteByte(c)
			continue
		}
		if p.at++; p.at == len(p.source) || p.source[p.at] != '\'' {
			return literal{b.String()}, nil
		}
		b.WriteByte('\'')
	}
	return nil, fmt.Errorf("a string does not end")
}
