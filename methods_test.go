package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// maxMethods is how many methods a type may have: one with more is several types.
const maxMethods = 40

func TestMethods(t *testing.T) {
	for _, p := range packages(t) {
		pkg := strings.Trim(strings.TrimPrefix(p.ImportPath, module), "/")
		methods := map[string]int{}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
					methods[receiver(f.Recv.List[0].Type)]++
				}
			}
		}
		for name, n := range methods {
			if n > maxMethods {
				t.Errorf("%s: type %s has %d methods, %d are enough", pkg, name, n, maxMethods)
			}
		}
	}
}

// receiver is the name of a receiver's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
