package pastetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Makers has the functions that make commands from a template, with the number of their first
// arguments that are parts of it. Each value then becomes one word of the shell.
var Makers = map[string]int{"Command": 1, "WithFix": 1, "azAKS": 2, "az": 2, "kubectl": 1}

// helpers are the makers that call finding.Command.
var helpers = []string{"azAKS", "az", "kubectl"}

// Call reports whether an expression makes a command, and the parts of its template.
func Call(n ast.Node) (name string, template []ast.Expr, call *ast.CallExpr) {
	call, is := n.(*ast.CallExpr)
	if !is {
		return "", nil, nil
	}
	selector, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return "", nil, nil
	}
	name = selector.Sel.Name
	if x, is := selector.X.(*ast.Ident); is && (x.Name != "finding" && name == "Words" ||
		slices.Contains([]string{"exec", "cobra", "sqlite"}, x.Name)) {
		return "", nil, nil
	}
	if Makers[name] == 0 && name != "Words" {
		return "", nil, nil
	}
	return name, call.Args[:min(len(call.Args), Makers[name])], call
}

// verb matches a formatting verb, such as %s, whose value can come from outside. Not %d: a number
// is harmless.
var verb = regexp.MustCompile(`%[^%d]`)

// Sites returns the places in the package of a folder that make commands from values, as file:line.
// A template that is only %s contains a command that was made elsewhere.
func Sites(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var sites []string
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if is && slices.Contains(helpers, f.Name.Name) {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				name, template, call := Call(n)
				if call == nil || !takesValues(name, template, call) {
					return true
				}
				at := set.Position(call.Fun.(*ast.SelectorExpr).Sel.Pos())
				sites = append(sites, fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line))
				return true
			})
		}
	}
	slices.Sort(sites)
	return slices.Compact(sites), nil
}

// takesValues reports whether a call puts values from outside into its template.
func takesValues(name string, template []ast.Expr, call *ast.CallExpr) bool {
	if name == "Words" || slices.Contains(helpers, name) {
		return true
	}
	if len(call.Args) == len(template) {
		return false
	}
	var literals strings.Builder
	known := true
	ast.Inspect(template[0], func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, _ := strconv.Unquote(n.Value)
			literals.WriteString(text)
		case *ast.Ident:
			known = false // a constant
		}
		return true
	})
	text := literals.String()
	return !known || text != "%s" && verb.MatchString(text)
}

const ours = "routekeeper.dev/routekeeper/internal/finding."

// placeOf has the places by the program counters of their callers, because the same few make
// millions.
var placeOf sync.Map

// site returns the place that called finding.Command, WithFix or Words: the first one outside of
// package finding that is no helper. "" is a place in a test.
func site() (dir, place string) {
	var pcs [12]uintptr
	n := runtime.Callers(3, pcs[:])
	if known, ok := placeOf.Load(pcs); ok {
		at := known.([2]string)
		return at[0], at[1]
	}
	defer func() { placeOf.Store(pcs, [2]string{dir, place}) }()
	frames := runtime.CallersFrames(pcs[:n])
	for {
		frame, more := frames.Next()
		name := frame.Function[strings.LastIndex(frame.Function, ".")+1:]
		switch {
		case strings.HasPrefix(frame.Function, ours) || slices.Contains(helpers, name):
		case strings.HasSuffix(frame.File, "_test.go"):
			return "", ""
		default:
			return filepath.Dir(frame.File), fmt.Sprintf("%s:%d", filepath.Base(frame.File),
				frame.Line)
		}
		if !more {
			return "", ""
		}
	}
}

// unmade returns the places of the package in the current folder that made no command with a
// hostile name.
func (c *collector) unmade() (faults []string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	sites, err := Sites(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range sites {
		if !c.hostile[filepath.Base(dir)+"/"+s] {
			faults = append(faults,
				fmt.Sprintf("%s: no test makes this command with a hostile name", s))
		}
	}
	return faults, nil
}
