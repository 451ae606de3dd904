package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/config"
)

// TestConfigPage: docs/config.md has every field of the schemas, and examples that are read. Each
// field is in an example. go test . -run ConfigPage -update writes it.
func TestConfigPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# The configuration\n\nYAML documents, one or more in a file. " +
		"`routekeeper init schema` prints the JSON Schemas, for\neditors. A mistake is one line " +
		"with the file, the line, the field and what was expected. Required\nfields are **bold**.\n")
	for _, of := range []struct {
		example string
		kinds   []string
		read    func(file config.File) error
	}{
		{"routes.yaml", []string{"clusterroutes", "notify"}, func(file config.File) error {
			_, err := config.Read(file)
			return err
		}},
		{"cluster.yaml", []string{"cluster"}, func(file config.File) error {
			c, err := config.ReadCluster(file)
			if err == nil {
				_, err = build.Read(c.Cluster)
			}
			return err
		}},
	} {
		text, err := os.ReadFile("docs/examples/" + of.example)
		if err != nil {
			t.Fatal(err)
		}
		example := strings.ReplaceAll(string(text), "\r\n", "\n")
		documents := []string{example}
		if of.kinds[0] == "cluster" { // one a file
			documents = strings.Split(example, "---\n")
		}
		for _, d := range documents {
			if err := of.read(config.File{Name: of.example, Data: []byte(d)}); err != nil {
				t.Error(err)
			}
		}
		var used []string
		for _, d := range strings.Split(example, "---\n") {
			var value any
			if err := yaml.Unmarshal([]byte(d), &value); err != nil {
				t.Fatal(err)
			}
			used = append(used, fieldsIn("", value)...)
		}
		for _, kind := range of.kinds {
			raw, err := os.ReadFile("api/v1alpha1/" + kind + ".schema.json")
			if err != nil {
				t.Fatal(err)
			}
			var read any
			if err := yaml.UnmarshalWithOptions(raw, &read, yaml.UseOrderedMap()); err != nil {
				t.Fatal(err)
			}
			s := schema{defs: ordered(ordered(read)["$defs"])}
			fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| field | type | default | meaning |\n"+
				"| --- | --- | --- | --- |\n", ordered(read)["title"], ordered(read)["description"])
			for _, f := range s.fields("", read) {
				page.WriteString(f.row)
				if !slices.Contains(used, f.path) {
					t.Errorf("docs/examples/%s has no %s of %s", of.example, f.path, kind)
				}
			}
		}
		fmt.Fprintf(&page, "\n### Example\n\n```yaml\n%s```\n", example)
	}
	isPage(t, "docs/config.md", "ConfigPage", page.String())
}

// fieldsIn are the paths of all fields in a document.
func fieldsIn(path string, value any) (paths []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			paths = append(append(paths, path+"."+key), fieldsIn(path+"."+key, item)...)
		}
	case []any:
		for _, item := range v {
			paths = append(paths, fieldsIn(path+"[]", item)...)
		}
	}
	return paths
}

// ordered returns a map's values; order does not matter.
func ordered(value any) map[string]any {
	m, _ := value.(yaml.MapSlice)
	values := map[string]any{}
	for _, item := range m {
		values[item.Key.(string)] = item.Value
	}
	return values
}

// schema is what a JSON Schema refers to.
type schema struct{ defs map[string]any }

type schemaField struct{ path, row string }

// fields are the fields of an object, and those in them.
func (s schema) fields(path string, object any) (all []schemaField) {
	values := ordered(object)
	properties, _ := values["properties"].(yaml.MapSlice)
	required, _ := values["required"].([]any)
	for _, p := range properties {
		name, field := p.Key.(string), ordered(p.Value)
		at := path + "." + name
		shown := "`" + strings.TrimPrefix(at, ".") + "`"
		if slices.Contains(required, any(name)) {
			shown = "**" + shown + "**"
		}
		standard := ""
		if d, ok := field["default"]; ok {
			standard = fmt.Sprintf("`%v`", d)
		}
		meaning, _ := field["description"].(string)
		all = append(all, schemaField{at,
			fmt.Sprintf("| %s | %s | %s | %s |\n", shown, s.kind(p.Value), standard, meaning)})
		all = append(all, s.fields(at, p.Value)...)
		if items := field["items"]; items != nil {
			all = append(all, s.fields(at+"[]", items)...)
		}
	}
	return all
}

// kind says what values a field takes.
func (s schema) kind(value any) string {
	field := ordered(value)
	if ref, ok := field["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if strings.HasSuffix(name, "ID") {
			return "resource ID"
		}
		return s.kind(s.defs[name])
	}
	if options, ok := field["anyOf"].([]any); ok && field["type"] == nil {
		return s.kind(options[len(options)-1])
	}
	if constant, ok := field["const"]; ok {
		return fmt.Sprintf("`%v`", constant)
	}
	if values, ok := field["enum"].([]any); ok {
		var names []string
		for _, v := range values {
			if v != "" {
				names = append(names, fmt.Sprintf("`%v`", v))
			}
		}
		return strings.Join(names, ", ")
	}
	kind, _ := field["type"].(string)
	pattern, _ := field["pattern"].(string)
	switch least, most := field["minimum"], field["maximum"]; {
	case kind == "array":
		return "list of " + s.kind(field["items"])
	case kind == "integer" && least != nil:
		return fmt.Sprintf("integer, %v to %v", least, most)
	case strings.HasSuffix(pattern, "/[^/]+/*$"):
		return "resource ID"
	case strings.HasSuffix(pattern, "/[0-9]+$"):
		return "prefix"
	case field["format"] == "date-time":
		return "time"
	}
	return kind
}
