package iac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
)

// TemplateFix is the repair of a template or of Bicep: what was changed and what was left, one
// sentence each.
type TemplateFix struct {
	Edit
	Done, Left []string
}

// FixTemplate repairs the text of an ARM template, and keeps layout and comments. A subnet that
// would lose its table gets the table that the template gives it elsewhere, or its present one,
// read by a nested deployment. A network that deletes subnets because it lists none gets an
// api-version that keeps them. Each repair is checked by reading the result; a second run changes
// nothing.
func FixTemplate(file File, o TemplateOptions) (*TemplateFix, error) {
	fix := &TemplateFix{Edit: Edit{File: file.Name, Before: file.Data, After: file.Data}}
	tried := map[string]bool{}
	for {
		t, err := evaluateTemplate(File{file.Name, fix.After}, o)
		if err != nil {
			return nil, err
		}
		s := t.next(tried)
		if s == nil {
			return fix, nil
		}
		after, done, err := t.repair(s)
		if err == nil {
			err = t.checkRepair(after, s)
		}
		if err != nil {
			fix.Left = append(fix.Left, fmt.Sprintf("%s: %v", s.place.subnetName(), err))
			continue
		}
		fix.After, fix.Done = after, append(fix.Done, done)
	}
}

// next returns a subnet with a problem that was not tried yet.
func (t *armReading) next(tried map[string]bool) *templateSubnet {
	for _, s := range t.subnets {
		if key := s.place.ID.Key() + string(s.verb); s.lost != nil && s.verb != MayLose &&
			!tried[key] {
			tried[key] = true
			return s
		}
	}
	return nil
}

// checkRepair checks that a repair helps its subnet and breaks nothing else.
func (t *armReading) checkRepair(after []byte, s *templateSubnet) error {
	now, err := evaluateTemplate(File{t.file.Name, after}, t.options)
	if err != nil {
		return fmt.Errorf("the repair would break the template: %w", err)
	}
	if repaired := now.byID[s.place.ID.Key()]; repaired != nil && repaired.lost != nil {
		return fmt.Errorf("found no repair: see the findings of iac check")
	}
	if len(now.reading.Effects) >= len(t.reading.Effects) ||
		len(now.reading.Notes) > len(t.reading.Notes) {
		return fmt.Errorf("the repair would break something else")
	}
	return nil
}

// repair makes the change for one subnet.
func (t *armReading) repair(s *templateSubnet) (after []byte, done string, err error) {
	w := *s.lost
	if t.root.Object("metadata").Object("_generator").Text("name") == "bicep" {
		return nil, "", fmt.Errorf("the template is compiled: repair its .bicep source")
	}
	switch {
	case w.outcome == deletes:
		return t.repairVersion(w.by)
	case w.outcome == doubts:
		return nil, "", fmt.Errorf("its routeTable is unknown: %s", w.doubt)
	}
	value := w.subnet.Object("properties")
	properties := t.written(value)
	if properties == nil {
		return nil, "", errors.New("its properties are made by an expression")
	}
	for _, other := range t.subnets {
		for _, x := range other.writes {
			if other != s && t.written(x.subnet.Object("properties")) == properties {
				return nil, "", fmt.Errorf("its properties (line %d) are those of several "+
					"subnets: give each a routeTable there by its name", properties.Line)
			}
		}
	}
	edit := &textEdit{text: t.file.Data}
	for _, x := range s.writes { // as the template writes it elsewhere
		if other := t.written(x.subnet.Object("properties")); x.outcome == gives && other != nil &&
			sameTemplate(x.by, w.by) {
			if m := other.Member("routeTable"); m != nil &&
				!bytes.Contains(edit.text[m.From:m.To], []byte("copyIndex")) {
				edit.member(properties, "routeTable", string(edit.text[m.From:m.To]))
				return edit.done(), fmt.Sprintf("%s gets the routeTable that line %d gives it",
					s.place.subnetName(), m.Line), nil
			}
		}
	}
	if err := t.readFirst(edit, s, w, properties); err != nil {
		return nil, "", err
	}
	return edit.done(), fmt.Sprintf("%s gets its present route table: a nested deployment reads "+
		"it first. The subnet and its network must exist already", s.place.subnetName()), nil
}

// repairVersion changes the api-version of a network that lists no subnets, so that it keeps them.
func (t *armReading) repairVersion(r *armtemplate.Resource) ([]byte, string, error) {
	m := r.Source.Member("apiVersion")
	if r.Body.Object("properties").Get("subnets") != nil || r.APIVersion >= subnetsKept ||
		m == nil || r.Source.File != t.file.Name {
		return nil, "", fmt.Errorf("%s does not list it: list it there with its routeTable, or "+
			"list no subnets there at all", r.Address)
	}
	if text, is := m.Value.(string); !is || text != r.APIVersion {
		return nil, "", fmt.Errorf("the apiVersion of %s is an expression: let it give %s or later",
			r.Address, subnetsKept)
	}
	edit := &textEdit{text: t.file.Data}
	edit.replace(m.From, m.To, `"`+subnetsKept+`"`)
	return edit.done(), fmt.Sprintf("%s gets the apiVersion %s, which keeps subnets that it does "+
		"not list (line %d)", lastName(r.Name), subnetsKept, m.Line), nil
}

// written returns an object as written in the file, or nil if an evaluated object is written
// elsewhere.
func (t *armReading) written(value *armtemplate.Object) *armtemplate.Object {
	if value == nil || value.Line == 0 || value.File != t.file.Name {
		return nil
	}
	return objectAt(t.root, value.Start)
}

// objectAt finds the object that starts at an offset.
func objectAt(v any, start int) *armtemplate.Object {
	switch v := v.(type) {
	case *armtemplate.Object:
		if v.Start == start {
			return v
		}
		for _, m := range v.Members {
			if m.From <= start && start < m.To {
				return objectAt(m.Value, start)
			}
		}
	case []any:
		for _, item := range v {
			if o := objectAt(item, start); o != nil {
				return o
			}
		}
	}
	return nil
}

// sameTemplate reports whether two resources are in one template, so that an expression means the
// same in both.
func sameTemplate(a, b *armtemplate.Resource) bool {
	in := func(r *armtemplate.Resource) string {
		return r.Address[:strings.LastIndex(r.Address, "properties.template.")+1]
	}
	return in(a) == in(b) && !a.Looped && !b.Looped
}

// readFirst adds a nested deployment that reads the subnet before it is written, and passes on its
// table.
func (t *armReading) readFirst(edit *textEdit, s *templateSubnet, w subnetWrite,
	properties *armtemplate.Object) error {
	r := w.by
	version, literal := r.Source.Get("apiVersion").(string)
	switch {
	case r.Looped || r.Nested:
		return fmt.Errorf("%s is one of the copies of a loop, or part of another resource: give "+
			"the subnet its routeTable there", r.Address)
	case !literal || version != r.APIVersion || r.Source.File != t.file.Name:
		return fmt.Errorf("%s uses expressions that cannot be changed safely", r.Address)
	}
	vnet, name := t.source(edit, r.Source, "name"), ""
	if w.inline() {
		name = t.source(edit, t.written(w.subnet), "name")
	} else {
		vnet, name = halves(vnet)
	}
	if vnet == "" || name == "" || strings.Contains(vnet+name, "copyIndex") {
		return fmt.Errorf("its name is an expression, so its present table cannot be read first")
	}
	i := strings.LastIndex(r.Address, "resources.")
	symbolic := i >= 0 && !strings.HasSuffix(r.Address, "]")
	deployment, symbol := deploymentName(s.place.Name, symbolic), ""
	// Another network has a subnet of that name, and its deployment has taken the name: use both
	// the network's and the subnet's.
	if bytes.Contains(edit.text, []byte(`"`+deployment+`"`)) {
		deployment = deploymentName(s.place.VNet+"-"+s.place.Name, symbolic)
	}
	if symbolic {
		symbol = deployment
	}
	condition := ""
	if m := r.Source.Member("condition"); m != nil {
		condition = `"condition": ` + string(edit.text[m.From:m.To]) + `, `
	}
	doc := fmt.Sprintf(
		`{%s"type": "Microsoft.Resources/deployments", "apiVersion": "2022-09-01", "name": %q, "properties": {
		"mode": "Incremental", "expressionEvaluationOptions": {"scope": "inner"}, "parameters": {"network": {"value": %s}, "subnet": {"value": %s}},
		"template": {"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", "contentVersion": "1.0.0.0",
			"parameters": {"network": {"type": "string"}, "subnet": {"type": "string"}}, "resources": [],
			"outputs": {"present": {"type": "object", "value": "[reference(resourceId('Microsoft.Network/virtualNetworks/subnets', parameters('network'), parameters('subnet')), '%s')]"}}}}}`,
		condition, deployment, vnet, name, version)
	at := r.Source.Start
	if symbol != "" {
		at = edit.nameBefore(at)
		doc = fmt.Sprintf("%q: %s", symbol, doc)
	}
	edit.before(at, doc)
	edit.member(properties, "routeTable",
		fmt.Sprintf(`"[tryGet(reference('%s').outputs.present.value, 'routeTable')]"`, deployment))
	return nil
}

// source returns a member's value as written, "" if it is not text.
func (t *armReading) source(edit *textEdit, o *armtemplate.Object, name string) string {
	m := o.Member(name)
	if m == nil {
		return ""
	}
	if _, is := m.Value.(string); !is {
		return ""
	}
	return string(edit.text[m.From:m.To])
}

// halves splits the written name of a separate subnet, network/subnet.
func halves(raw string) (vnet, name string) {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return "", ""
	}
	quote := func(s string) string {
		out, _ := json.Marshal(s) // strings always marshal
		return string(out)
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") &&
		!strings.HasPrefix(text, "[[") {
		inner := text[1 : len(text)-1]
		return quote("[first(split(" + inner + ", '/'))]"), quote("[last(split(" + inner +
			", '/'))]")
	}
	vnet, name, both := strings.Cut(text, "/")
	if !both {
		return "", ""
	}
	return quote(vnet), quote(name)
}

// deploymentName returns the name of the deployment that reads a subnet; it is also a valid symbol
// if the template needs one.
func deploymentName(subnet string, symbolic bool) string {
	name := "keep-route-table-" + plainName(subnet)
	if symbolic {
		name = "keepRouteTable_" + strings.ReplaceAll(plainName(subnet), "-", "_")
	}
	return strings.TrimRight(name[:min(len(name), maxDeploymentName)], "-_")
}

// maxDeploymentName is the maximum length of a deployment's name.
const maxDeploymentName = 64

// plainName removes characters that the name of a deployment cannot have.
func plainName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name), "-")
}
