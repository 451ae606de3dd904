package emulator

import "strings"

// A fact is something that Azure says in documents of a type although no client wrote it: a
// default, or what Azure alone knows. The defaults_*.go files hold them, a file for a resource
// type. Unless a file says otherwise, its facts were seen in recorded answers of the real Azure.
type fact struct {
	// path is the field, from the document. A name with [] goes through a list.
	path string
	// value is what the field is where the document has none. A function computes it; its nil is no
	// field.
	value any
	// since and before are the api-versions between which the field is shown. "" is no limit.
	since, before string
	// preview shows the field at preview versions only.
	preview bool
	// when says of which documents this is true. Nil: all.
	when func(at sight) bool
}

// sight is what a fact may look at: the document, the object that holds the field, and the
// resource.
type sight struct {
	r       *resource
	doc, at object
	version string
}

// showFacts adds to a document what Azure says in it.
func (k *kernel) showFacts(r *resource, doc object, version string) {
	for _, f := range k.kindOf(r.id).facts {
		f.show(sight{r: r, doc: doc, at: doc, version: version})
	}
}

// show adds one fact to a document.
func (f fact) show(s sight) {
	if s.version < f.since || f.before != "" && s.version >= f.before ||
		f.preview && !strings.HasSuffix(s.version, "-preview") {
		return
	}
	f.showAt(s, f.path)
}

func (f fact) showAt(s sight, path string) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		if s.at[name] == nil && (f.when == nil || f.when(s)) {
			if value := f.valueAt(s); value != nil {
				s.at[name] = value
			}
		}
		return
	}
	if name, isList := strings.CutSuffix(name, "[]"); isList {
		for _, item := range listAt(s.at, name) {
			s.at = item
			f.showAt(s, rest)
		}
	} else if next := objectAt(s.at, name); next != nil {
		s.at = next
		f.showAt(s, rest)
	}
}

func (f fact) valueAt(s sight) any {
	if compute, isFunction := f.value.(func(sight) any); isFunction {
		return compute(s)
	}
	return cloneValue(f.value)
}

// emptyLists are facts of lists that are there although they are empty.
func emptyLists(when func(sight) bool, paths ...string) []fact {
	var out []fact
	for _, path := range paths {
		out = append(out, fact{path: path, value: []any{}, when: when})
	}
	return out
}

// madeSince is a condition: Azure has said so since a date, of what was made since then.
func madeSince(date string) func(sight) bool {
	return func(s sight) bool { return sinceDate(s.r.asOf, date) }
}
