package iac

import (
	"regexp"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/yamltree"
)

// jinja evaluates the few expressions of Ansible that need nothing but the files: names of
// variables that plays, blocks, tasks, loops and the files of ansiblevars.go set, their members,
// and the filter default. Everything else is unknown.
//
// The command line (-e) can override what files set, as parameters override the defaults of a
// template. The file's values count.
type jinja struct {
	vars  map[string]*yamltree.Value
	outer *jinja
	steps *left
	// params win over vars, and over them shared.facts; defaults are for what nothing else sets.
	params, defaults *jinja
	shared           *sharedVars
}

// sharedVars are the variables that do not depend on where an expression stands.
type sharedVars struct {
	facts map[string]*yamltree.Value // of set_fact and include_vars
	// doubts are variables of hosts that are not known, with the reason; used are the ones that
	// an expression asked for.
	doubts map[string]*yamltree.Value
	used   map[string]bool
}

func newJinja(steps *left) *jinja {
	return &jinja{steps: steps, shared: &sharedVars{facts: map[string]*yamltree.Value{},
		doubts: map[string]*yamltree.Value{}, used: map[string]bool{}}}
}

// longestText limits a text that expressions make longer.
const longestText = 8 << 10

// with returns a scope inside this one.
func (j *jinja) with(vars *yamltree.Value) *jinja {
	if vars == nil || len(vars.Members) == 0 {
		return j
	}
	return j.layer(members(vars))
}

func members(v *yamltree.Value) map[string]*yamltree.Value {
	out := map[string]*yamltree.Value{}
	for _, m := range v.Members {
		out[m.Key] = m.Value
	}
	return out
}

// layer is with for variables by their names.
func (j *jinja) layer(vars map[string]*yamltree.Value) *jinja {
	inner := *j
	inner.vars, inner.outer = vars, j
	return &inner
}

// given returns a scope with parameters of a role or an include.
func (j *jinja) given(params *yamltree.Value) *jinja {
	if params == nil || len(params.Members) == 0 {
		return j
	}
	inner := *j
	inner.params = &jinja{vars: members(params), outer: j.params}
	return &inner
}

// byDefault returns a scope with defaults of a role.
func (j *jinja) byDefault(vars *yamltree.Value) *jinja {
	inner := *j
	inner.defaults = &jinja{vars: members(vars), outer: j.defaults}
	return &inner
}

func (j *jinja) lookup(name string) *yamltree.Value {
	if v := j.params.find(name); v != nil {
		return v
	}
	if v := j.shared.facts[name]; v != nil {
		return v
	}
	v := j.find(name)
	if v == nil {
		return j.defaults.find(name)
	}
	if v.Is(yamltree.Unknown) && j.shared.doubts[name] != nil {
		j.shared.used[name] = true
	}
	return v
}

func (j *jinja) find(name string) *yamltree.Value {
	for ; j != nil; j = j.outer {
		if v := j.vars[name]; v != nil {
			return v
		}
	}
	return nil
}

// answer is the value of an expression: a value, nothing (omitted), or unknown with its text.
type answer struct {
	value   *yamltree.Value
	omitted bool
	unknown string
	// shown is an unknown text with its known parts.
	shown string
	// empty is set if an unknown value may be nothing.
	empty bool
}

// text is the text of a scalar, or what stands for an unknown one.
func (a answer) text() string {
	switch {
	case a.shown != "":
		return a.shown
	case a.unknown != "":
		return unknownName(a.unknown)
	}
	return a.value.String()
}

// missing reports whether there is certainly no value.
func (a answer) missing() bool {
	return a.unknown == "" && (a.omitted || a.value.Missing() ||
		a.value.Is(yamltree.Scalar) && strings.TrimSpace(a.value.Text) == "")
}

var (
	whole      = regexp.MustCompile(`(?s)^\{\{(.*)\}\}$`)
	expression = regexp.MustCompile(`(?s)\{\{(.*?)\}\}`)
	reference  = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*|\['[^']*'\]|\["[^"]*"\])*$`)
	memberStep = regexp.MustCompile(`\.[A-Za-z_]\w*|\['[^']*'\]|\["[^"]*"\]`)
	byDefault  = regexp.MustCompile(`^(?:default|d)\(\s*(omit|'[^']*'|"[^"]*"|none|None)\s*` +
		`(,\s*(?:true|True|boolean=[tT]rue))?\s*\)$`)
	// mayBeEmpty are the words by which an expression can have no value.
	mayBeEmpty = regexp.MustCompile(`\b(omit|default|d|none|None|if|ternary)\b`)
)

// eval evaluates a value.
func (j *jinja) eval(v *yamltree.Value) answer { return j.evalDeep(v, 10) }

func (j *jinja) evalDeep(v *yamltree.Value, depth int) answer {
	switch {
	case v == nil:
		return answer{omitted: true}
	case v.Kind == yamltree.Unknown:
		return answer{unknown: v.Text, empty: true}
	case v.Kind != yamltree.Scalar || !strings.Contains(v.Text, "{{") &&
		!strings.Contains(v.Text, "{%"):
		return answer{value: v}
	}
	if !j.steps.step(1) || depth == 0 {
		return answer{unknown: v.Text, empty: true}
	}
	text := strings.TrimSpace(v.Text)
	inner := whole.FindStringSubmatch(text)
	if inner != nil && !strings.Contains(inner[1], "}}") && !strings.Contains(text, "{%") {
		return j.expression(inner[1], v.Line, depth)
	}
	if strings.Contains(text, "{%") {
		return answer{unknown: text, empty: true}
	}
	known, size := true, len(text)
	text = expression.ReplaceAllStringFunc(text, func(e string) string {
		if size > longestText {
			known = false
			return ""
		}
		a := j.expression(e[2:len(e)-2], v.Line, depth)
		size += len(a.text())
		known = known && a.unknown == "" && !a.omitted && a.value.Is(yamltree.Scalar)
		if a.unknown == "" && !a.value.Is(yamltree.Scalar) {
			return unknownName(e)
		}
		return a.text()
	})
	if !known {
		return answer{unknown: v.Text, shown: text}
	}
	return answer{value: &yamltree.Value{Kind: yamltree.Scalar, Line: v.Line, Text: text}}
}

// expression evaluates what stands between two braces.
func (j *jinja) expression(text string, line, depth int) answer {
	unknown := answer{unknown: strings.TrimSpace(text), empty: mayBeEmpty.MatchString(text)}
	steps := strings.Split(text, "|") // a | in quotes makes a step that is not understood
	name := strings.TrimSpace(steps[0])
	if name == "omit" && len(steps) == 1 {
		return answer{omitted: true}
	}
	if !reference.MatchString(name) {
		return unknown
	}
	var found *yamltree.Value
	root := name
	if at := strings.IndexAny(name, ".["); at > 0 {
		root = name[:at]
	}
	switch found = j.lookup(root); {
	case found == nil:
		return unknown // something else sets it
	default:
		a := j.evalDeep(found, depth-1)
		for _, step := range memberStep.FindAllString(name[len(root):], -1) {
			if a.unknown != "" || a.value == nil || a.value.Kind != yamltree.Map {
				return unknown
			}
			a = j.evalDeep(a.value.Get(strings.Trim(step, `.[]'"`)), depth-1)
			if a.omitted {
				break
			}
		}
		if a.unknown != "" {
			a.empty = a.empty || unknown.empty
			return a
		}
		found = a.value
	}
	for _, filter := range steps[1:] {
		filter = strings.TrimSpace(filter)
		given := byDefault.FindStringSubmatch(filter)
		switch {
		case filter == "string" || filter == "mandatory" || filter == "trim":
		case given == nil:
			return unknown
		case found != nil && (given[2] == "" || !(answer{value: found}).missing()):
			// null is defined; only with true, the filter replaces what is empty
		case given[1] == "omit":
			return answer{omitted: true}
		default:
			found = &yamltree.Value{Kind: yamltree.Scalar, Line: line,
				Text: strings.Trim(given[1], `'"`)}
			if given[1] == "none" || given[1] == "None" {
				found = &yamltree.Value{Line: line}
			}
		}
	}
	if found == nil {
		return unknown // Ansible stops here
	}
	return answer{value: found}
}

// eachItem calls a function for each item of a task's loop, in its scope, or once without a loop.
// If the items are unknown, it calls it once, and expressions with the item are unknown.
func (j *jinja) eachItem(task *yamltree.Value, do func(*jinja)) {
	list := task.Get("loop")
	for _, m := range task.Members {
		if strings.HasPrefix(m.Key, "with_") {
			list = m.Value
			if m.Key != "with_items" {
				list = nil // other lookups make their items
			}
		}
	}
	items := j.eval(list)
	if list == nil || items.unknown != "" || !items.value.Is(yamltree.List) {
		do(j)
		return
	}
	name := task.At("loop_control", "loop_var").String()
	if name == "" {
		name = "item"
	}
	for _, item := range items.value.Items {
		if !j.steps.step(1) {
			return
		}
		do(j.with(&yamltree.Value{Members: []yamltree.Member{{Key: name, Value: item}}}))
	}
}
