package iac

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/iac/yamltree"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// How it works. manifests.go collects the Kubernetes objects of a file or folder; aso.go says what
// Azure Service Operator does with them, capz.go what Cluster API's provider for Azure does, and
// manifestwrites.go what follows for the subnets.

// kubeObject is a Kubernetes object.
type kubeObject struct {
	group, kind, namespace, name string
	by                           Place
	annotations, spec            *yamltree.Value
}

// manifests reads the Kubernetes objects of files, and judges them together: a subnet of one file
// may carry the pods of a cluster in another.
type manifests struct {
	texts   yamltree.Texts
	reading *Reading
	found   bool // any object
	objects []*kubeObject
	byName  map[string]*kubeObject
	subnets []*manifestSubnet
	byID    map[slot]*manifestSubnet
	told    map[Note]bool
	full    bool // something was left out
}

func newManifests() *manifests {
	return &manifests{reading: &Reading{Format: Manifests}, byName: map[string]*kubeObject{},
		byID: map[slot]*manifestSubnet{}, told: map[Note]bool{}}
}

// yamlStart are lines by which a text without a file name counts as YAML, so that its mistakes are
// reported as such.
var yamlStart = lazy.Regexp(`(?m)^(---|apiVersion:|kind:)`)

// readManifests reads a file of Kubernetes manifests.
func readManifests(name string, s *stream, known []Carrier) (*Reading, error) {
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
	m := newManifests()
	docs, err := m.texts.Parse(data)
	if err != nil {
		return nil, err
	}
	if len(docs) > 0 && strings.HasPrefix(docs[0].Get("apiVersion").String(), "routekeeper.dev/") {
		return nil, errors.New("it is a config of routekeeper: name it with -f, next to the code")
	}
	if !m.add(name, docs) {
		return nil, errUnknownFormat
	}
	return m.judged(known), nil
}

// isYAML reports whether a file's name is that of a YAML file.
func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// add adds the objects of a file, and returns false if it has none.
func (m *manifests) add(file string, docs []*yamltree.Value) bool {
	found := false
	for _, doc := range docs {
		if doc.Get("apiVersion").String() != "" && doc.Get("kind").String() != "" {
			m.object(doc, file, "", 0)
			found = true
		}
	}
	m.found = m.found || found
	return found
}

const (
	// mostNested limits lists of objects in objects.
	mostNested = 5
	// mostObjects limits the objects of all files: with aliases, little text can expand to a lot.
	mostObjects = 250_000
)

// object collects an object and the objects in it.
func (m *manifests) object(doc *yamltree.Value, file, namespace string, depth int) {
	if !doc.Is(yamltree.Map) || depth > mostNested {
		return
	}
	if len(m.objects) == mostObjects {
		m.leftOut(Place{File: file, Line: doc.Line},
			"there are so many objects that not all of them were read")
		return
	}
	if items := doc.Get("items"); items != nil &&
		strings.HasSuffix(doc.Get("kind").String(), "List") {
		for _, item := range items.List() {
			m.object(item, file, namespace, depth+1)
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
				m.object(item, file, o.namespace, depth+1)
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

// note notes something, once.
func (m *manifests) note(at Place, unknown bool, format string, args ...any) {
	n := Note{Place: at, Text: fmt.Sprintf(format, args...), Unknown: unknown}
	if !m.told[n] {
		m.reading.Notes = append(m.reading.Notes, n)
		m.told[n] = true
	}
}

// leftOut notes the first thing that a limit leaves out.
func (m *manifests) leftOut(at Place, format string, args ...any) {
	if !m.full {
		m.note(at, true, format, args...)
	}
	m.full = true
}

// judged says what the objects do; all of them are known now.
func (m *manifests) judged(known []Carrier) *Reading {
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
	m.judge(known)
	return m.reading
}

// fromReference returns the ARM ID of a reference, or "" with the name of an object of the kind.
func (m *manifests) fromReference(ref *yamltree.Value) (id arm.ID, name string) {
	id = arm.ID(manifestText(ref.Get("armId")))
	return id, manifestText(ref.Get("name"))
}
