package kernel

import "strings"

// A fact is a value that Azure adds to documents of a type although no client wrote it: a default,
// or a computed value. The defaults_*.go files list them, one file for a resource type. Unless a
// file says otherwise, its facts were seen in recorded answers of the real Azure.
type Fact struct {
	// Path is the field, from the document. A name with [] goes through a list.
	Path string
	// Value is the field's value if the document has none. A function computes it; nil from it
	// means no field.
	Value any
	// Since and before are the api-versions between which the field is shown. "" is no limit.
	Since, Before string
	// Preview limits the field to preview versions.
	Preview bool
	// When selects the documents to which the fact applies. Nil: all.
	When func(at Sight) bool
}

// Sight is the input of a fact: the document, the object that has the field, and the resource.
type Sight struct {
	R       *Resource
	Doc, At Object
	Version string
}

// showFacts adds Azure's values to a document.
func (k *Kernel) showFacts(r *Resource, doc Object, version string) {
	for _, f := range k.KindOf(r.ID).Facts {
		f.Show(Sight{R: r, Doc: doc, At: doc, Version: version})
	}
}

// Show adds one fact to a document.
func (f Fact) Show(s Sight) {
	if s.Version < f.Since || f.Before != "" && s.Version >= f.Before ||
		f.Preview && !strings.HasSuffix(s.Version, "-preview") {
		return
	}
	f.showAt(s, f.Path)
}

func (f Fact) showAt(s Sight, path string) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		if s.At[name] == nil && (f.When == nil || f.When(s)) {
			if value := f.valueAt(s); value != nil {
				s.At[name] = value
			}
		}
		return
	}
	if name, isList := strings.CutSuffix(name, "[]"); isList {
		for _, item := range ListAt(s.At, name) {
			s.At = item
			f.showAt(s, rest)
		}
	} else if next := ObjectAt(s.At, name); next != nil {
		s.At = next
		f.showAt(s, rest)
	}
}

func (f Fact) valueAt(s Sight) any {
	if compute, isFunction := f.Value.(func(Sight) any); isFunction {
		return compute(s)
	}
	return CloneValue(f.Value)
}

// EmptyLists returns facts of lists that are shown although they are empty.
func EmptyLists(when func(Sight) bool, paths ...string) []Fact {
	var out []Fact
	for _, path := range paths {
		out = append(out, Fact{Path: path, Value: []any{}, When: when})
	}
	return out
}

// MadeSince returns a condition: the resource was created on a date or later.
func MadeSince(date string) func(Sight) bool {
	return func(s Sight) bool { return SinceDate(s.R.AsOf, date) }
}
