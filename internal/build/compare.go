package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Verb is what a step does.
type Verb string

// Create makes what does not exist, Keep keeps what is right, Change changes what Azure can change.
// Refuse does nothing: the resource belongs to another owner, or would have to be created again.
const (
	Create Verb = "create"
	Keep   Verb = "keep"
	Change Verb = "change"
	Refuse Verb = "refuse"
	// Delete removes what Create made.
	Delete Verb = "delete"
)

// Difference is a field with the wrong value.
type Difference struct {
	// Path is the field, as in properties.agentPoolProfiles[system].count.
	Path string `json:"field"`
	Have string `json:"have"` // as JSON, "" where it is missing
	Want string `json:"want"`

	place string // for sjson
	value any
	fixed bool
}

// Decision is what a step does with the present resource.
type Decision struct {
	Verb        Verb         `json:"verb"`
	Differences []Difference `json:"differences,omitempty"`
	// Why says why it is refused.
	Why string `json:"why,omitempty"`
}

// Wrong says in one line what reads differently after a write, "" if nothing does.
func (d Decision) Wrong() string {
	switch {
	case d.Verb == Keep:
		return ""
	case len(d.Differences) == 0:
		return "the tag " + OwnerTag + " is gone: a policy or another writer has removed it"
	}
	first := d.Differences[0]
	have := first.Have
	if have == "" {
		have = "not set"
	}
	return fmt.Sprintf("%s is %s, expected %s", first.Path, have, first.Want)
}

// Decide compares a step with the present resource, nil if there is none. adopt allows changes of a
// resource without the tag.
func (s Step) Decide(c Cluster, have *arm.Document, made Made, adopt bool) Decision {
	switch {
	case have == nil && s.Found:
		return Decision{Verb: Refuse, Why: "it no longer exists"}
	case have == nil && s.Guest && !adopt:
		return Decision{Verb: Refuse, Why: "it would be made in the network " +
			s.ID.Parent().Name() + ", which was not made for this cluster; --adopt allows that"}
	case have == nil:
		return Decision{Verb: Create}
	}
	want := s.body(made)
	if s.Later != nil {
		want = s.Later()
	}
	if s.tune != nil {
		s.tune(gjson.ParseBytes(have.Raw), want)
	}
	if s.Found {
		return s.decideFound(have.Raw, want, adopt)
	}
	owner := gjson.GetBytes(have.Raw, "tags."+OwnerTag).String()
	ours := !s.Tagged || strings.EqualFold(owner, c.Owner())
	// a group that others made is used, and stays theirs
	if s.Tagged && !ours && s.ID.Is(arm.TypeResourceGroup) {
		return Decision{Verb: Keep}
	}
	if !ours { // it stays when the cluster is deleted
		tags := maps.Clone(want["tags"].(object))
		tags[AdoptedTag] = "true"
		want["tags"] = tags
	}
	d := Decision{Verb: Keep, Differences: differences(have.Raw, want, s.Fixed)}
	switch {
	case !ours && owner != "":
		return Decision{Verb: Refuse, Why: "it belongs to the cluster " + owner}
	case !ours && !adopt:
		return Decision{Verb: Refuse, Why: "it exists and was not made for this cluster; --adopt " +
			"takes it over"}
	case len(d.Differences) == 0:
		return d
	}
	d.Verb = Change
	var fixed []string
	for _, difference := range d.Differences {
		if difference.fixed {
			fixed = append(fixed, strings.TrimPrefix(difference.Path, "properties."))
		}
	}
	if len(fixed) > 0 {
		d.Verb, d.Why = Refuse, "it would have to be created again: Azure cannot change "+
			strings.Join(fixed, ", ")
	}
	return d
}

// decideFound compares an existing resource of others. Only a subnet's route table can differ: the
// subnet has none, or got another one after it was read.
func (s Step) decideFound(have []byte, want object, adopt bool) Decision {
	d := Decision{Verb: Keep, Differences: differences(have, want, nil)}
	table := arm.ID(gjson.GetBytes(have, "properties.routeTable.id").String())
	switch {
	case len(d.Differences) == 0:
		return d
	case table != "":
		d.Verb, d.Why = Refuse, "it got the route table "+table.Short()+" meanwhile"
	case !adopt:
		d.Verb = Refuse
		d.Why = "it has no route table, and was not made for this cluster; --adopt associates one"
	default:
		d.Verb = Change
	}
	return d
}

// differences returns the fields of a body that a document does not have.
func differences(have []byte, want object, fixed []string) []Difference {
	var found []Difference
	walk(gjson.ParseBytes(have), want, "", "", "", func(d Difference, plain string) {
		d.fixed = slices.ContainsFunc(fixed, func(f string) bool {
			return plain == f || strings.HasPrefix(plain, f+".")
		})
		found = append(found, d)
	})
	return found
}

// walk compares a value with its expected value. Three strings say where the value is: path for
// people, place for sjson, and plain, which is path without the names of list members.
func walk(have gjson.Result, want any, path, place, plain string, note func(Difference, string)) {
	switch w := want.(type) {
	case object:
		for _, k := range slices.Sorted(maps.Keys(w)) {
			child, name := member(have, k)
			walk(child, w[k], join(path, k), join(place, escape(name)), join(plain, k), note)
		}
		return
	case []any:
		if len(w) > 0 && named(w[0]) {
			walkNamed(have, w, path, place, plain, note)
			return
		}
	}
	if !sameValue(have, want) {
		text, _ := json.Marshal(want)
		note(Difference{Path: path, Have: have.Raw, Want: string(text), place: place, value: want},
			plain)
	}
}

// walkNamed compares a list with named members. It ignores further members.
func walkNamed(have gjson.Result, want []any, path, place, plain string,
	note func(Difference, string)) {
	members := have.Array()
	for _, w := range want {
		name := fmt.Sprint(w.(object)["name"])
		i := slices.IndexFunc(members, func(m gjson.Result) bool {
			return strings.EqualFold(m.Get("name").String(), name)
		})
		if i < 0 {
			text, _ := json.Marshal(w)
			note(Difference{Path: path + "[" + name + "]", Want: string(text), place: place + ".-1",
				value: w}, plain)
			continue
		}
		walk(members[i], w, path+"["+name+"]", place+"."+strconv.Itoa(i), plain, note)
	}
}

// member finds a field in any case: Azure does not always keep the spelling of keys.
func member(o gjson.Result, name string) (value gjson.Result, spelled string) {
	spelled = name
	o.ForEach(func(k, v gjson.Result) bool {
		if strings.EqualFold(k.String(), name) {
			value, spelled = v, k.String()
			return false
		}
		return true
	})
	return value, spelled
}

func named(v any) bool {
	o, is := v.(object)
	return is && o["name"] != nil
}

// sameValue compares a value; it ignores the case of text, because Azure changes the case of IDs
// and enums.
func sameValue(have gjson.Result, want any) bool {
	switch w := want.(type) {
	case string:
		return have.Type == gjson.String && strings.EqualFold(have.String(), w)
	case []any:
		if !have.IsArray() || len(have.Array()) != len(w) {
			return false
		}
		left := have.Array()
		for _, v := range w { // in any order
			i := slices.IndexFunc(left, func(h gjson.Result) bool {
				return sameValue(h, v) || equalJSON(h, v)
			})
			if i < 0 {
				return false
			}
			left = slices.Delete(left, i, i+1)
		}
		return true
	}
	return equalJSON(have, want)
}

// equalJSON compares a member without a name: only expected fields count.
func equalJSON(have gjson.Result, want any) bool {
	if o, is := want.(object); is {
		equal := true
		walk(have, o, "", "", "", func(Difference, string) { equal = false })
		return equal
	}
	text, err := json.Marshal(want)
	return err == nil && reflect.DeepEqual(have.Value(), gjson.ParseBytes(text).Value())
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// escape quotes a key for sjson.
func escape(key string) string {
	return strings.NewReplacer(".", `\.`, "*", `\*`, "?", `\?`, "|", `\|`, "#", `\#`, "@", `\@`,
		":", `\:`).Replace(key)
}

// errRefused is for documents that must not be edited.
var errRefused = errors.New("it must not be changed")

// Edit returns a document with the differences of a decision fixed, and everything else unchanged;
// nil if there is nothing to do.
func (d Decision) Edit(have []byte) ([]byte, error) {
	switch d.Verb {
	case Keep:
		return nil, nil
	case Change:
	default:
		return nil, errRefused
	}
	out := slices.Clone(have)
	for _, difference := range d.Differences {
		var err error
		if out, err = sjson.SetBytes(out, difference.place, difference.value); err != nil {
			return nil, fmt.Errorf("%s: %w", difference.Path, err)
		}
	}
	return out, nil
}
