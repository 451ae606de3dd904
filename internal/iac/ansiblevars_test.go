package iac

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestAnsibleVariables: variables of a folder count with Ansible's precedence, where it is known
// what applies. Each case is a folder; lines with "== NAME" start its files.
func TestAnsibleVariables(t *testing.T) {
	const task = "azure_rm_subnet: {resource_group: g, virtual_network_name: v, name: '{{ n }}'}\n"
	const play = "== site.yml\n- hosts: azure\n  roles: [net]\n== roles/net/tasks/main.yml\n- " + task
	for name, c := range map[string]struct{ files, want string }{
		"defaults of a role": {play + "== roles/net/defaults/main.yml\nn: a\n", "v/a"},
		"group_vars/all over defaults": {play + "== roles/net/defaults/main.yml\nn: a\n" +
			"== group_vars/all.yml\nn: b\n", "v/b"},
		"a group over all": {play + "== group_vars/all.yml\nn: b\n== group_vars/azure.yml\nn: c\n",
			"v/c"},
		"the playbook's over the inventory's": {play + "== inventory/group_vars/all.yml\nn: i\n" +
			"== group_vars/all.yml\nn: b\n", "v/b"},
		"an inventory":             {play + "== inventory/group_vars/all/net.yml\nn: i\n", "v/i"},
		"a file without an ending": {play + "== group_vars/all\nn: b\n", "v/b"},
		"two inventories that agree": {play + "== prod/group_vars/all.yml\nn: i\n" +
			"== dev/group_vars/all.yml\nn: i\n", "v/i"},
		"two inventories that do not": {play + "== prod/group_vars/all.yml\nn: i\n" +
			"== dev/group_vars/all.yml\nn: j\n", "v/{n}; the variable n is not known: it depends " +
			"on the inventory, and on which of these apply: dev/group_vars/all, " +
			"prod/group_vars/all"},
		"another group": {play + "== group_vars/all.yml\nn: b\n== group_vars/web.yml\nn: w\n",
			"v/{n}; the variable n is not known: it depends on the inventory, and on which of " +
				"these apply: group_vars/web"},
		"another group with the same value": {play + "== group_vars/all.yml\nn: b\n" +
			"== group_vars/web.yml\nn: b\n", "v/b"},
		"another group, below the play's vars": {"== site.yml\n- hosts: azure\n  vars: {n: p}\n" +
			"  roles: [net]\n== roles/net/tasks/main.yml\n- " + task +
			"== group_vars/web.yml\nn: w\n", "v/p"},
		"a host": {"== site.yml\n- hosts: localhost\n  tasks:\n    - " + task +
			"== group_vars/all.yml\nn: b\n== host_vars/localhost.yml\nn: h\n" +
			"== host_vars/other.yml\nn: o\n", "v/h"},
		"vars of a role over those of a play": {"== site.yml\n- hosts: a\n  vars: {n: p}\n" +
			"  roles: [net]\n== roles/net/tasks/main.yml\n- " + task +
			"== roles/net/vars/main.yml\nn: r\n", "v/r"},
		"parameters of a role over its vars": {"== site.yml\n- hosts: a\n" +
			"  roles: [{role: net, n: q}]\n== roles/net/tasks/main.yml\n- " + task +
			"== roles/net/vars/main.yml\nn: r\n", "v/q"},
		"vars_files": {"== site.yml\n- hosts: a\n  vars: {n: p}\n  vars_files: [vars/net.yml]\n" +
			"  tasks:\n    - " + task + "== vars/net.yml\nn: f\n", "v/f"},
		"vars_files that are not there": {"== site.yml\n- hosts: a\n" +
			"  vars_files: ['{{ env }}.yml']\n  tasks:\n    - " + task,
			"v/{n}; a file of variables (vars_files) was not read, so what it sets is unknown"},
		"vars_prompt": {"== site.yml\n- hosts: a\n  vars: {n: p}\n  vars_prompt: [{name: n}]\n" +
			"  tasks:\n    - " + task, "v/{n}"},
		"include_vars and set_fact": {"== site.yml\n- hosts: a\n  vars: {n: p}\n  tasks:\n" +
			"    - include_vars: net.yml\n    - " + task + "    - set_fact: {n: s}\n    - " + task +
			"== net.yml\nn: f\n", "v/f; v/s"},
		"set_fact on a condition": {"== site.yml\n- hosts: a\n  vars: {n: p}\n  tasks:\n" +
			"    - set_fact: {n: s}\n      when: x\n    - " + task, "v/{n}"},
		"included tasks": {"== site.yml\n- hosts: a\n  tasks:\n    - include_tasks: net.yml\n" +
			"      vars: {n: '{{ item }}'}\n      loop: [x, y]\n== net.yml\n- " + task, "v/x; v/y"},
		"an included role": {"== site.yml\n- hosts: a\n  tasks:\n" +
			"    - import_role: {name: net, tasks_from: more}\n" +
			"== roles/net/tasks/more.yml\n- " + task + "== roles/net/defaults/main.yml\nn: a\n",
			"v/a"},
		"an imported playbook": {"== site.yml\n- import_playbook: more.yml\n== more.yml\n" +
			"- hosts: a\n  vars: {n: p}\n  tasks:\n    - " + task, "v/p"},
		"a role that no play uses": {"== roles/net/tasks/main.yml\n- " + task +
			"== roles/net/defaults/main.yml\nn: a\n", "v/a"},
		"a role that is not there": {"== site.yml\n- hosts: a\n  roles: [other]\n  tasks:\n" +
			"    - " + task, "v/{n}; includes the role other, which is not in the folder"},
		"tasks that include themselves": {"== site.yml\n- hosts: a\n  tasks:\n" +
			"    - include_tasks: net.yml\n== net.yml\n- " + task + "- include_tasks: net.yml\n" +
			"- include_tasks: net.yml\n", "v/{n}; files include each other so often that not all " +
			"of it was read"},
	} {
		files, file := fstest.MapFS{}, ""
		for _, line := range strings.SplitAfter(c.files, "\n") {
			if next, is := strings.CutPrefix(line, "== "); is {
				file = "code/" + strings.TrimSpace(next)
				files[file] = &fstest.MapFile{}
			} else if file != "" {
				files[file].Data = append(files[file].Data, line...)
			}
		}
		parts, err := ReadFolder(files, "code", TemplateOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range parts[0].Effects {
			got = append(got, e.What.VNet+"/"+e.What.Name)
		}
		for _, n := range parts[0].Notes {
			got = append(got, n.Text)
		}
		if lines := strings.Join(got, "; "); lines != c.want {
			t.Errorf("%s: %q, want %q", name, lines, c.want)
		}
	}
}
