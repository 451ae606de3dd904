package armtemplate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// World answers questions that only Azure can answer, during a deployment.
type World interface {
	// Resource returns the current state of a resource at an api-version. Scopes, a resource group
	// or a subscription, have no api-version.
	Resource(id, apiVersion string) (*Object, error)
	// List calls a function of a resource, such as listKeys.
	List(function, id, apiVersion string, body any) (any, error)
	// NewGUID returns a random GUID.
	NewGUID() string
	// Now is when the deployment began.
	Now() time.Time
}

// Deployment is a template that is being deployed. The caller asks for the body of one resource
// after the other. reference() in a body returns what the World shows at that time.
type Deployment struct {
	d     *deployment
	needs map[*Resource][]*Resource
}

// Prepare checks a template and its parameters as Azure does before it deploys anything. Any error
// refuses the whole deployment; errors are one line.
func Prepare(template, parameters *Object, o Options, w World) (ready *Deployment, err error) {
	defer recovered(&err)
	d, err := begin(template, parameters, o, w)
	if err != nil {
		return nil, err
	}
	return d.prepare()
}

// recovered returns an error if an evaluation was stopped because it would never end.
func recovered(err *error) {
	if l, is := recover().(limit); is {
		*err = fmt.Errorf("%s", l.text)
	}
}

// prepare declares the resources and finds what each needs. To do so it evaluates all bodies once,
// without the World, and discards them.
func (d *deployment) prepare() (*Deployment, error) {
	if err := d.checkParameters(); err != nil {
		return nil, err
	}
	d.planning = true
	before := len(d.notes)
	d.declareAll()
	for _, r := range d.resources {
		if err := d.deployable(r, before); err != nil {
			return nil, err
		}
	}
	ready := &Deployment{d: d, needs: map[*Resource][]*Resource{}}
	for _, r := range d.resources {
		if r.skipped || r.Existing {
			continue
		}
		r.evaluate()
		if err := ready.checkDependsOn(r); err != nil {
			return nil, err
		}
		if c := r.nested(); c != nil {
			// References in an outer scope count as references of the containing template.
			for _, inner := range c.resources {
				inner.evaluate()
				r.needs = append(r.needs, inner.needs...)
			}
			c.outputValues()
		}
		for _, need := range r.needs {
			if need != r && need.d == d && !slices.Contains(ready.needs[r], need) &&
				!need.Existing {
				ready.needs[r] = append(ready.needs[r], need)
			}
		}
		ready.needs[r] = append(ready.needs[r], d.earlierCopies(r)...)
	}
	if loop := ready.circle(); loop != nil {
		return nil, fmt.Errorf("circular dependency detected on resource: '%s'", loop.ID)
	}
	return ready, nil
}

// deployable refuses a resource if it is unknown whether, or under which name, it is deployed.
func (d *deployment) deployable(r *Resource, before int) error {
	if r.skipped {
		return nil
	}
	at := fmt.Sprintf("the resource %s (line %d)", shorten(r.Type+" "+r.Name), r.Line)
	switch {
	case r.Maybe != nil:
		return fmt.Errorf("%s: its condition or its number of copies is not known: %s", at,
			r.Maybe.Why)
	case r.ID == "" && !strings.Contains(r.Name, "{"):
		return fmt.Errorf(
			"%s has an incorrect number of segments in its name: a type with n parts has n-1 names",
			at)
	case strings.Contains(r.ID, "{") || r.ID == "":
		why := "its name is not known"
		if len(d.notes) > before {
			why = d.notes[len(d.notes)-1].Text
		}
		return fmt.Errorf("%s: %s", at, why)
	}
	for _, other := range d.resources {
		if other == r {
			return nil
		}
		if !other.skipped && other.Existing == r.Existing && strings.EqualFold(other.ID, r.ID) {
			return fmt.Errorf("%s is defined multiple times in the template", at)
		}
	}
	return nil
}

// checkDependsOn refuses a dependsOn that names nothing in the template.
func (ready *Deployment) checkDependsOn(r *Resource) error {
	list, _ := r.dependsOn.([]any)
	for _, item := range list {
		text, is := TextOf(item)
		if !is {
			continue
		}
		known := false
		for d := ready.d; d != nil && !known; d = d.parent {
			for _, other := range d.resources {
				known = known || other.called(text)
			}
			known = known || d.knowsLoop(text)
			if d.outer == nil {
				break
			}
		}
		if !known {
			return fmt.Errorf(
				"the resource '%s' is not defined in the template (dependsOn of %s, line %d)",
				shorten(text), shorten(r.Name), r.Line)
		}
	}
	return nil
}

// knowsLoop reports whether the template has a copy loop with this name, even one without copies.
func (d *deployment) knowsLoop(name string) bool {
	known := false
	eachSource(d.template.Get("resources"), func(o *Object, symbol, _ string) {
		if l := o.Object("copy"); l != nil {
			known = known || strings.EqualFold(l.Text("name"), name) ||
				symbol != "" && strings.EqualFold(symbol, name)
		}
	})
	return known
}

// earlierCopies returns the copies that a serial loop makes before this one.
func (d *deployment) earlierCopies(r *Resource) []*Resource {
	l := r.Source.Object("copy")
	if r.loop == "" || !strings.EqualFold(l.Text("mode"), "serial") {
		return nil
	}
	size, is := r.scope.value(l.Get("batchSize")).(int64)
	if !is || size < 1 {
		size = 1
	}
	var all []*Resource
	for _, other := range d.resources {
		if other.Source == r.Source && !other.skipped {
			if other == r {
				break
			}
			all = append(all, other)
		}
	}
	whole := len(all) / int(size) * int(size)
	return all[max(0, whole-int(size)):whole]
}

// circle returns a resource that depends on itself, or nil.
func (ready *Deployment) circle() *Resource {
	state := map[*Resource]int{}
	var walk func(r *Resource) *Resource
	walk = func(r *Resource) *Resource {
		switch state[r] {
		case 1:
			return r
		case 2:
			return nil
		}
		state[r] = 1
		for _, need := range ready.needs[r] {
			if found := walk(need); found != nil {
				return found
			}
		}
		state[r] = 2
		return nil
	}
	for _, r := range ready.d.resources {
		if found := walk(r); found != nil {
			return found
		}
	}
	return nil
}

// Resources returns the resources to deploy, in the order of the file, without the ones whose
// condition is false.
func (ready *Deployment) Resources() []*Resource {
	var out []*Resource
	for _, r := range ready.d.resources {
		if !r.skipped && !r.Existing {
			out = append(out, r)
		}
	}
	return out
}

// Needs returns the resources that are deployed before another one, because of dependsOn or
// reference().
func (ready *Deployment) Needs(r *Resource) []*Resource { return ready.needs[r] }

// Planned returns the body of a resource as far as it is known before the deployment. Unknown
// values stay as written.
func (ready *Deployment) Planned(r *Resource) (body *Object, err error) {
	defer recovered(&err)
	ready.d.planning, ready.d.verbatim = true, true
	defer func() { ready.d.verbatim = false }()
	r.forget()
	r.evaluate()
	return r.Body, nil
}

// Body returns the current body of a resource. An unknown value is an error.
func (ready *Deployment) Body(r *Resource) (body *Object, err error) {
	defer recovered(&err)
	ready.d.planning = false
	r.forget()
	ready.d.outputs = nil
	r.evaluate()
	if u := ready.d.unknownIn(r.Body); u != nil {
		return nil, fmt.Errorf("%s", u.Why)
	}
	return r.Body, nil
}

// Nested returns the deployment that a resource describes, in its present state, or nil if the
// resource is no deployment. With planned, it returns what is known before anything is deployed.
func (ready *Deployment) Nested(r *Resource, planned bool) (nested *Deployment, err error) {
	if !strings.EqualFold(r.Type, typeDeployment) {
		return nil, nil
	}
	defer recovered(&err)
	ready.d.planning = planned
	r.forget()
	r.evaluate()
	if !planned {
		properties := without(r.Body.Object("properties"), "template")
		if u := ready.d.unknownIn(properties); u != nil {
			return nil, fmt.Errorf("%s", u.Why)
		}
	}
	c := r.template()
	if c == nil {
		return nil, fmt.Errorf(
			"the nested deployment %s contains no template; linked templates are not read",
			shorten(r.Name))
	}
	r.child = c
	return c.prepare()
}

// Outputs returns the outputs now.
func (ready *Deployment) Outputs() (outputs *Object, err error) {
	defer recovered(&err)
	ready.d.planning, ready.d.outputs = false, nil
	outputs = ready.d.outputValues()
	if u := ready.d.unknownIn(outputs); u != nil {
		return nil, fmt.Errorf("%s", u.Why)
	}
	return outputs, nil
}

// Parameter is a parameter of a deployment. A secret's value must not be shown, so it has none
// here.
type Parameter struct {
	Name, Type string
	Value      any
	Secret     bool
}

// Parameters returns all parameters with their values.
func (ready *Deployment) Parameters() (all []Parameter, err error) {
	defer recovered(&err)
	declared := ready.d.template.Object("parameters")
	if declared == nil || ready.d.outer != nil {
		return nil, nil
	}
	for _, m := range declared.Members {
		o, _ := m.Value.(*Object)
		v, err := parameter(&scope{d: ready.d}, m.Name)
		if err != nil {
			return nil, err
		}
		kind := ready.d.typeOf(o)
		all = append(
			all,
			Parameter{m.Name, kind, v, strings.HasPrefix(strings.ToLower(kind), "secure")},
		)
	}
	return all, nil
}

// forget discards a resource's body, so that it is evaluated again.
func (r *Resource) forget() {
	r.state, r.Body, r.runtime, r.child, r.needs = 0, nil, nil, nil, nil
}
