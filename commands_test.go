package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
)

// beginsCommand is how the template of a Fix begins: people paste it.
var beginsCommand = regexp.MustCompile(`^(az|kubectl|terraform|routekeeper|sqlite3|sudo) |^%s$`)

// TestTemplates: every template of a command is a constant, so a name from outside is never part of
// one. What a finding offers as its command begins with a program.
func TestTemplates(t *testing.T) {
	calls := 0
	for _, p := range packages(t) {
		if strings.HasSuffix(p.Dir, "pastetest") {
			continue // it makes again what others made
		}
		constants := map[string]bool{}
		var files []*ast.File
		set := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
			ast.Inspect(file, func(n ast.Node) bool {
				if d, is := n.(*ast.GenDecl); is && d.Tok == token.CONST {
					for _, s := range d.Specs {
						for _, name := range s.(*ast.ValueSpec).Names {
							constants[name.Name] = true
						}
					}
				}
				return true
			})
		}
		for _, file := range files {
			for _, d := range file.Decls {
				f, is := d.(*ast.FuncDecl)
				if !is || pastetest.Makers[f.Name.Name] > 0 {
					continue // these functions pass on what this test checks at their calls
				}
				templates := map[ast.Node]bool{}
				ast.Inspect(f, func(n ast.Node) bool {
					name, template, call := pastetest.Call(n)
					if call == nil {
						if e, is := n.(ast.Expr); is && !templates[n] && unquoted(e, constants) {
							t.Errorf("%s: a command that finding.Command does not make",
								set.Position(n.Pos()))
						}
						return !templates[n]
					}
					for _, part := range template {
						templates[part] = true
					}
					calls++
					for _, part := range template {
						if !constant(part, constants) {
							t.Errorf("%s: the template of %s is not a constant",
								set.Position(part.Pos()), name)
						}
					}
					if begin := opening(template); name == "WithFix" && begin != "" &&
						!beginsCommand.MatchString(begin) {
						t.Errorf("%s: %q is not a command: use WithAdvice",
							set.Position(call.Pos()),
							begin)
					}
					return true
				})
			}
		}
	}
	if calls < 150 {
		t.Errorf("only %d commands were checked", calls)
	}
}

// TestEveryCommandPasted: the tests of each package that makes commands from values paste them, so
// they fail for a command that they do not make with hostile names. Only WithFix sets a Fix.
func TestEveryCommandPasted(t *testing.T) {
	makers := 0
	for _, p := range packages(t) {
		sites, err := pastetest.Sites(p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(sites) > 0 &&
			!slices.Contains([]string{"finding", "pastetest"}, filepath.Base(p.Dir)) {
			makers++
			if !pastes(t, append(p.TestGoFiles, p.XTestGoFiles...), p.Dir) {
				t.Errorf("%s makes commands (%s), and its TestMain does not call pastetest.Main",
					p.ImportPath, sites[0])
			}
		}
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, is := n.(*ast.CompositeLit); is && setsFix(literal) {
					t.Errorf("%s: a finding with a Fix that WithFix did not make",
						set.Position(n.Pos()))
				}
				return true
			})
		}
	}
	if makers < 15 {
		t.Errorf("only %d packages make commands", makers)
	}
}

// command is a command in words, and parameters are what fmt puts into it.
var (
	command = regexp.MustCompile(`(^|[\s:;(])(az (network|aks|role|identity|lock|policy|group|` +
		`monitor|vm|vmss|rest|deployment)|kubectl [a-z]|terraform (state|import|plan|apply))`)
	parameters = regexp.MustCompile(`%(\[\d\])?[sqv]`)
)

// unquoted reports whether an expression is a command with values in it that may not be quoted:
// from a format, or unquoted with +.
func unquoted(e ast.Expr, constants map[string]bool) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		at := command.FindStringIndex(text)
		return e.Kind == token.STRING && at != nil && parameters.MatchString(text[at[0]:])
	case *ast.BinaryExpr:
		text, _ := strconv.Unquote(lastLiteral(e.X))
		_, made := e.Y.(*ast.CallExpr)
		return e.Op == token.ADD && command.MatchString(text) && !constant(e.Y, constants) && !made
	}
	return false
}

// lastLiteral is the literal at the end of an expression.
func lastLiteral(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value
	case *ast.BinaryExpr:
		return lastLiteral(e.Y)
	}
	return ""
}

// setsFix reports whether a literal is a finding with a command.
func setsFix(literal *ast.CompositeLit) bool {
	selector, is := literal.Type.(*ast.SelectorExpr)
	return is && selector.Sel.Name == "Finding" &&
		slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
			pair, is := e.(*ast.KeyValueExpr)
			if !is {
				return true // the fields have no names
			}
			key, is := pair.Key.(*ast.Ident)
			return is && key.Name == "Fix"
		})
}

// pastes reports whether the TestMain in one of the files pastes what the tests make.
func pastes(t *testing.T, files []string, dir string) (found bool) {
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is || f.Name.Name != "TestMain" {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, is := n.(*ast.SelectorExpr); is && s.Sel.Name == "Main" {
					x, is := s.X.(*ast.Ident)
					found = found || is && x.Name == "pastetest"
				}
				return true
			})
		}
	}
	return found
}

// opening is the first literal of a template, "" if it begins with a constant.
func opening(template []ast.Expr) string {
	if len(template) == 0 {
		return ""
	}
	e := template[0]
	for {
		switch part := e.(type) {
		case *ast.BinaryExpr:
			e = part.X
		case *ast.BasicLit:
			text, _ := strconv.Unquote(part.Value)
			return text
		default:
			return ""
		}
	}
}

// constant reports whether an expression is made of literals and constants.
func constant(e ast.Expr, constants map[string]bool) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.Ident:
		return constants[e.Name]
	case *ast.BinaryExpr:
		return e.Op == token.ADD && constant(e.X, constants) && constant(e.Y, constants)
	case *ast.ParenExpr:
		return constant(e.X, constants)
	}
	return false
}
