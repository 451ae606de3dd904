package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// proofs returns the table of the functions of package plan that return a proof, what each says,
// and who calls it: a change of a proof changes what rests on it.
func proofs(t *testing.T) string {
	files, err := filepath.Glob("internal/plan/*.go")
	if err != nil {
		t.Fatal(err)
	}
	decides, in := map[string]string{}, map[string]string{}
	calls := map[string]map[string]bool{} // by the called name
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if f.Recv != nil && proves(f) { // the others make the value
				in[f.Name.Name] = filepath.Base(path)
				says, _, _ := strings.Cut(f.Doc.Text(), "\n\n")
				says = strings.Join(strings.Fields(says), " ")
				decides[f.Name.Name] = strings.TrimSuffix(strings.TrimPrefix(says, f.Name.Name+" "),
					".")
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if of, ok := call.Fun.(*ast.SelectorExpr); ok {
						if calls[of.Sel.Name] == nil {
							calls[of.Sel.Name] = map[string]bool{}
						}
						calls[of.Sel.Name][fmt.Sprintf("%s (%s)", f.Name.Name,
							filepath.Base(path))] = true
					}
				}
				return true
			})
		}
	}
	var table strings.Builder
	table.WriteString("\n## Which proofs are there, and who uses them?\n\n" +
		"| proof | decides | called from |\n| --- | --- | --- |\n")
	for _, name := range slices.SortedFunc(maps.Keys(in), func(a, b string) int {
		return strings.Compare(in[a]+" "+a, in[b]+" "+b)
	}) {
		fmt.Fprintf(&table, "| `%s` (%s) | %s | %s |\n", name, in[name], decides[name],
			strings.Join(slices.Sorted(maps.Keys(calls[name])), ", "))
	}
	return table.String()
}

// proves reports whether a function returns a proof.
func proves(f *ast.FuncDecl) bool {
	return f.Type.Results != nil &&
		slices.ContainsFunc(f.Type.Results.List, func(r *ast.Field) bool {
			of, ok := r.Type.(*ast.Ident)
			return ok && of.Name == "proof" || len(r.Names) > 0 && r.Names[0].Name == "proof"
		})
}
