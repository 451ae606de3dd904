package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"routekeeper.dev/routekeeper/internal/lazy"
	"routekeeper.dev/routekeeper/internal/yamllimits"
)

// decode decodes the document into a struct. It refuses another kind first, so that this mistake
// does not show as an unknown field. Then it compares the document with the struct: every key must
// be a field, every value must have the field's type. The YAML library checks this too, but does
// not name the known fields, and accepts 1.5 for an int.
func (d *document) decode(kind string, into any) error {
	if node := d.find("kind"); node != d.body && node.Type() == ast.StringType {
		if err := oneOf(d, "kind", node.(*ast.StringNode).Value, kind); err != nil {
			return err
		}
	}
	if err := d.shape(d.body, "", reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	if err := yaml.NodeToValue(d.body, into, yaml.Strict()); err != nil {
		return d.yamlError(err)
	}
	return nil
}

// checkDepth refuses documents that take the YAML library too long.
func (d *document) checkDepth(tokens token.Tokens) error {
	if much, ok := errors.AsType[*yamllimits.TooMuch](yamllimits.CheckTokens(tokens)); ok {
		return &Error{File: d.file, Line: d.line + much.Line, Column: much.Column,
			Problem: much.Problem}
	}
	return nil
}

const noAliases = "aliases and merge keys are not supported: write out the value"

// decimal is a number that every YAML reader understands in the same way: 010 is 8 for some.
var decimal = lazy.Regexp(`^-?(0|[1-9][0-9]*)$`)

func (d *document) shape(node ast.Node, field string, t reflect.Type) error {
	optional := t.Kind() == reflect.Pointer
	if optional {
		t = t.Elem()
	}
	wrong := func() error {
		expected := describeType(t)
		if scalar, is := node.(ast.ScalarNode); is && t.Kind() == reflect.String {
			expected += ": write " + quoted(scalar.GetToken().Value)
		}
		return d.errorAt(node, field,
			fmt.Sprintf("found %s, expected %s", describeNode(node), expected))
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		return d.shape(n.Value, field, t)
	case *ast.AliasNode, *ast.MergeKeyNode:
		return d.errorAt(node, field, noAliases)
	case *ast.NullNode:
		if field == "" {
			return wrong()
		}
		return nil // a key without a value is a missing field
	case *ast.MappingNode:
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return wrong()
		}
		for _, value := range n.Values {
			if err := d.shapeOfField(value, field, t); err != nil {
				return err
			}
		}
		return nil
	case *ast.MappingValueNode:
		if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return wrong()
		}
		return d.shapeOfField(n, field, t)
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			return wrong()
		}
		for i, value := range n.Values {
			if err := d.shape(value, fmt.Sprintf("%s[%d]", field, i), t.Elem()); err != nil {
				return err
			}
		}
		return nil
	case *ast.StringNode, *ast.LiteralNode:
		if t.Kind() != reflect.String {
			return wrong()
		}
		return nil
	case *ast.BoolNode:
		if t.Kind() != reflect.Bool {
			return wrong()
		}
		return nil
	case *ast.IntegerNode:
		switch written := n.GetToken().Value; {
		case t.Kind() != reflect.Int:
			return wrong()
		case !decimal().MatchString(written):
			return d.errorAt(node, field, written+" is not written in decimal digits, expected a "+
				"whole number such as 10")
		case written == "0" && !optional: // the struct cannot distinguish it from a missing field
			return d.errorAt(node, field, "0 is out of range, expected 1 or more")
		}
		return nil
	}
	return wrong()
}

func (d *document) shapeOfField(value *ast.MappingValueNode, field string, t reflect.Type) error {
	if _, merge := value.Key.(*ast.MergeKeyNode); merge {
		return d.errorAt(value.Key, field, noAliases)
	}
	key := value.Key.String()
	if _, ok := value.Key.(*ast.StringNode); ok {
		key = value.Key.GetToken().Value
	}
	if t.Kind() == reflect.Map { // any key
		return d.shape(value.Value, join(field, key), t.Elem())
	}
	names := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == key {
			return d.shape(value.Value, join(field, key), t.Field(i).Type)
		}
		names = append(names, name)
	}
	return d.errorAt(value.Key, join(field, key), "unknown field, expected one of "+
		strings.Join(names, ", "))
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	}
	return "text"
}

func describeNode(node ast.Node) string {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return "the text " + quoted(n.Value)
	case *ast.LiteralNode:
		return "a block of text"
	case ast.ScalarNode:
		return n.GetToken().Value
	}
	return "a YAML tag"
}
