package iac

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// yamlStart are lines by which a text without a file name counts as YAML, so that its mistakes are
// reported as such.
var yamlStart = lazy.Regexp(`(?m)^(---|(- )?(apiVersion|kind|hosts|tasks|name):)`)

// readYAML reads a file of Ansible tasks or Kubernetes manifests.
func readYAML(name string, s *stream, known []Carrier) (*Reading, error) {
	data, err := s.rest()
	if err != nil {
		return nil, err
	}
	if len(data) > armtemplate.MaxSize {
		return nil, fmt.Errorf("it is larger than %d MiB", armtemplate.MaxSize>>20)
	}
	if !isYAML(name) && data[0] != '{' && !yamlStart().Match(data[:min(len(data), peekSize)]) {
		return nil, errUnknownFormat
	}
	c := newYAMLCode()
	docs, err := c.texts.Parse(data)
	if err != nil {
		return nil, err
	}
	if len(docs) > 0 && strings.HasPrefix(docs[0].Get("apiVersion").String(), "routekeeper.dev/") {
		return nil, errors.New("it is a config of routekeeper: name it with -f, next to the code")
	}
	if !c.add(name, docs) {
		return nil, errUnknownFormat
	}
	return c.reading(known), nil
}

// isYAML reports whether a file's name is that of a YAML file.
func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// yamlCode collects the code of YAML files.
type yamlCode struct {
	texts     yamltree.Texts
	budget    *budget
	tasks     map[string][]*yamltree.Value // by file
	there     map[string]bool              // of a folder, nil for a single file
	manifests *manifests
}

func newYAMLCode() *yamlCode {
	return &yamlCode{budget: newBudget(), tasks: map[string][]*yamltree.Value{}}
}

// add adds a file, and returns false if it is neither of tasks nor of manifests.
func (c *yamlCode) add(name string, docs []*yamltree.Value) bool {
	found := false
	for _, doc := range docs {
		switch {
		case isManifest(doc):
			if c.manifests == nil {
				c.manifests = &manifests{codeReading: newCodeReading(Manifests, c.budget),
					byName: map[string]*kubeObject{}}
			}
			c.manifests.add(doc, name, "", 0)
			found = true
		case isAnsible(doc):
			c.tasks[name] = append(c.tasks[name], doc)
			if c.there != nil {
				markThere(c.there, name)
			}
			found = true
		}
	}
	return found
}

// found reports whether any file has code.
func (c *yamlCode) found() bool { return c.manifests != nil || len(c.tasks) > 0 }

// reading judges all files together: a subnet of one may carry the pods of a cluster in another.
func (c *yamlCode) reading(known []Carrier) *Reading {
	out, told := &Reading{}, map[string]bool{}
	var parts []*Reading
	var tasks []*ansible
	if c.manifests != nil {
		parts = append(parts, c.manifests.collect())
	}
	for _, name := range slices.Sorted(maps.Keys(c.tasks)) {
		a := collectAnsible(c.tasks[name], name, c.there, c.budget)
		tasks = append(tasks, a)
		parts = append(parts, a.codeReading.reading)
	}
	for _, p := range parts {
		known = append(known[:len(known):len(known)], p.Carriers...)
	}
	if c.manifests != nil {
		c.manifests.judge(false, known)
	}
	for _, a := range tasks {
		a.judge(true, known)
	}
	for _, p := range parts {
		switch {
		case out.Format == "":
			out.Format = p.Format
		case out.Format != p.Format && !strings.Contains(string(out.Format), " and "):
			out.Format += " and " + p.Format
		}
		for _, e := range p.Effects { // two plays may run the same role
			if key := fmt.Sprint(e.Verb, e.What.ID.Key(), e.By, e.How); !told[key] {
				out.Effects = append(out.Effects, e)
				told[key] = true
			}
		}
		for _, n := range p.Notes {
			if key := fmt.Sprint(n.Place, n.Text); !told[key] {
				out.Notes = append(out.Notes, n)
				told[key] = true
			}
		}
		out.Carriers = append(out.Carriers, p.Carriers...)
		out.Subnets = append(out.Subnets, p.Subnets...)
		out.Given = append(out.Given, p.Given...)
		out.Open = append(out.Open, p.Open...)
	}
	return out
}

// IsYAML reports whether the files are Ansible tasks or Kubernetes manifests.
func (r *Reading) IsYAML() bool {
	return strings.HasPrefix(string(r.Format), string(AnsibleTasks)) ||
		strings.HasPrefix(string(r.Format), string(Manifests))
}
