// Package config reads ClusterRoutes and Clusters from YAML text. It reports each mistake in one
// line with the file, the line, the field and what was expected.
//
// The package is pure: the text comes from the caller, and it does not read Azure. It must not
// check facts that only Azure knows, such as whether a target is the cluster's route table. Package
// plan does that.
package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"

	"routekeeper.dev/routekeeper/api/v1alpha1"
	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/yamllimits"
)

// File is a configuration file as it was read.
type File struct {
	Name string
	Data []byte
}

// Error is a mistake in a file, at a line and column counted from 1. Line is 0 when it concerns the
// file as a whole.
type Error struct {
	File         string
	Line, Column int
	Field        string // such as spec.targets[0].routeTableID, or ""
	Problem      string // what is wrong and what was expected
}

// Error returns one line: file:line:column: field: problem.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": ")
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Problem)
	// Parts are quoted from the file or come from the YAML library.
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(b.String())
}

// document is one YAML document of a file.
type document struct {
	file string
	line int // of its first line in the file, counted from 0
	body ast.Node
	// object is set for an object of the Kubernetes API. Then mistakes name no lines.
	object bool
}

// routes is a ClusterRoutes document.
type routes struct {
	*document
	spec v1alpha1.ClusterRoutes
}

// Read reads all documents of all files, sets the defaults and checks the documents, alone and
// together. The error is the first mistake, an *Error.
func Read(files ...File) ([]v1alpha1.ClusterRoutes, error) {
	var docs []*routes
	var notify []*document
	for i, f := range files {
		found, others, err := readRoutes(f)
		if err != nil {
			return nil, err
		}
		docs, notify = append(docs, found...), append(notify, others...)
		if len(found)+len(others) == 0 || len(docs) == 0 && i == len(files)-1 {
			return nil, &Error{File: f.Name, Problem: "found no document, expected a " +
				v1alpha1.Kind}
		}
	}
	if _, err := notifyOf(notify); err != nil {
		return nil, err
	}
	configs := make([]v1alpha1.ClusterRoutes, len(docs))
	for i, d := range docs {
		d.spec.SetDefaults()
		if err := d.check(); err != nil {
			return nil, err
		}
		if err := d.checkAgainst(docs[:i]); err != nil {
			return nil, err
		}
		configs[i] = d.spec
	}
	for _, d := range docs {
		if err := d.checkTargets(docs); err != nil {
			return nil, err
		}
	}
	return configs, nil
}

// readRoutes reads the ClusterRoutes of a file, without defaults and checks. It returns the Notify
// documents as they are.
func readRoutes(f File) (docs []*routes, notify []*document, err error) {
	err = parse(f, func(d *document) error {
		if d.isNotify() {
			notify = append(notify, d)
			return nil
		}
		r := &routes{document: d}
		docs = append(docs, r)
		return d.decode(v1alpha1.Kind, &r.spec)
	})
	return docs, notify, err
}

// parse splits a file into its documents and passes each to take, up to the first error.
func parse(f File, take func(*document) error) error {
	if !utf8.Valid(f.Data) {
		return &Error{File: f.Name, Problem: "not UTF-8 text (a file redirected by Windows " +
			"PowerShell is UTF-16: save it as UTF-8)"}
	}
	for _, part := range yamllimits.Split(string(f.Data)) {
		d, err := parseOne(f.Name, part.Line, part.Text)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		if err := take(d); err != nil {
			return err
		}
	}
	return nil
}

// parseOne parses one document; an empty one is nil.
func parseOne(file string, line int, text string) (*document, error) {
	d := &document{file: file, line: line}
	tokens := lexer.Tokenize(text)
	if err := d.checkDepth(tokens); err != nil {
		return nil, err
	}
	tree, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, d.yamlError(err)
	}
	for _, part := range tree.Docs {
		if part.Body == nil {
			continue
		}
		if d.body != nil { // after a document end marker, ...
			return nil, d.errorAt(part.Body, "", "a second document, expected --- before it")
		}
		d.body = part.Body
	}
	if d.body == nil || d.body.Type() == ast.CommentType {
		return nil, nil
	}
	return d, nil
}

var placeInMessage = lazy.Regexp(`\[\d+:\d+\]`)

// yamlError turns an error of the YAML library, which draws the source, into one line with a field.
func (d *document) yamlError(err error) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return &Error{File: d.file, Problem: line}
	}
	position := e.GetToken().Position
	// The library counts lines from the start of the document, even in its messages.
	problem := placeInMessage().ReplaceAllStringFunc(e.GetMessage(), func(place string) string {
		var line, column int
		_, _ = fmt.Sscanf(place, "[%d:%d]", &line, &column) // it matched
		return fmt.Sprintf("line %d", d.line+line)
	})
	return &Error{File: d.file, Line: d.line + position.Line, Column: position.Column,
		Problem: "not valid YAML: " + problem}
}

// errorAt returns the error for a field with its value at node.
func (d *document) errorAt(node ast.Node, field, problem string) *Error {
	e := &Error{File: d.file, Field: field, Problem: problem}
	if node != nil && node.GetToken() != nil && node.GetToken().Position != nil {
		e.Line, e.Column = d.line+node.GetToken().Position.Line, node.GetToken().Position.Column
	}
	return e
}

// errorf returns the error for a field by its path, such as spec.targets[0].routeTableID. If the
// field is missing, the error points at its parent.
func (d *document) errorf(field, format string, args ...any) *Error {
	return d.errorAt(d.find(field), field, fmt.Sprintf(format, args...))
}

// find returns the node of a field's value, or of its nearest parent.
func (d *document) find(field string) ast.Node {
	for path := field; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if node := d.value(path); node != nil {
			return node
		}
	}
	return d.body
}

// value returns the node of a field's value, nil if the document does not have the field.
func (d *document) value(field string) ast.Node {
	p, err := yaml.PathString("$." + field)
	if err != nil {
		return nil
	}
	node, err := p.FilterNode(d.body)
	if err != nil {
		return nil
	}
	return node
}
