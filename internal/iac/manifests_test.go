package iac

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// expected are the lines "line verb name" that comments of a fixture ask for: EXPECT at its own
// line, EXPECT-NEXT at the next one. Notes are "? text" if something is unknown, and "- text".
func expected(raw []byte) []string {
	var want []string
	for i, line := range strings.Split(string(raw), "\n") {
		_, text, is := strings.Cut(line, "# EXPECT ")
		n := i + 1
		if !is {
			if _, text, is = strings.Cut(line, "# EXPECT-NEXT "); !is {
				continue
			}
			n++
		}
		for _, one := range strings.Split(text, "; ") {
			want = append(want, fmt.Sprintf("%d %s", n, one))
		}
	}
	slices.Sort(want)
	return want
}

// found are the same lines of a reading. A note is shortened to what the fixture asks for.
func found(r *Reading, want []string) []string {
	var got []string
	for _, e := range r.Effects {
		name := e.What.Name
		if e.What.VNet != "" {
			name = e.What.VNet + "/" + name
		}
		got = append(got, fmt.Sprintf("%d %s %s", e.By.Line, e.Verb, name))
	}
	for _, n := range r.Notes {
		mark := "-"
		if n.Unknown {
			mark = "?"
		}
		line := fmt.Sprintf("%d %s %s", n.Line, mark, n.Text)
		for _, w := range want {
			start, text, _ := strings.Cut(w, mark+" ")
			if start == fmt.Sprintf("%d ", n.Line) && strings.Contains(n.Text, text) {
				line = w
			}
		}
		got = append(got, line)
	}
	slices.Sort(got)
	return got
}

// TestYAMLFixtures: each fixture is found to do what its comments say, and nothing else: what has
// no comment is a near-miss.
func TestYAMLFixtures(t *testing.T) {
	for name, more := range map[string][]string{
		"manifests/quoted.json": {"11 - it is no AKS cluster", "4 loses shop-vnet/aks-nodes",
			"9 may-lose capz-vnet/capz-nodes"},
		"manifests/aso.yaml":  nil,
		"manifests/capz.yaml": nil,
		"manifests/kustomization.yaml": {"1 ? Kustomize is not evaluated: kubectl kustomize DIR " +
			"| routekeeper iac check -", "0 - no object of Azure Service Operator or of Cluster " +
			"API's provider for Azure is in it"},
	} {
		raw, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := readPlain(name, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Sorted(slices.Values(append(expected(raw), more...)))
		sameLines(t, name, found(r, want), want...)
		for _, e := range r.Effects {
			if e.Fix == "" || e.How == "" || e.By.File != name {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}

// folderLines are what ReadFolder finds in a folder, and the names of the parts.
func folderLines(t *testing.T, files fs.FS, dir string, known ...Carrier) (lines, names []string) {
	t.Helper()
	parts, err := ReadFolder(files, dir, TemplateOptions{Carriers: known})
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, p := range parts {
		lines = append(lines, said(p.Reading)...)
		names = append(names, string(p.Format)+" "+p.Name)
	}
	return lines, names
}

// TestYAMLFolder: the files of a folder are judged together: the cluster of one file needs the
// subnet of another. Templates are no YAML yet, and are left out or named.
func TestYAMLFolder(t *testing.T) {
	files := os.DirFS("testdata")
	got, _ := folderLines(t, files, "manifests")
	if lines := strings.Join(got, "\n"); !strings.Contains(lines, "? a Helm chart is not evalu") ||
		!strings.Contains(lines, "? Kustomize is not evaluated") ||
		!strings.Contains(lines, "loses shop-vnet/aks-nodes") {
		t.Error(lines)
	}
	for dir, want := range map[string]string{
		"whatif": "modify.json: a what-if result is not read with its folder",
		"manifests/chart/templates": "subnet.yaml: it was not read: line 4: braces outside " +
			"quotes"} {
		if _, err := ReadFolder(files, dir, TemplateOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestYAMLVerdicts: what is known from elsewhere decides how serious a finding is, and the finding
// names its source and the next step.
func TestYAMLVerdicts(t *testing.T) {
	const subnet = "apiVersion: network.azure.com/v1api20240301\nkind: VirtualNetworksSubnet\n" +
		"metadata: {name: n%s}\nspec: {owner: {armId: /subscriptions/s/resourceGroups/g/" +
		"providers/Microsoft.Network/virtualNetworks/%s}%s}\n"
	const policy = ", annotations: {serviceoperator.azure.com/reconcile-policy: '%s'}"
	for _, c := range []struct {
		name, text, subnet, want string
	}{
		{"needed", fmt.Sprintf(subnet, "", "v", ""), "n", "error iac-strips"},
		{"not needed", fmt.Sprintf(subnet, "", "v", ""), "other", "info iac-may-strip"},
		{"with a table", fmt.Sprintf(subnet, "", "v", ", routeTable: {reference: {armId: t}}"), "n",
			""},
		{"perhaps with a table", fmt.Sprintf(subnet, "", "v", ", routeTable: x"), "n",
			"warning iac-may-strip"},
		{"a network by a variable", strings.Replace(fmt.Sprintf(subnet, "", "v", ""),
			"{armId: /subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v}",
			"{name: '${v}'}", 1), "n", "error iac-strips"},
		{"skipped", fmt.Sprintf(subnet, fmt.Sprintf(policy, "skip"), "v", ""), "n", ""},
		{"perhaps skipped", fmt.Sprintf(subnet, fmt.Sprintf(policy, "${p}"), "v", ""), "n",
			"warning iac-may-strip"},
	} {
		known := Known{Carriers: []Carrier{Named(c.subnet, "it carries pods")}}
		r, err := Read("subnet.yaml", strings.NewReader(c.text),
			TemplateOptions{Carriers: known.Carriers})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := ""
		for _, f := range r.Findings(known) {
			got = fmt.Sprintf("%s %s", f.Severity, f.Code)
			if !strings.Contains(f.Message, "routeTable") ||
				!strings.Contains(f.Advice, "az network vnet subnet show ") {
				t.Errorf("%s: %s\n%s", c.name, f.Message, f.Advice)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestYAMLRefused: what cannot be read is refused in one line with its place.
func TestYAMLRefused(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c]\n", 'b'+i, 'b'+i, 'a'+i, 'a'+i,
			'a'+i, 'a'+i, 'a'+i, 'a'+i)
	}
	for _, c := range []struct{ name, file, text, want string }{
		{"helm", "a.yaml", "kind: X\nmetadata:\n  name: {{ .Values.x }}\n",
			"line 3: braces outside " +
				"quotes: a template must be rendered first, for example with helm template"},
		{"helm condition", "a.yaml", "---\nkind: X\n{{- if .x }}\na: b\n{{- end }}\n",
			"line 3: braces outside quotes"},
		{"jinja template", "a.yml", "{% if x %}\na: b\n", "line 1: braces outside quotes"},
		{"broken", "a.yaml", "kind: X\napiVersion: a\n b: c: d\n", "it is not valid YAML"},
		{"broken, without a name", "", "kind: X\napiVersion: [\n", "it is not valid YAML"},
		{"two keys", "a.yaml", "apiVersion: v1\nkind: X\nkind: Y\n",
			"line 3: it is not valid YAML"},
		{"aliases", "a.yaml", bomb, "more than 100000 values"},
		{"itself", "a.yaml", "a: &a [*a]\n", "unknown format"},
		{"deep", "a.yaml", strings.Repeat("- ", 100), "nested more than"},
		{"deep by indentation", "a.yaml", indented(150), "nested more than 100 deep"},
		{"brackets", "a.yaml", "a: " + strings.Repeat("[", 1000), "nested more than"},
		{"variables", "vars.yml", "subnet: nodes\n", "unknown format"},
		{"a workflow", "ci.yml", "on: push\njobs: {a: {}}\n", "unknown format"},
		{"a list", "list.yml", "- a\n- b\n", "unknown format"},
		{"a playbook", "p.yml", "- hosts: all\n  tasks: []\n", "unknown format"},
		{"not UTF-8", "a.yaml", "apiVersion: \xff\n", "not UTF-8"},
	} {
		_, err := readPlain(c.file, strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func indented(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// TestYAMLLarge: files that would take hours without limits are read in seconds, and what was left
// out is said.
func TestYAMLLarge(t *testing.T) {
	var objects strings.Builder
	for i := range 2100 {
		fmt.Fprintf(&objects, "---\napiVersion: network.azure.com/v1\nkind: "+
			"VirtualNetworksSubnet\n"+
			"metadata: {name: s%[1]d}\nspec: {owner: {name: v}}\n---\napiVersion: "+
			"containerservice.azure.com/v1\nkind: ManagedCluster\nmetadata: {name: c%[1]d}\nspec: "+
			"{networkProfile: {networkPlugin: kubenet}, agentPoolProfiles: [{vnetSubnetReference: "+
			"{name: s%[1]d}}]}\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"objects": {objects.String(), "there are more than 2000"},
	} {
		r, err := readPlain("f.yaml", strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := strings.Join(said(r), "\n")
		if len(r.Effects) == 0 || !strings.Contains(text, c.want) || len(text) > 2<<20 {
			t.Errorf("%s: %d effects, %.1000s", name, len(r.Effects), text)
		}
		r.Findings(Known{})
	}
}

// FuzzManifests: no manifest causes a panic, an error of several lines, or an effect without a
// name.
func FuzzManifests(f *testing.F) {
	for _, name := range []string{"manifests/aso.yaml", "manifests/capz.yaml",
		"manifests/kustomization.yaml", "manifests/chart/templates/subnet.yaml"} {
		raw, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		for _, part := range bytes.Split(raw, []byte("\n---\n")) {
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := readPlain("f.yaml", bytes.NewReader(raw))
		checkFuzzed(t, r, err)
	})
}
