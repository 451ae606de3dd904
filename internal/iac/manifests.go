package iac

import (
	"cmp"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// How it works. manifests.go collects the Kubernetes objects of a file or folder; aso.go says what
// Azure Service Operator does with them, capz.go what Cluster API's provider for Azure does.

// kubeObject is a Kubernetes object.
type kubeObject struct {
	group, kind, namespace, name string
	by                           Place
	annotations, spec            *yamltree.Value
}

// manifests reads Kubernetes objects.
type manifests struct {
	*codeReading
	objects []*kubeObject
	byName  map[string]*kubeObject
}

// isManifest reports whether a document is a Kubernetes object.
func isManifest(doc *yamltree.Value) bool {
	return doc.Get("apiVersion").String() != "" && doc.Get("kind").String() != ""
}

// mostNested limits lists of objects in objects.
const mostNested = 5

// add collects an object and the objects in it.
func (m *manifests) add(doc *yamltree.Value, file, namespace string, depth int) {
	if !doc.Is(yamltree.Map) || depth > mostNested {
		return
	}
	if !m.budget.take(1) {
		if !m.budget.full {
			m.note(Place{File: file, Line: doc.Line}, true, "there are so many objects that not "+
				"all of them were read")
		}
		m.budget.full = true
		return
	}
	if items := doc.Get("items"); items != nil &&
		strings.HasSuffix(doc.Get("kind").String(), "List") {
		for _, item := range items.List() {
			m.add(item, file, namespace, depth+1)
		}
		return
	}
	group, _, _ := strings.Cut(doc.Get("apiVersion").String(), "/")
	meta := doc.Get("metadata")
	o := &kubeObject{group: group, kind: doc.Get("kind").String(),
		namespace: cmp.Or(meta.Get("namespace").String(), namespace),
		name:      manifestText(meta.Get("name")), annotations: meta.Get("annotations"),
		spec: doc.Get("spec")}
	o.by = Place{Address: o.kind + " " + cmp.Or(o.name, "without a name"), File: file,
		Line: doc.Line}
	m.objects = append(m.objects, o)
	if key := objectKey(group, o.kind, o.namespace, o.name); m.byName[key] == nil {
		m.byName[key] = o
	}
	if group == groupCAPZ { // what CAPZ hands to Azure Service Operator as it is
		for _, spec := range []*yamltree.Value{o.spec, o.spec.At("template", "spec")} {
			for _, item := range spec.Get("resources").List() {
				m.add(item, file, o.namespace, depth+1)
			}
		}
	}
}

// placeholder is an expression of envsubst, Flux or Helm.
var placeholder = lazy.Regexp(`\$\{[^}]*\}|(?s:\{\{.*?\}\})`)

// manifestText returns a text in a manifest, with what is unknown in braces.
func manifestText(v *yamltree.Value) string {
	if v.Is(yamltree.Unknown) {
		return unknownName(v.Text)
	}
	return placeholder().ReplaceAllStringFunc(v.String(), unknownName)
}

// find returns the object with a name, nil if the files do not have it.
func (m *manifests) find(group, kind, namespace, name string) *kubeObject {
	return m.byName[objectKey(group, kind, namespace, name)]
}

// objectKey returns what tells objects apart.
func objectKey(group, kind, namespace, name string) string {
	return strings.Join([]string{group, kind, namespace, name}, "/")
}

// collect records what the objects write; all of them are known now.
func (m *manifests) collect() *Reading {
	found := false
	for _, o := range m.objects {
		switch o.group {
		case groupASONetwork, groupASOCluster, "resources.azure.com":
			found = true
			m.aso(o)
		case groupCAPZ:
			found = found || strings.HasPrefix(o.kind, "Azure")
			m.capz(o)
		case "kustomize.config.k8s.io":
			m.note(Place{File: o.by.File, Line: o.by.Line}, true, "Kustomize is not evaluated: "+
				"kubectl kustomize DIR | routekeeper iac check -")
		}
	}
	if !found {
		m.note(Place{}, false, "no object of Azure Service Operator or of Cluster API's provider "+
			"for Azure is in it")
	}
	return m.reading
}

// fromReference returns the ARM ID of a reference, or "" with the name of an object of the kind.
func (m *manifests) fromReference(ref *yamltree.Value) (id arm.ID, name string) {
	id = arm.ID(manifestText(ref.Get("armId")))
	return id, manifestText(ref.Get("name"))
}
