package iac

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
)

// How it works. ansible.go walks plays, blocks and tasks in their order and finds the tasks of
// azure.azcollection; jinja.go evaluates expressions; ansiblevars.go finds roles and variables in a
// folder; ansiblemodules.go says what each module does to subnets and tables.

// ansible reads playbooks and files of tasks.
type ansible struct {
	*codeReading
	tree *ansibleTree // of the folder, nil for a single file
	// registered are the subnets of tasks by the variable that the task registers.
	registered map[string]arm.ID
	clusters   map[string]aksNetwork // by name, in lower case
	later      []func()              // what needs all clusters
}

// scope is what holds for a task because of where it stands.
type scope struct {
	*jinja
	file, playbook string
	role           string            // its folder, "" for none
	depth          int               // of includes
	defaults       []*yamltree.Value // module_defaults, the innermost last
	maybe          []string
	check          bool
}

// inPlay are the keys of a play that hold tasks, in the order in which Ansible runs them.
var inPlay = []string{"pre_tasks", "roles", "tasks", "post_tasks", "handlers"}

// structure are keys by which a list of maps is recognised as plays or tasks, without the name of a
// collection.
var structure = []string{"hosts", "import_playbook", "block", "include_tasks", "import_tasks",
	"include_role", "import_role", "set_fact", "azure_rm_subnet", "azure_rm_aks",
	"azure_rm_routetable", "azure_rm_virtualnetwork", "azure_rm_appgateway", "debug", "command",
	"shell", "include_vars", "assert", "action", "local_action"}

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
			known = known || slices.Contains(structure, shortModule(m.Key)) ||
				strings.Count(m.Key, ".") == 2 && m.Value.Is(yamltree.Map)
		}
	}
	return known
}

// shortModule is a module's name without its collection.
func shortModule(key string) string {
	for _, collection := range []string{"azure.azcollection.", "ansible.builtin.",
		"ansible.legacy."} {
		key = strings.TrimPrefix(key, collection)
	}
	return key
}

// collectAnsible reads the plays or tasks of a file, and of the tree what they include. Its subnets
// are judged when all files are read.
func collectAnsible(docs []*yamltree.Value, file string, tree *ansibleTree, left *left) *ansible {
	a := &ansible{codeReading: newCodeReading(AnsibleTasks, left), tree: tree,
		registered: map[string]arm.ID{}, clusters: map[string]aksNetwork{}}
	start := scope{jinja: newJinja(left), file: file, playbook: file}
	a.plays(docs, start)
	for _, do := range a.later {
		do()
	}
	if left.steps < 0 {
		a.note(Place{File: file, Line: 1}, true, "there are so many tasks and expressions that "+
			"not all of them were read")
	}
	for _, name := range slices.Sorted(maps.Keys(start.shared.used)) {
		a.note(Place{File: file, Line: 1}, false, "the variable %s is not known: it depends on "+
			"the inventory, and on which of these apply: %s", name,
			start.shared.doubts[name].Text)
	}
	return a
}

// plays reads the plays or tasks of a file.
func (a *ansible) plays(docs []*yamltree.Value, s scope) {
	for _, doc := range docs {
		for _, item := range doc.List() {
			if item.Get("hosts") != nil || shortModule(firstKey(item)) == "import_playbook" {
				a.play(item, s)
				continue
			}
			inner := a.forHosts(s, s.file, "")
			if dir := roleOf(s.file); dir != "" && a.tree != nil {
				inner = a.inRole(inner, dir)
			}
			a.task(item, inner)
		}
	}
}

func firstKey(v *yamltree.Value) string {
	if v == nil || len(v.Members) == 0 {
		return ""
	}
	return v.Members[0].Key
}

// inside returns the scope of what stands in a play, block or task.
func (s scope) inside(v *yamltree.Value) scope {
	s.jinja = s.with(v.Get("vars"))
	if defaults := v.Get("module_defaults"); defaults != nil {
		s.defaults = append(slices.Clip(s.defaults), defaults)
	}
	if check := v.Get("check_mode"); check != nil {
		s.check = truth(check) == 1
	}
	conditions := v.Get("when")
	if conditions.Is(yamltree.List) {
		for _, c := range conditions.Items {
			s.maybe = s.when(c)
		}
	} else if conditions != nil {
		s.maybe = s.when(conditions)
	}
	tags := v.Get("tags")
	for _, tag := range append(slices.Clip(tags.List()), tags) {
		if tag.String() == "never" {
			s.maybe = s.provided("it is asked for by its tag (never)")
		}
	}
	return s
}

// when adds a condition. One that is always true adds nothing.
func (s scope) when(condition *yamltree.Value) []string {
	if truth(condition) == 1 {
		return s.maybe
	}
	return s.provided("its condition holds (" +
		strings.Trim(unknownName(condition.String()), "{}") + ")")
}

// mostConditions limits the conditions that are named.
const mostConditions = 10

// provided adds what has to hold for the task.
func (s scope) provided(that string) []string {
	switch len(s.maybe) {
	case mostConditions:
		that = "more conditions hold"
	case mostConditions + 1:
		return s.maybe
	}
	return append(slices.Clip(s.maybe), that)
}

// truth is 1 for what YAML 1.1 takes for true, -1 for false, and 0 for anything else.
func truth(v *yamltree.Value) int {
	switch strings.ToLower(v.String()) {
	case "true", "yes", "on":
		return 1
	case "false", "no", "off":
		return -1
	}
	return 0
}

func (a *ansible) play(play *yamltree.Value, s scope) {
	if name := includedBy(play); name != "" {
		file := path.Join(path.Dir(s.file), name)
		if a.tree != nil && a.tree.hasTasks(file) && s.depth < deepestInclude {
			a.tree.read[file] = true
			s.file, s.playbook, s.depth = file, file, s.depth+1
			s = s.inside(play)
			a.plays(a.tree.tasks[file], s)
			return
		}
		a.included(play, s, name)
		return
	}
	s = a.forHosts(s, s.playbook, play.Get("hosts").String())
	s = s.inside(play)
	s = a.varsFiles(s, play)
	for _, key := range inPlay {
		inner := s
		if key == "handlers" {
			inner.maybe = s.provided("a task notifies the handler")
		}
		for _, item := range play.Get(key).List() {
			if key != "roles" {
				a.task(item, inner)
				continue
			}
			name := item.String()
			if name == "" {
				name = item.Get("role").String() + item.Get("name").String()
			}
			called := inner.inside(item)
			called.jinja = called.given(roleParams(item))
			if !a.includeRole(called, name, "") {
				a.included(item, inner, "the role "+name)
			}
		}
	}
}

// includes are the modules that read other files.
var includes = []string{"import_playbook", "import_tasks", "include_tasks", "import_role",
	"include_role", "include"}

// includedBy says which file or role a task or play includes, "" if none.
func includedBy(v *yamltree.Value) string {
	for _, m := range v.Members {
		short := shortModule(m.Key)
		switch {
		case !slices.Contains(includes, short):
		case strings.HasSuffix(short, "_role"):
			return "the role " + m.Value.Get("name").String()
		case m.Value.Is(yamltree.Map):
			return m.Value.Get("file").String()
		default:
			return m.Value.String()
		}
	}
	return ""
}

// included notes that what a file includes is not read.
func (a *ansible) included(at *yamltree.Value, s scope, what string) {
	if !a.left.step(1) {
		return
	}
	if a.tree != nil {
		a.note(Place{File: s.file, Line: at.Line}, false, "includes %s, which is not in the folder",
			what)
		return
	}
	a.note(Place{File: s.file, Line: at.Line}, false, "includes %s, which is not checked with "+
		"this file: name its file or the folder, too", what)
}

// follow reads what a task includes. It returns false if the folder does not have it.
func (a *ansible) follow(task *yamltree.Value, s scope) bool {
	for _, m := range task.Members {
		short := shortModule(m.Key)
		if !slices.Contains(includes, short) {
			continue
		}
		if strings.HasPrefix(short, "include") {
			s.jinja = s.given(task.Get("vars"))
		}
		if strings.HasSuffix(short, "_role") {
			name, tasks := s.eval(m.Value.Get("name")), s.eval(m.Value.Get("tasks_from"))
			return name.unknown == "" && tasks.unknown == "" &&
				a.includeRole(s, name.text(), tasks.text())
		}
		file := m.Value
		if m.Value.Is(yamltree.Map) {
			file = m.Value.Get("file")
		}
		name := s.eval(file)
		if a.tree == nil || name.unknown != "" {
			return false
		}
		return a.include(s, a.tree.named(a.tree.hasTasks,
			path.Join(path.Dir(s.file), name.text()), path.Join(s.role, "tasks", name.text()),
			path.Join(path.Dir(s.playbook), name.text())))
	}
	return false
}

// task reads a task or a block.
func (a *ansible) task(task *yamltree.Value, s scope) {
	if !task.Is(yamltree.Map) || !a.left.step(1) {
		return
	}
	s = s.inside(task)
	if s.check || truth(task.Get("when")) == -1 {
		return // it writes nothing
	}
	if what := includedBy(task); what != "" {
		found := false
		s.eachItem(task, func(j *jinja) {
			inner := s
			inner.jinja = j
			found = a.follow(task, inner) || found
		})
		if !found {
			a.included(task, s, what)
		}
		return
	}
	if task.Get("block") != nil {
		for _, key := range []string{"block", "rescue", "always"} {
			inner := s
			if key == "rescue" {
				inner.maybe = s.provided("a task of its block fails")
			}
			for _, item := range task.Get(key).List() {
				a.task(item, inner)
			}
		}
		return
	}
	a.sets(task, s)
	module, args := a.module(task)
	do := modules[module]
	if do == nil {
		return
	}
	s.eachItem(task, func(j *jinja) {
		inner := s
		inner.jinja = j
		t := &ansibleTask{ansible: a, scope: inner, task: task, module: module}
		t.by = Place{Address: module, File: s.file, Line: task.Line}
		if name := s.eval(task.Get("name")).text(); name != "" {
			t.by.Address = fmt.Sprintf("%s (%s)", module, name)
		}
		if t.collect(args) {
			do(t)
		}
	})
}

// module finds a task's module of azure.azcollection and its arguments.
func (a *ansible) module(task *yamltree.Value) (string, *yamltree.Value) {
	for _, m := range task.Members {
		short := shortModule(m.Key)
		switch {
		case modules[short] != nil:
			return short, m.Value
		case short != "action" && short != "local_action":
		case m.Value.Is(yamltree.Map):
			return shortModule(m.Value.Get("module").String()), m.Value
		default:
			name, rest, _ := strings.Cut(strings.TrimSpace(m.Value.String()), " ")
			return shortModule(name), &yamltree.Value{Kind: yamltree.Scalar, Text: rest,
				Line: m.Value.Line}
		}
	}
	return "", nil
}

// ansibleTask is one task, in one iteration of its loop.
type ansibleTask struct {
	*ansible
	scope
	task   *yamltree.Value
	module string
	by     Place
	args   map[string]*yamltree.Value
}

// collect gathers the arguments. Those of the task win over its args, and these over defaults. It
// returns false if they are unknown.
func (t *ansibleTask) collect(args *yamltree.Value) bool {
	t.args = map[string]*yamltree.Value{}
	add := func(v *yamltree.Value) bool {
		a := t.eval(v)
		if a.unknown != "" || a.value != nil && !t.left.step(len(a.value.Members)) {
			return false
		}
		if a.value.Is(yamltree.Map) {
			for _, m := range a.value.Members {
				t.args[m.Key] = m.Value
			}
		}
		return true
	}
	ok := true
	for _, defaults := range t.defaults {
		ok = ok && t.left.step(len(defaults.Members)/8) // they are searched
		for _, group := range []string{"group/azure", "group/azure.azcollection.azure", t.module,
			"azure.azcollection." + t.module} {
			ok = ok && add(defaults.Get(group))
		}
	}
	ok = ok && add(t.task.Get("args"))
	if text := args.String(); ok && text != "" && whole.FindString(strings.TrimSpace(text)) == "" {
		ok = t.words(text, args.Line)
	} else {
		ok = ok && add(args)
	}
	if !ok && t.left.steps >= 0 {
		t.note(t.by, true, "its arguments are not known, so what it does to a route table is "+
			"unknown: check the resource in Azure afterwards")
	}
	return ok
}

// words reads arguments as text: name=nodes resource_group=net.
func (t *ansibleTask) words(text string, line int) bool {
	if strings.ContainsAny(text, `"'{\`) {
		return false
	}
	for _, word := range strings.Fields(text) {
		key, value, is := strings.Cut(word, "=")
		if !is {
			return false
		}
		t.args[key] = &yamltree.Value{Kind: yamltree.Scalar, Text: value, Line: line}
	}
	return true
}

// arg evaluates the argument with one of some names.
func (t *ansibleTask) arg(names ...string) answer {
	for _, name := range names {
		if v := t.args[name]; v != nil {
			return t.eval(v)
		}
	}
	return answer{omitted: true}
}

// text is the text of an argument, with what is unknown in braces.
func (t *ansibleTask) text(names ...string) string { return t.arg(names...).text() }
