package iac

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/iac/yamltree"
)

// How it works. ansibleTree has the files of a folder that Ansible finds by their place: tasks,
// roles, and variables. Which hosts and groups a play runs for is in the inventory, which is not
// read. So a variable of group_vars and host_vars counts if it surely applies, unless another one
// that may apply has higher precedence and another value. Then the variable is unknown, and a note
// names it.
//
// The order is Ansible's (docs.ansible.com, "Understanding variable precedence"), from the lowest:
// defaults of roles; group_vars/all, group_vars/*, host_vars/*, each of the inventory before the
// one next to the playbook; vars, vars_prompt and vars_files of the play; vars of roles, of blocks,
// of tasks; include_vars and set_fact; parameters of roles and of includes.

// ansibleTree are the YAML files of a folder by their names.
type ansibleTree struct {
	tasks map[string][]*yamltree.Value // playbooks and files of tasks
	vars  map[string]*yamltree.Value   // files that are one map
	read  map[string]bool              // tasks that a play or other tasks include
	left  int                          // steps for included files
	// What is found out once, when all files are known: the folders of roles by their name, those
	// with playbooks, the files of hosts, and variables by where they are asked for.
	roles     map[string][]string
	playbooks map[string]bool
	hosts     []string
	merged    map[string]*yamltree.Value
	ofHosts   map[[2]string][2]map[string]*yamltree.Value
}

func newAnsibleTree() *ansibleTree {
	return &ansibleTree{tasks: map[string][]*yamltree.Value{},
		vars: map[string]*yamltree.Value{}, read: map[string]bool{}, left: 10 * mostSteps,
		roles: map[string][]string{}, playbooks: map[string]bool{},
		merged:  map[string]*yamltree.Value{},
		ofHosts: map[[2]string][2]map[string]*yamltree.Value{}}
}

// isPlaybook reports whether a file has plays.
func isPlaybook(docs []*yamltree.Value) bool {
	for _, doc := range docs {
		for _, item := range doc.List() {
			if item.Get("hosts") != nil || shortModule(firstKey(item)) == "import_playbook" {
				return true
			}
		}
	}
	return false
}

// collect reads the playbooks, and then the tasks that none of them includes.
func (tree *ansibleTree) collect(left *left) []*ansible {
	var out []*ansible
	names := slices.Sorted(maps.Keys(tree.tasks))
	for _, name := range names {
		if isPlaybook(tree.tasks[name]) {
			tree.playbooks[path.Dir(name)] = true
		}
		dir := roleOf(name)
		if known := tree.roles[path.Base(dir)]; dir != "" && !slices.Contains(known, dir) {
			tree.roles[path.Base(dir)] = append(known, dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tree.vars)) {
		if isHostFile(name) {
			tree.hosts = append(tree.hosts, name)
		}
	}
	for _, plays := range []bool{true, false} {
		for _, name := range names {
			if !tree.read[name] && isPlaybook(tree.tasks[name]) == plays {
				out = append(out, collectAnsible(tree.tasks[name], name, tree, left))
			}
		}
	}
	return out
}

// named returns the first of some files that are there, without or with an ending.
func (tree *ansibleTree) named(has func(string) bool, names ...string) string {
	for _, name := range names {
		for _, end := range []string{"", ".yml", ".yaml"} {
			if name = path.Clean(name); has(name + end) {
				return name + end
			}
		}
	}
	return ""
}

func (tree *ansibleTree) hasTasks(name string) bool { return tree.tasks[name] != nil }
func (tree *ansibleTree) hasVars(name string) bool  { return tree.vars[name] != nil }

// below merges the variables of a file, or of the files in a folder, in their order.
func (tree *ansibleTree) below(name string) *yamltree.Value {
	if file := tree.named(tree.hasVars, name); file != "" {
		return tree.vars[file]
	}
	out := tree.merged[name]
	if out == nil {
		out = &yamltree.Value{Kind: yamltree.Map}
		for _, file := range slices.Sorted(maps.Keys(tree.vars)) {
			if strings.HasPrefix(file, name+"/") {
				out.Members = append(out.Members, tree.vars[file].Members...)
			}
		}
		tree.merged[name] = out
	}
	return out
}

// roleOf is the folder of the role that a file of tasks belongs to, "" if none.
func roleOf(file string) string {
	for dir := path.Dir(file); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if base := path.Base(dir); base == "tasks" || base == "handlers" {
			return path.Dir(dir)
		}
	}
	return ""
}

// role is the folder of a role by its name: below the playbook's roles, or the only one of the
// name.
func (tree *ansibleTree) role(name, playbook string) string {
	found := tree.roles[path.Base(name)]
	if dir := path.Join(path.Dir(playbook), "roles", name); slices.Contains(found, dir) {
		return dir
	}
	if len(found) == 1 {
		return found[0]
	}
	return ""
}

// hostPlace splits the name of a file of group_vars or host_vars: the folder next to the playbook
// or inventory, the kind, and the group or host. Groups and hosts may have a folder of files.
func hostPlace(name string) (dir, kind, who string) {
	for range 2 {
		dir, who = path.Dir(path.Dir(name)), path.Base(name)
		if kind = path.Base(path.Dir(name)); kind == "group_vars" || kind == "host_vars" {
			return dir, kind, strings.TrimSuffix(strings.TrimSuffix(who, ".yml"), ".yaml")
		}
		name = path.Dir(name)
	}
	return "", "", ""
}

// isHostFile reports whether a file is one of group_vars or host_vars.
func isHostFile(name string) bool {
	_, kind, _ := hostPlace(name)
	return kind != "" && (isYAML(name) || path.Ext(name) == "")
}

// hostFile is a file of group_vars or host_vars, or a folder of them.
type hostFile struct {
	name  string // as notes show it
	rank  int    // of precedence
	sure  bool
	every bool // it applies to all hosts of its inventory
	vars  map[string]*yamltree.Value
}

// oneName is a pattern of hosts that names one host or group.
var oneName = regexp.MustCompile(`^[\w.-]+$`)

// hostFiles are the variables that hosts of a play may have.
func (tree *ansibleTree) hostFiles(playbook, hosts string) (files []hostFile, inventories int) {
	home := path.Dir(playbook)
	others := map[string]bool{}
	by := map[string]*hostFile{}
	for _, name := range tree.hosts {
		dir, kind, who := hostPlace(name)
		if dir != home && tree.playbooks[dir] {
			continue // of other playbooks
		}
		local := hosts == "localhost" || hosts == "127.0.0.1"
		if kind == "host_vars" && local && who != hosts {
			continue // another host
		}
		f := by[path.Join(dir, kind, who)]
		if f == nil {
			f = &hostFile{name: path.Join(kind, who), rank: 1, vars: map[string]*yamltree.Value{}}
			by[path.Join(dir, kind, who)] = f
			f.every = kind == "group_vars" && who == "all"
			f.sure = f.every || oneName.MatchString(hosts) && who == hosts
			switch {
			case kind == "host_vars":
				f.rank = 5
			case !f.every:
				f.rank = 3
			}
			if dir == home {
				f.rank++
			} else {
				others[dir] = true
				f.name = path.Join(path.Base(dir), f.name)
			}
		}
		for _, m := range tree.vars[name].Members {
			f.vars[m.Key] = m.Value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		f := by[key]
		if f.rank%2 == 1 && len(others) > 1 {
			f.sure = false // which inventory is used is not known
		}
		files = append(files, *f)
	}
	slices.SortStableFunc(files, func(a, b hostFile) int { return cmp.Compare(a.rank, b.rank) })
	return files, len(others)
}

// hostVars are the variables of the hosts of a play. doubts are the unknown ones, with the
// reason.
func (tree *ansibleTree) hostVars(playbook, hosts string) (vars,
	doubts map[string]*yamltree.Value) {
	key := [2]string{path.Dir(playbook), hosts}
	if known, is := tree.ofHosts[key]; is {
		return known[0], known[1]
	}
	files, inventories := tree.hostFiles(playbook, hosts)
	vars, doubts = map[string]*yamltree.Value{}, map[string]*yamltree.Value{}
	names := map[string]bool{}
	for _, f := range files {
		for name := range f.vars {
			names[name] = true
		}
	}
	for name := range names {
		var value *yamltree.Value
		var maybe []hostFile // that count more than value, or the same
		every := 0
		for _, f := range files {
			switch {
			case f.vars[name] == nil:
			case f.sure:
				value = f.vars[name]
				maybe = slices.DeleteFunc(maybe, func(m hostFile) bool { return m.rank < f.rank })
			default:
				maybe = append(maybe, f)
				if f.every {
					every++
				}
			}
		}
		if value == nil && every > 0 && every == inventories && !slices.ContainsFunc(maybe,
			func(m hostFile) bool { return !sameValue(m.vars[name], maybe[0].vars[name]) }) {
			value = maybe[0].vars[name] // each inventory sets it
		}
		var said []string
		for _, m := range maybe {
			if value == nil || !sameValue(value, m.vars[name]) {
				said = append(said, m.name)
			}
		}
		if len(said) > 0 {
			if len(said) > 3 {
				said = append(said[:3], fmt.Sprintf("%d more files", len(said)-3))
			}
			doubts[name] = &yamltree.Value{Kind: yamltree.Scalar, Text: strings.Join(said, ", ")}
			value = &yamltree.Value{Kind: yamltree.Unknown, Text: name}
		}
		vars[name] = value
	}
	tree.ofHosts[key] = [2]map[string]*yamltree.Value{vars, doubts}
	return vars, doubts
}

// sameValue compares values without their lines.
func sameValue(a, b *yamltree.Value) bool {
	if a.Missing() || b.Missing() {
		return a.Missing() && b.Missing()
	}
	return a.Kind == b.Kind && a.Kind != yamltree.Unknown && a.Text == b.Text &&
		slices.EqualFunc(a.Items, b.Items, sameValue) &&
		slices.EqualFunc(a.Members, b.Members, func(x, y yamltree.Member) bool {
			return x.Key == y.Key && sameValue(x.Value, y.Value)
		})
}

// forHosts adds the variables of a play's hosts.
func (a *ansible) forHosts(s scope, playbook, hosts string) scope {
	if a.tree == nil {
		return s
	}
	vars, doubts := a.tree.hostVars(playbook, hosts)
	s.jinja = s.layer(vars)
	maps.Copy(s.shared.doubts, doubts)
	return s
}

// varsFiles adds vars_prompt and vars_files of a play.
func (a *ansible) varsFiles(s scope, play *yamltree.Value) scope {
	asked := map[string]*yamltree.Value{}
	for _, prompt := range play.Get("vars_prompt").List() {
		if name := prompt.Get("name").String(); name != "" {
			asked[name] = &yamltree.Value{Kind: yamltree.Unknown, Text: name}
		}
	}
	s.jinja = s.layer(asked)
	list := play.Get("vars_files")
	for _, item := range append(slices.Clip(list.List()), list) {
		choices := item.List() // the first that is there
		if item.Is(yamltree.Scalar) {
			choices = []*yamltree.Value{item}
		} else if item == list {
			continue
		}
		found := ""
		for _, choice := range choices {
			if a.tree != nil && found == "" && s.eval(choice).unknown == "" {
				found = a.tree.named(a.tree.hasVars,
					path.Join(path.Dir(s.file), s.eval(choice).text()))
			}
		}
		if found == "" {
			a.note(Place{File: s.file, Line: item.Line}, false, "a file of variables (vars_files) "+
				"was not read, so what it sets is unknown")
			continue
		}
		s.jinja = s.with(a.tree.vars[found])
	}
	return s
}

// sets records what set_fact and include_vars set.
func (a *ansible) sets(task *yamltree.Value, s scope) {
	for _, m := range task.Members {
		values := m.Value
		switch shortModule(m.Key) {
		case "set_fact":
		case "include_vars":
			name := cmp.Or(values.String(), values.Get("file").String())
			file := ""
			if a.tree != nil && name != "" && values.Get("name") == nil {
				file = a.tree.named(a.tree.hasVars, path.Join(s.role, "vars", name),
					path.Join(path.Dir(s.file), name), path.Join(path.Dir(s.playbook), name))
			}
			if file == "" {
				a.note(Place{File: s.file, Line: task.Line}, false, "a file of variables "+
					"(include_vars) was not read, so what it sets is unknown")
				continue
			}
			values = a.tree.vars[file]
		default:
			continue
		}
		for _, v := range values.Members {
			answer := s.eval(v.Value)
			value := answer.value
			if len(s.maybe) > 0 || loops(task) || answer.unknown != "" || value == nil {
				value = &yamltree.Value{Kind: yamltree.Unknown, Text: v.Key}
			}
			s.shared.facts[v.Key] = value
		}
	}
}

// loops reports whether a task has a loop.
func loops(task *yamltree.Value) bool {
	return slices.ContainsFunc(task.Members, func(m yamltree.Member) bool {
		return m.Key == "loop" || strings.HasPrefix(m.Key, "with_")
	})
}

// deepestInclude limits how deep files include others: one may include itself.
const deepestInclude = 10

// include reads the tasks of a file in the scope of a task or play. It returns false if the folder
// does not have the file.
func (a *ansible) include(s scope, file string) bool {
	if a.tree == nil || file == "" {
		return false
	}
	if s.depth++; s.depth > deepestInclude || a.tree.left < 0 {
		a.note(Place{File: s.file, Line: 1}, true, "files include each other so often that not "+
			"all of it was read")
		return true
	}
	a.tree.read[file] = true
	s.file = file
	for _, doc := range a.tree.tasks[file] {
		for _, item := range doc.List() {
			a.tree.left--
			a.task(item, s)
		}
	}
	return true
}

// includeRole reads a role in the scope of a play or task.
func (a *ansible) includeRole(s scope, name, tasks string) bool {
	if a.tree == nil {
		return false
	}
	dir := a.tree.role(name, s.playbook)
	if dir == "" {
		return false
	}
	s = a.inRole(s, dir)
	main := a.tree.named(a.tree.hasTasks, path.Join(dir, "tasks", cmp.Or(tasks, "main")))
	handlers := a.tree.named(a.tree.hasTasks, path.Join(dir, "handlers", "main"))
	if main == "" && handlers == "" {
		return false
	}
	a.include(s, main)
	s.maybe = append(slices.Clip(s.maybe), "a task notifies the handler")
	a.include(s, handlers)
	return true
}

// roleWords are the keys of a play's role that are not parameters.
var roleWords = []string{"role", "name", "vars", "when", "tags", "become", "become_user",
	"delegate_to", "environment"}

func varsOf(v *yamltree.Value) []yamltree.Member {
	if vars := v.Get("vars"); vars != nil {
		return vars.Members
	}
	return nil
}

// roleParams are the parameters that a play gives a role.
func roleParams(item *yamltree.Value) *yamltree.Value {
	out := &yamltree.Value{Kind: yamltree.Map}
	for _, m := range append(slices.Clip(item.Members), varsOf(item)...) {
		if !slices.Contains(roleWords, m.Key) {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// inRole adds the defaults and variables of a role.
func (a *ansible) inRole(s scope, dir string) scope {
	s.role = dir
	s.jinja = s.byDefault(a.tree.below(path.Join(dir, "defaults", "main")))
	s.jinja = s.with(a.tree.below(path.Join(dir, "vars", "main")))
	return s
}
