package iac

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"routekeeper.dev/routekeeper/internal/finding"
)

// The HCL library parses and evaluates recursively, and a stack overflow cannot be caught. So these
// limit the text before it is parsed. Hand-written code has about ten levels.
const (
	// deepestHCL is how deep brackets, blocks, templates and signs can be nested.
	deepestHCL = 200
	// mostOperators is how many operators, indexes and directives one attribute can have, because
	// each can be one more level.
	mostOperators = 5000
	// mostHCL is how large a file can be, in bytes: one byte of code can become a token of 150
	// bytes.
	mostHCL = 2 << 20
)

// checkHCL returns an error for code that is nested too deep to be parsed.
func checkHCL(name string, raw []byte) error {
	if len(raw) > mostHCL {
		return fmt.Errorf("%s: it is too large, expected at most %d MiB of code",
			finding.Show(name), mostHCL>>20)
	}
	tokens, _ := hclsyntax.LexConfig(raw, name, hcl.InitialPos) // the parser reports the errors
	var open []hclsyntax.TokenType
	signs, operators := 0, 0 // signs in a row
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenMinus, hclsyntax.TokenBang:
			signs++
			operators++
			if len(open)+signs > deepestHCL {
				return tooDeep(name, t)
			}
			continue
		case hclsyntax.TokenOBrace, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			open = append(open, t.Type)
		case hclsyntax.TokenOBrack, hclsyntax.TokenTemplateControl:
			open = append(open, t.Type)
			operators++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCBrack:
			open = open[:max(len(open)-1, 0)]
		case hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus,
			hclsyntax.TokenPercent, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
			hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenQuestion,
			hclsyntax.TokenDot:
			operators++
		case hclsyntax.TokenNewline:
			// elsewhere, an expression continues after it
			if len(open) == 0 || open[len(open)-1] == hclsyntax.TokenOBrace {
				operators = 0
			}
		}
		signs = 0
		if len(open) > deepestHCL || operators > mostOperators {
			return tooDeep(name, t)
		}
	}
	return nil
}

func tooDeep(name string, t hclsyntax.Token) error {
	return &SyntaxError{File: name, Line: t.Range.Start.Line,
		Summary: "it is nested too deep to be read"}
}
