package iac

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// How it works. ansible.go walks the plays, blocks and tasks of a file in their order and finds the
// tasks of azure.azcollection; ansiblemodules.go says what each module does to subnets and tables.
//
// Values count as written. An expression is not evaluated: its variables come from inventories,
// roles, other tasks and the command line. If something depends on an expression, it is unknown,
// and a note or a finding says so. Each file is read alone, no matter which files include it.

// ansible reads a file of plays or tasks.
type ansible struct {
	*codeReading
	file  string
	there map[string]bool // files and roles of the folder; nil if the file was named alone
	// registered are the subnets of tasks by the variable that the task registers.
	registered map[string]arm.ID
	clusters   map[string]aksNetwork // by name, in lower case
	later      []func()              // work that needs all clusters
}

// scope has what applies to a task because of its place in the file.
type scope struct {
	defaults []*yamltree.Value // module_defaults, the innermost last
	maybe    []string
	check    bool
}

// inside has the keys of a play or block that contain tasks, in the order in which Ansible runs
// them, with what must happen first.
var inside = []struct{ key, first string }{{"pre_tasks", ""}, {"tasks", ""}, {"post_tasks", ""},
	{"handlers", notified}, {"block", ""}, {"rescue", "a task of its block fails"}, {"always", ""}}

const notified = "a task notifies the handler"

// structure has the keys by which a list of maps is recognised as plays or tasks, without the name
// of a collection. So are the modules.
var structure = []string{"hosts", "import_playbook", "block", "include_tasks", "import_tasks",
	"include_role", "import_role", "set_fact", "debug", "command", "shell", "include_vars",
	"assert", "action", "local_action"}

// isAnsible reports whether a document is a list of plays or tasks.
func isAnsible(doc *yamltree.Value) bool {
	if !doc.Is(yamltree.List) || len(doc.Items) == 0 {
		return false
	}
	known := false
	for _, item := range doc.Items {
		if !item.Is(yamltree.Map) {
			return false
		}
		for _, m := range item.Members {
			name := shortModule(m.Key)
			known = known || slices.Contains(structure, name) || modules[name] != nil ||
				strings.Count(m.Key, ".") == 2 && m.Value.Is(yamltree.Map)
		}
	}
	return known
}

// shortModule returns a module's name without its collection.
func shortModule(key string) string {
	for _, collection := range []string{"azure.azcollection.", "ansible.builtin.",
		"ansible.legacy."} {
		key = strings.TrimPrefix(key, collection)
	}
	return key
}

// rolePart is the part of a task file's name that names its role.
var rolePart = lazy.Regexp(`([^/]+)/(tasks|handlers)/`)

// markThere records a file of a folder under the names by which others include it: as a file, and
// as a role.
func markThere(there map[string]bool, file string) {
	there[path.Base(file)] = true
	if role := rolePart().FindStringSubmatch(file); role != nil {
		there["the role "+role[1]] = true
	}
}

// collectAnsible reads the plays or tasks of a file. Its subnets are judged when all files are
// read.
func collectAnsible(docs []*yamltree.Value, file string, there map[string]bool,
	b *budget) *ansible {
	a := &ansible{codeReading: newCodeReading(AnsibleTasks, b), file: file, there: there,
		registered: map[string]arm.ID{}, clusters: map[string]aksNetwork{}}
	s := scope{}
	if path.Base(path.Dir(file)) == "handlers" {
		s.maybe = []string{notified}
	}
	for _, doc := range docs {
		for _, item := range doc.List() {
			a.read(item, s)
		}
	}
	for _, do := range a.later {
		do()
	}
	for _, s := range a.subnets {
		s.place = anyNetwork(s.place)
	}
	for i, p := range a.reading.Subnets {
		a.reading.Subnets[i] = anyNetwork(p)
	}
	for i, c := range a.reading.Carriers {
		a.reading.Carriers[i].Place = anyNetwork(c.Place)
	}
	if b.steps < 0 {
		a.note(Place{File: file, Line: 1}, true, "there are so many tasks that not all of them "+
			"were read")
	}
	return a
}

// anyNetwork removes a network that is an expression, because it may be any network.
func anyNetwork(p Place) Place {
	if strings.Contains(p.VNet, "{") {
		p.VNet = ""
	}
	return p
}

// read reads a play, block or task.
func (a *ansible) read(v *yamltree.Value, s scope) {
	if !v.Is(yamltree.Map) || !a.budget.take(1) {
		return
	}
	if s = s.within(v); s.check || truth(v.Get("when")) == -1 {
		return // it writes nothing
	}
	for _, role := range v.Get("roles").List() {
		a.includes(role,
			"the role "+cmp.Or(role.String(), role.Get("role").String(), role.Get("name").String()))
	}
	for _, tasks := range inside {
		inner := s
		if tasks.first != "" {
			inner.maybe = s.provided(tasks.first)
		}
		for _, item := range v.Get(tasks.key).List() {
			a.read(item, inner)
		}
	}
	for _, m := range v.Members {
		module, args := shortModule(m.Key), m.Value
		switch module {
		case "import_playbook", "import_tasks", "include_tasks", "include":
			a.includes(v, cmp.Or(args.String(), args.Get("file").String()))
		case "import_role", "include_role":
			a.includes(v, "the role "+args.Get("name").String())
		case "action", "local_action":
			name, _, _ := strings.Cut(strings.TrimSpace(args.String()), " ")
			module = shortModule(cmp.Or(name, args.Get("module").String()))
		}
		if do := modules[module]; do != nil {
			a.task(v, s, module, args, do)
		}
	}
}

// within adds what a play, block or task sets for its contents.
func (s scope) within(v *yamltree.Value) scope {
	if defaults := v.Get("module_defaults"); defaults != nil {
		s.defaults = append(slices.Clip(s.defaults), defaults)
	}
	if check := v.Get("check_mode"); check != nil {
		s.check = truth(check) == 1
	}
	for _, c := range listOf(v.Get("when")) {
		if truth(c) != 1 {
			s.maybe = s.provided("its condition holds (" + strings.Trim(unknownName(c.String()),
				"{}") + ")")
		}
	}
	for _, tag := range listOf(v.Get("tags")) {
		if tag.String() == "never" {
			s.maybe = s.provided("it is asked for by its tag (never)")
		}
	}
	return s
}

// listOf returns a list, or a single value as one.
func listOf(v *yamltree.Value) []*yamltree.Value {
	if v == nil || v.Is(yamltree.List) {
		return v.List()
	}
	return []*yamltree.Value{v}
}

// mostConditions limits the conditions that are named.
const mostConditions = 10

// provided adds the conditions of the task.
func (s scope) provided(that string) []string {
	switch len(s.maybe) {
	case mostConditions:
		that = "more conditions hold"
	case mostConditions + 1:
		return s.maybe
	}
	return append(slices.Clip(s.maybe), that)
}

// truth returns 1 for what YAML 1.1 takes for true, -1 for false, and 0 for anything else.
func truth(v *yamltree.Value) int {
	switch strings.ToLower(v.String()) {
	case "true", "yes", "on":
		return 1
	case "false", "no", "off":
		return -1
	}
	return 0
}

// includes notes that included files are not read.
func (a *ansible) includes(at *yamltree.Value, what string) {
	where := "which is not checked with this file: name its file or the folder, too"
	if a.there != nil {
		where = "which was not found in the folder"
	}
	role, isRole := strings.CutPrefix(what, "the role ")
	if isRole && a.there["the role "+path.Base(role)] || !isRole && a.there[path.Base(what)] ||
		!a.budget.take(1) {
		return
	}
	a.note(Place{File: a.file, Line: at.Line}, false, "includes %s, %s", what, where)
}

// ansibleTask is one task.
type ansibleTask struct {
	*ansible
	maybe    []string
	register string
	by       Place
	args     map[string]*yamltree.Value
}

// task reads a task of a module that matters. Its arguments win over its args, and these over
// defaults.
func (a *ansible) task(task *yamltree.Value, s scope, module string, args *yamltree.Value,
	do func(*ansibleTask)) {
	t := &ansibleTask{ansible: a, maybe: s.maybe, register: task.Get("register").String(),
		by:   Place{Address: module, File: a.file, Line: task.Line},
		args: map[string]*yamltree.Value{}}
	if name := shown(task.Get("name")); name != "" {
		t.by.Address = fmt.Sprintf("%s (%s)", module, name)
	}
	var all []*yamltree.Value
	for _, defaults := range s.defaults {
		if !a.budget.take(len(defaults.Members) / 8) { // they are searched
			return
		}
		for _, group := range []string{"group/azure", "group/azure.azcollection.azure", module,
			"azure.azcollection." + module} {
			all = append(all, defaults.Get(group))
		}
	}
	for _, given := range append(all, task.Get("args"), args) {
		switch {
		case given.Missing():
		case !given.Is(yamltree.Map):
			t.note(t.by, true, "its arguments are text or an expression, which is not evaluated, "+
				"so what it does to a route table is unknown: check the resource in Azure "+
				"afterwards")
			return
		case !a.budget.take(len(given.Members)):
			return
		default:
			for _, m := range given.Members {
				t.args[m.Key] = m.Value
			}
		}
	}
	t.unknown("state", "absent deletes the resource")
	do(t)
}

// isExpression reports whether the code does not show a value. It may be an expression of Jinja, or
// something that only a program can decode, such as an encrypted value.
func isExpression(v *yamltree.Value) bool {
	return v.Is(yamltree.Unknown) || v.Is(yamltree.Scalar) &&
		(strings.Contains(v.Text, "{{") || strings.Contains(v.Text, "{%"))
}

// shown returns the text of a scalar; an expression is in braces.
func shown(v *yamltree.Value) string {
	if isExpression(v) {
		return unknownName(v.Text)
	}
	return v.String()
}

// arg returns the argument with one of some names, nil if there is none.
func (t *ansibleTask) arg(names ...string) *yamltree.Value {
	for _, name := range names {
		if v := t.args[name]; v != nil {
			return v
		}
	}
	return nil
}

func (t *ansibleTask) text(names ...string) string { return shown(t.arg(names...)) }

func (t *ansibleTask) absent() bool { return strings.EqualFold(t.text("state"), "absent") }

// provided returns the conditions on which a task depends.
func (t *ansibleTask) provided() string {
	if len(t.maybe) == 0 {
		return ""
	}
	return ", provided that " + strings.Join(t.maybe, ", and ")
}

// unknown reports whether an argument is an expression, and notes what is unknown because of it.
func (t *ansibleTask) unknown(name, open string) bool {
	return t.isUnknown(name, t.args[name], open)
}

func (t *ansibleTask) isUnknown(name string, v *yamltree.Value, open string) bool {
	if !isExpression(v) {
		return false
	}
	t.note(t.by, true, "%s is an expression, which is not evaluated (%s): %s", name,
		strings.Trim(unknownName(v.Text), "{}"), open)
	return true
}
