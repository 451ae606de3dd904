package recordings

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// differences are the recorded paths of a document that ours lacks, or has with another value.
type differences struct{ missing, value, form []difference }

type difference struct{ path, recorded, own string }

func (d *differences) none() bool { return len(d.missing)+len(d.value)+len(d.form) == 0 }

func (d *differences) all() []difference {
	return append(append(append([]difference(nil), d.missing...), d.value...), d.form...)
}

// pairing says how the items of a list are paired: list for a list of resources, page if either has
// only a part.
type pairing struct{ list, page bool }

// compare notes what a recorded value has and ours lacks.
func (r *replay) compare(d *differences, recorded, own any, path string, reads bool, how pairing) {
	switch want := recorded.(type) {
	case map[string]any:
		have, isObject := own.(map[string]any)
		if !isObject {
			r.otherForm(d, recorded, own, path)
			return
		}
		low := map[string]string{}
		for k := range have {
			low[strings.ToLower(k)] = k
		}
		for k, v := range want {
			at := k
			if path != "" {
				at = path + "." + k
			}
			if as, there := low[strings.ToLower(r.ours(k))]; there {
				r.compare(d, v, have[as], at, reads, pairing{})
			} else if v != nil && !r.excused(v) {
				d.missing = append(d.missing, difference{at, encoded(v), ""})
			}
		}
	case []any:
		have, isList := own.([]any)
		if !isList {
			r.otherForm(d, recorded, own, path)
			return
		}
		r.compareLists(d, want, have, path, reads, how)
	case string:
		if have, isText := own.(string); isText {
			r.compareTexts(d, want, have, path, reads)
			return
		}
		r.otherForm(d, recorded, own, path)
	case nil:
	default:
		if fmt.Sprintf("%T", recorded) != fmt.Sprintf("%T", own) {
			r.otherForm(d, recorded, own, path)
		} else if recorded != own {
			d.value = append(d.value, difference{path, encoded(recorded), encoded(own)})
		}
	}
}

func (r *replay) otherForm(d *differences, recorded, own any, path string) {
	if own == nil {
		d.missing = append(d.missing, difference{path, encoded(recorded), ""})
		return
	}
	d.form = append(d.form, difference{path, encoded(recorded), encoded(own)})
}

func (r *replay) compareTexts(d *differences, recorded, own, path string, reads bool) {
	want := r.ours(recorded)
	if want == own {
		return
	}
	r.learn(recorded, own)
	redacted := slices.Contains([]string{"", "*****", "redacted", "{PASSWORD}"}, recorded) ||
		strings.Contains(recorded, "{KEY}")
	want = r.ours(recorded)
	switch {
	case strings.EqualFold(want, own):
	case anything.MatchString(path) || redacted:
		if own == "" && recorded != "" {
			d.value = append(d.value, difference{path, want, own})
		}
	case versions.MatchString(path):
	case strings.HasSuffix(path, "provisioningState") && reads &&
		slices.Contains(moving, strings.ToLower(want)) && strings.EqualFold(own, "Succeeded"):
	case anyAddress.MatchString(path) && shape(want, true) == shape(own, true):
	case shape(want, false) == shape(own, false):
	case strings.HasPrefix(recorded, "/subscriptions/") && !r.there(want):
	default:
		d.value = append(d.value, difference{path, want, own})
	}
}

// compareLists pairs the items of two lists: by ID, by another name, by an ID's form, and finally
// by order.
func (r *replay) compareLists(
	d *differences,
	recorded, own []any,
	path string,
	reads bool,
	how pairing,
) {
	objects := slices.ContainsFunc(
		append(slices.Clone(recorded), own...),
		func(v any) bool { return object(v) != nil },
	)
	if !objects {
		if want, have := r.plain(recorded, true), r.plain(own, false); !slices.Equal(want, have) &&
			!(anyAddress.MatchString(path+"[]") && len(want) == len(have)) {
			d.value = append(d.value, difference{path, fmt.Sprint(want), fmt.Sprint(have)})
		}
		return
	}
	pair, used := map[int]int{}, map[int]bool{}
	match := func(theirs, ours func(any) string, only func(any) bool) {
		free := map[string][]int{}
		for j, v := range own {
			if k := ours(v); k != "" && !used[j] {
				free[k] = append(free[k], j)
			}
		}
		for i, v := range recorded {
			if _, done := pair[i]; done || !only(v) {
				continue
			}
			if k := theirs(v); k != "" && len(free[k]) > 0 {
				pair[i] = free[k][0]
				used[free[k][0]], free[k] = true, free[k][1:]
			}
		}
	}
	field := func(name string, as func(string) string) func(any) string {
		return func(v any) string {
			if s := textOf(object(v)[name]); s != "" {
				return as(s)
			}
			return ""
		}
	}
	lower := func(s string) string { return strings.ToLower(s) }
	translated := func(s string) string { return strings.ToLower(r.ours(s)) }
	all := func(any) bool { return true }
	mine := func(v any) bool { return !how.list || r.ofGroups(textOf(object(v)["id"])) }
	for _, name := range []string{"id", "name", "resourceType", "namespace", "key",
		"subscriptionId"} {
		match(field(name, translated), field(name, lower), all)
	}
	match(
		field("id", func(s string) string { return shape(r.ours(s), true) }),
		field("id", func(s string) string { return shape(s, true) }),
		mine,
	)
	routes := func(v any) string {
		o := object(v)
		if _, isRoute := o["addressPrefix"].([]any); !isRoute {
			return ""
		}
		return encoded(o["addressPrefix"]) + encoded(o["nextHopType"])
	}
	match(routes, routes, all)
	if _, done := pair[0]; !done && len(recorded) == 1 && len(own) == 1 && mine(recorded[0]) {
		pair[0], used[0] = 0, true
	}
	next := 0
	for i, v := range recorded {
		o := object(v)
		if _, done := pair[i]; done || textOf(o["id"]) != "" || textOf(o["name"]) != "" ||
			routes(v) != "" {
			continue
		}
		for next < len(own) && used[next] {
			next++
		}
		if next < len(own) {
			pair[i], used[next] = next, true
		}
	}
	for i, v := range recorded {
		if id := textOf(object(v)["id"]); id != "" && r.taintedBy(r.ours(id)) {
			continue
		}
		if j, done := pair[i]; done {
			r.compare(d, v, own[j], path+"[]", reads, pairing{})
		} else if !how.page && !(how.list && r.unrelated(v)) && !r.excused(v) {
			d.missing = append(d.missing, difference{path + "[]", encoded(v), ""})
		}
	}
}

// plain are the items of a list of plain values, in lower case and sorted.
func (r *replay) plain(items []any, recorded bool) []string {
	out := make([]string, len(items))
	for i, v := range items {
		out[i] = strings.ToLower(encoded(v))
		if recorded {
			out[i] = strings.ToLower(r.ours(encoded(v)))
		}
	}
	sort.Strings(out)
	return out
}

// taintedBy reports whether an ID belongs to a resource that differed earlier, or is inside it.
func (r *replay) taintedBy(id string) bool {
	id = strings.TrimRight(strings.ToLower(id), "/")
	for key := range r.tainted {
		if id == key || strings.HasPrefix(id, key+"/") {
			return true
		}
	}
	return false
}

// there reports whether an ID belongs to a resource that the replay made, or to a part of it.
func (r *replay) there(id string) bool {
	id = strings.TrimRight(strings.ToLower(id), "/")
	for key := range r.made {
		if strings.Contains(key, "/providers/") && (id == key || strings.HasPrefix(id, key+"/")) {
			return true
		}
	}
	return false
}

func (r *replay) ofGroups(id string) bool {
	m := groupInPath.FindStringSubmatch(id)
	return m != nil && r.groups[strings.ToLower(m[1])]
}

// unrelated reports whether an item of a list belongs to something else that was in the
// subscription.
func (r *replay) unrelated(v any) bool {
	id := textOf(object(v)["id"])
	return id != "" &&
		(!r.ofGroups(id) || strings.Contains(id, "/providers/") && !r.there(r.ours(id)))
}

// excused reports whether a recorded value only names resources that no replayed call made.
func (r *replay) excused(v any) bool {
	var named []string
	for _, id := range ids.FindAllString(encoded(v), -1) {
		if strings.Contains(id, "/providers/") {
			named = append(named, id)
		}
	}
	if o := object(v); o != nil {
		own := textOf(o["id"])
		for field := range o {
			if field != "id" && field != "resourceGroup" && own == "" {
				return false
			}
		}
		if own != "" {
			named = []string{own}
		}
	}
	return len(named) > 0 &&
		!slices.ContainsFunc(named, func(id string) bool { return r.there(r.ours(id)) })
}
