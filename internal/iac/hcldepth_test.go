package iac

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"
)

// TestDeepCode: code that would overflow the stack of the HCL library is a mistake at a line. A
// stack overflow ends the test program, so this test would not end with a failure but with a crash.
func TestDeepCode(t *testing.T) {
	const n = 20_000
	for name, text := range map[string]string{
		"parentheses": "a=" + strings.Repeat("(", n), "lists": "a=" + strings.Repeat("[", n),
		"nots": "a=" + strings.Repeat("!", n) + "x", "minuses": "a=" + strings.Repeat("-", n) + "1",
		"templates": `a="` + strings.Repeat(`${"`, n), "blocks": strings.Repeat("a {\n", n),
		"conditions": "a=" + strings.Repeat("x?1:", n) + "1",
		"calls":      "a=" + strings.Repeat("f(", n), "sums": "a=" + strings.Repeat("x+", n) + "x",
		"sums in lines":  "a=(" + strings.Repeat("x+\n", n) + "x)",
		"indexes":        "a=f()" + strings.Repeat("[x]", n) + "\n",
		"directives":     `a="` + strings.Repeat(`%{if x}`, n) + `"`,
		"heredocs":       "a=<<E\n" + strings.Repeat("%{if x}\n", n) + "E\n",
		"closed first":   "a=" + strings.Repeat(")", n) + strings.Repeat("(", n),
		"lists in lines": "a=" + strings.Repeat("[\n", n),
	} {
		err := (&sourceModule{}).parse(name+".tf", []byte(text))
		var bad *SyntaxError
		if !errors.As(err, &bad) || !strings.Contains(bad.Summary, "nested too deep") ||
			bad.Line == 0 {
			t.Errorf("%s: %.200v, want that it is nested too deep", name, err)
		}
	}
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
	for name, text := range map[string]string{ // just below the limits
		"brackets": "a=" + strings.Repeat("[", 199) + strings.Repeat("]", 199) + "\n",
		"sums":     "a=(" + strings.Repeat("x+\n", 4990) + "x)\n",
		"many": strings.Repeat("resource \"a\" \"b\" {\n  c = [x.y[0], \"${x.z}\"]\n}\n",
			10_000),
		"conditions": "a=" + strings.Repeat("x?1:", 4990) + "1\n",
	} {
		m := &sourceModule{}
		m.whole = &Source{modules: []*sourceModule{m}}
		if err := m.parse(name+".tf", []byte(text)); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
		m.whole.Reading()
	}
}
