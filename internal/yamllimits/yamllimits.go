// Package yamllimits refuses YAML text that the YAML library would take minutes or all memory for.
//
// The package is pure.
package yamllimits

import (
	"fmt"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// A YAML document of this program has values six deep and some hundred keys. The time of the YAML
// library grows with the square of both: a minute for a small file of brackets or keys.
const (
	deepest  = 32
	mostKeys = 10_000
)

// TooMuch is where a YAML document goes beyond the limits. Line and Column are counted from 1.
type TooMuch struct {
	Line, Column int
	Problem      string
}

// Error returns the problem and the line.
func (e *TooMuch) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// Check returns a *TooMuch if a YAML text is too deep or large to be parsed, or nil.
func Check(text []byte) error { return CheckTokens(lexer.Tokenize(string(text))) }

// CheckTokens works like Check for the tokens of one document.
func CheckTokens(tokens token.Tokens) error {
	brackets, dashes, keys, line := 0, 0, 0, 0 // dashes in one line
	for _, t := range tokens {
		if t.Position.Line != line {
			dashes, line = 0, t.Position.Line
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType:
			dashes++
		case token.MappingValueType:
			keys++
		}
		problem := ""
		switch {
		case brackets+dashes > deepest:
			problem = fmt.Sprintf("values are nested more than %d deep", deepest)
		case keys > mostKeys:
			problem = fmt.Sprintf("a document has more than %d keys", mostKeys)
		default:
			continue
		}
		return &TooMuch{Line: line, Column: t.Position.Column, Problem: problem}
	}
	return nil
}
