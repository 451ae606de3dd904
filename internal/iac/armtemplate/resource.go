package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

const typeDeployment = "Microsoft.Resources/deployments"

// declareAll finds the resources of a template: how many there are, their names, and whether they
// are deployed.
func (d *deployment) declareAll() {
	d.declareIn(d.template.Get("resources"), d.address+"resources", nil, d.scope(place{}))
}

func (d *deployment) declareIn(resources any, address string, parent *Resource, x *scope) {
	eachSource(resources, func(o *Object, symbol, at string) {
		d.declare(o, symbol, address+at, parent, x)
	})
}

// eachSource calls do for each resource of a list, or of an object with symbolic names. at is its
// address there.
func eachSource(resources any, do func(o *Object, symbol, at string)) {
	switch all := resources.(type) {
	case []any:
		for i, item := range all {
			if o, is := item.(*Object); is {
				do(o, "", fmt.Sprintf("[%d]", i))
			}
		}
	case *Object:
		for _, m := range all.Members {
			if o, is := m.Value.(*Object); is {
				do(o, m.Name, "."+m.Name)
			}
		}
	}
}

func (d *deployment) declare(source *Object, symbol, address string, parent *Resource, x *scope) {
	if source.Text("import") != "" || source.Text("extension") != "" {
		return // a resource of another extension, not of Azure
	}
	inner := *x
	inner.place = place{address, source.File, source.Line}
	repeat := source.Object("copy")
	if repeat == nil {
		d.declareOne(source, symbol, address, parent, &inner)
		return
	}
	name := repeat.Text("name")
	count, unknown := inner.count(repeat)
	if unknown != nil {
		inner.loops = append(slices.Clone(x.loops), loop{name, -1, true})
		d.note(inner.place, true, "how many copies there are of it is not known: %s", unknown.Why)
		if r := d.declareOne(source, symbol, address, parent, &inner); r != nil {
			r.Maybe = unknown
		}
		return
	}
	for i := range count {
		step := inner
		step.loops = append(slices.Clone(x.loops), loop{name, i, true})
		step.place.address = fmt.Sprintf("%s[%d]", address, i)
		if r := d.declareOne(source, symbol, step.place.address, parent, &step); r != nil {
			r.loop = name
			if r.symbol != "" {
				r.symbol = fmt.Sprintf("%s[%d]", symbol, i)
			}
		}
	}
}

func (d *deployment) declareOne(source *Object, symbol, address string, parent *Resource,
	x *scope) *Resource {
	r := &Resource{Address: address, File: source.File, Line: source.Line, d: d, Source: source,
		scope: x, symbol: symbol, Nested: parent != nil, Looped: len(x.loops) > 0}
	r.Existing, _ = x.value(source.Get("existing")).(bool)
	if c, has := source.Lookup("condition"); has {
		switch c := x.value(c).(type) {
		case bool:
			r.skipped = !c
		case *Unknown:
			r.Maybe = c
		}
	}
	r.Type, _ = TextOf(x.value(source.Get("type")))
	r.APIVersion, _ = TextOf(x.value(source.Get("apiVersion")))
	name, named := TextOf(x.value(source.Get("name")))
	if !named { // without a symbol, its position is its name
		name = "{" + address + "}"
		if parent == nil {
			name += strings.Repeat("/"+name, max(0, strings.Count(r.Type, "/")-1))
		}
		if !r.skipped {
			d.note(x.place, true, "the name of a resource of type %s is not known", shorten(r.Type))
		}
	}
	r.Name = name
	if parent != nil &&
		!strings.HasPrefix(strings.ToLower(r.Type), strings.ToLower(parent.Type)+"/") {
		r.Type, r.Name = parent.Type+"/"+r.Type, parent.Name+"/"+name
	}
	if r.ID = r.at(x).id(r.Type, r.Name); r.ID == "" && !r.skipped {
		d.note(x.place, true, "the name %s does not fit the type %s", shorten(r.Name),
			shorten(r.Type))
	}
	d.resources = append(d.resources, r)
	// A condition does not affect children (conditional-resource-deployment).
	if !strings.EqualFold(r.Type, typeDeployment) {
		d.declareIn(source.Get("resources"), address+".resources", r, x)
	}
	return r
}

// at returns the scope to which a resource is deployed.
func (r *Resource) at(x *scope) target {
	at := r.d.at
	if s, is := TextOf(x.value(r.Source.Get("subscriptionId"))); is {
		at = target{subscription: s}
	}
	if g, is := TextOf(x.value(r.Source.Get("resourceGroup"))); is {
		if at.subscription == "" {
			at.subscription = r.d.at.subscription
		}
		at.group = g
	}
	if s, is := TextOf(x.value(r.Source.Get("scope"))); is {
		at = at.within(s)
	}
	return at
}

// evaluate fills Body.
func (r *Resource) evaluate() {
	if r.state != 0 {
		return
	}
	r.state = 1
	r.d.spend(1)
	x := *r.scope
	x.resource = r
	body := r.Source.like()
	for _, m := range r.Source.Members {
		switch strings.ToLower(m.Name) {
		case "copy", "condition", "comments", "resources", "existing":
		case "dependson":
			r.dependsOn = x.value(m.Value)
			r.depend()
		case "properties":
			p, _ := m.Value.(*Object)
			if p != nil && strings.EqualFold(r.Type, typeDeployment) {
				body.set(m.Name, x.value(without(p, "template")), m.Line)
				continue
			}
			body.set(m.Name, x.value(m.Value), m.Line)
		default:
			body.set(m.Name, x.value(m.Value), m.Line)
		}
	}
	r.Body, r.state = body, 2
	r.d.measure(body)
}

// measure counts the size of a value, so that later walks over it end: values can share parts.
func (d *deployment) measure(v any) {
	walk(v, func(part any) bool {
		text, _ := TextOf(part)
		d.spend(1 + len(text)/16)
		return true
	})
}

func without(o *Object, name string) *Object {
	out := o.like()
	out.Members = slices.DeleteFunc(slices.Clone(o.Members), func(m Member) bool {
		return strings.EqualFold(m.Name, name)
	})
	return out
}

// depend notes the resources that dependsOn names: by ID, name or symbol, or by the name of a copy
// loop.
func (r *Resource) depend() {
	list, _ := r.dependsOn.([]any)
	for _, item := range list {
		text, is := TextOf(item)
		if !is {
			continue
		}
		for _, other := range r.d.resources {
			r.d.spend(1)
			if other.called(text) {
				r.needs = append(r.needs, other)
			}
		}
	}
}

// called reports whether an entry of dependsOn means the resource.
func (r *Resource) called(text string) bool {
	base, _, _ := strings.Cut(r.symbol, "[")
	return strings.EqualFold(text, r.ID) || strings.EqualFold(text, r.Name) ||
		r.symbol != "" && (strings.EqualFold(text, r.symbol) || strings.EqualFold(text, base)) ||
		r.loop != "" && strings.EqualFold(text, r.loop) ||
		strings.EqualFold(text, r.Type+"/"+r.Name)
}

// After reports whether a resource is deployed after another one, because it depends on it,
// directly or indirectly.
func (r *Resource) After(other *Resource) bool {
	seen := map[*Resource]bool{}
	var reaches func(at *Resource) bool
	reaches = func(at *Resource) bool {
		if at == nil || seen[at] {
			return false
		}
		seen[at] = true
		for _, need := range at.needs {
			if need == other || need.deploys(other) || reaches(need) {
				return true
			}
		}
		return reaches(at.d.holder())
	}
	return r != other && reaches(r)
}

// holder returns the resource of a nested deployment, or nil.
func (d *deployment) holder() *Resource {
	if d.parent == nil {
		return nil
	}
	for _, r := range d.parent.resources {
		if r.child == d {
			return r
		}
	}
	return nil
}

// deploys reports whether the resource is a nested deployment that deploys the other one, directly
// or through a deployment inside it.
func (r *Resource) deploys(other *Resource) bool {
	for h := other.d.holder(); h != nil; h = h.d.holder() {
		if h == r {
			return true
		}
	}
	return false
}

// nested returns the deployment that a resource describes; nil if the resource is no deployment, or
// if its template is not in the file.
func (r *Resource) nested() *deployment {
	if r.child != nil || !strings.EqualFold(r.Type, typeDeployment) || r.Existing || r.skipped {
		return r.child
	}
	r.evaluate()
	c := r.template()
	if c == nil {
		if link := r.Body.Object("properties").Object("templateLink"); link != nil {
			r.d.note(r.scope.place, true,
				"the linked template %s is not in this file, so what it deploys is unknown",
				shorten(link.Text("uri")+link.Text("id")+link.Text("relativePath")))
		}
		return nil
	}
	if !r.d.enter() {
		panic(limit{"its deployments are nested without end"})
	}
	defer r.d.leave()
	r.child = c
	c.declareAll()
	return c
}

// template returns the nested deployment that a resource describes; nil if its template is not in
// the file.
func (r *Resource) template() *deployment {
	template := r.Source.Object("properties").Object("template")
	if template == nil {
		return nil
	}
	c := &deployment{run: r.d.run, parent: r.d, template: template,
		given: r.Body.Object("properties").Object("parameters"), at: r.at(r.scope), name: r.Name,
		address: r.Address + ".properties.template."}
	if !strings.EqualFold(r.Body.Object("properties").Object("expressionEvaluationOptions").Text(
		"scope"), "inner") {
		outer := *r.scope
		outer.resource = r // references of the nested template belong to this resource
		c.outer = &outer
	}
	return c
}
