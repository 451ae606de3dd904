// Package armtemplate evaluates ARM templates, including compiled Bicep, as far as the template
// itself shows what it would deploy.
//
// How it works. Parse reads a template. Evaluating it gives resources with their values. A value
// that only Azure or the caller knows stays Unknown, or Opaque if it is text. So does everything
// computed from it. An unknown function is noted, never guessed. Functions follow Microsoft's
// reference of template functions; the tests contain its examples.
//
// The package is pure, and must not know what its callers look for in a template.
package armtemplate

import (
	"fmt"
	"strings"
)

// MaxCopies is the maximum number of copies of a loop (copy-resources).
const MaxCopies = 800

// maxSteps limits the work on one template, so that a hostile template ends. A large real template
// takes some 100,000 steps.
const maxSteps = 2_000_000

// Options say where a template is deployed. Empty fields are unknown.
type Options struct {
	Subscription, ResourceGroup, ManagementGroup, Location, DeploymentName string
	// Deployer is the result of deployer(), nil if unknown.
	Deployer *Object
}

// Result is what a template would deploy.
type Result struct {
	// Resources are in the order of the file, those of a nested deployment after it, without the
	// ones whose condition is false.
	Resources []*Resource
	// Outputs are its outputs, each with type and value.
	Outputs *Object
	Notes   []Note
}

// Resource is a resource of a template.
type Resource struct {
	// ID is its resource ID, "" if its name does not fit its type. Name includes the names of its
	// parents.
	ID, Type, Name, APIVersion string
	// Address is its position in the template: resources[2].resources[0], or resources.vnet for a
	// symbolic name.
	Address string
	File    string
	Line    int
	// Looped is set for a copy of a loop, Nested for a resource inside another one.
	Looped, Nested bool
	// Maybe is set if its condition, or the number of its copies, is unknown.
	Maybe *Unknown
	// Existing is set if the template only refers to it.
	Existing bool
	// Body is the resource with all expressions evaluated, Source the resource as written.
	Body, Source *Object

	symbol, loop string
	skipped      bool
	dependsOn    any
	d            *deployment
	scope        *scope
	state        int // of Body: 0 not evaluated, 1 being evaluated, 2 done
	runtime      *Object
	child        *deployment // of a nested deployment
	needs        []*Resource // the resources that it refers to
}

// Note is a remark for the user about the evaluation.
type Note struct {
	Address, File string
	Line          int
	Text          string
	// Unknown is set if something was not understood, or cannot be known from the template.
	Unknown bool
}

// IsTemplate reports whether a document is a deployment template.
func IsTemplate(v any) bool {
	o, _ := v.(*Object)
	if o == nil {
		return false
	}
	_, has := o.Lookup("resources")
	return has && strings.Contains(strings.ToLower(o.Text("$schema")), "deploymenttemplate.json")
}

// place is the place that a note is about.
type place struct {
	address, file string
	line          int
}

// run is one evaluation, with all nested deployments.
type run struct {
	options Options
	// world is nil if nothing is deployed. With planning, world is asked only for scopes, not for
	// the state of resources. verbatim keeps unknown expressions in a body as written.
	world              World
	planning, verbatim bool

	steps  int
	depth  int
	parsed map[string]expression
	notes  []Note
	noted  map[string]bool
}

// limit is the panic that ends an evaluation that would never end.
type limit struct{ text string }

func (r *run) spend(n int) {
	if r.steps += n; r.steps > maxSteps {
		panic(limit{"it grows larger than any template that Azure accepts"})
	}
}

// enter and leave limit the depth of calls.
func (r *run) enter() bool {
	if r.depth >= maxDepth/4 {
		return false
	}
	r.depth++
	return true
}

func (r *run) leave() { r.depth-- }

func (r *run) note(at place, unknown bool, format string, args ...any) {
	// names may hold line breaks
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	key := fmt.Sprint(at.file, at.line, text)
	if r.noted[key] || len(r.notes) == 1000 {
		return
	}
	r.noted[key] = true
	r.notes = append(r.notes, Note{at.address, at.file, at.line, text, unknown})
}

// deployment is a template that is being evaluated: the given one, or a nested one.
type deployment struct {
	*run
	parent   *deployment
	outer    *scope // for a nested one with outer scope: the scope of its expressions
	template *Object
	given    *Object // the values of parameters, each {"value": …}
	at       target
	name     string
	address  string
	values   map[string]any // of parameters and variables
	busy     map[string]bool
	// resources are all resources in order, including those with a false condition.
	resources []*Resource
	outputs   *Object
}

// expressions returns the deployment whose parameters and variables the expressions refer to.
func (d *deployment) expressions() *deployment {
	for d.outer != nil {
		d = d.outer.d
	}
	return d
}

func (d *deployment) scope(at place) *scope {
	if d.outer != nil {
		inner := *d.outer
		inner.d, inner.place = d, at
		return &inner
	}
	return &scope{d: d, place: at}
}

// Evaluate evaluates a template with the parameters of a parameter file, nil for none. The error is
// one line.
func Evaluate(template, parameters *Object, options Options) (result *Result, err error) {
	defer recovered(&err)
	d, err := begin(template, parameters, options, nil)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		known := template.Object("parameters")
		for _, m := range parameters.Members {
			if _, there := known.Lookup(m.Name); !there {
				d.note(place{"parameters." + m.Name, parameters.File, m.Line}, false,
					"the template has no parameter %s, so Azure refuses a value for it",
					shorten(m.Name))
			}
		}
	}
	d.declareAll()
	all := &Result{}
	d.collect(all)
	all.Outputs = d.outputValues()
	all.Notes = d.notes
	return all, nil
}

// begin returns a template that is not evaluated yet. w is nil if nothing is deployed.
func begin(template, parameters *Object, o Options, w World) (*deployment, error) {
	if !IsTemplate(template) {
		return nil, fmt.Errorf("it is not a deployment template: it needs a $schema and resources")
	}
	r := &run{options: o, world: w, planning: true, parsed: map[string]expression{},
		noted: map[string]bool{}}
	return &deployment{run: r, template: template, given: parameters, at: targetOf(template, o),
		name: o.DeploymentName}, nil
}

func (d *deployment) collect(into *Result) {
	for _, r := range d.resources {
		if r.skipped {
			continue
		}
		r.evaluate()
		into.Resources = append(into.Resources, r)
		if r.nested() != nil && d.enter() {
			r.child.collect(into)
			d.leave()
		}
	}
}

func (d *deployment) outputValues() *Object {
	if d.outputs != nil {
		return d.outputs
	}
	source := d.template.Object("outputs")
	// for outputs that refer to each other
	d.outputs = &Object{Open: &Unknown{Why: "an output that is being evaluated"}}
	out := &Object{}
	if source != nil {
		for _, m := range source.Members {
			o, _ := m.Value.(*Object)
			if o == nil {
				continue
			}
			x := d.scope(place{d.address + "outputs." + m.Name, o.File, o.Line})
			if c, has := o.Lookup("condition"); has {
				switch c := x.value(c).(type) {
				case bool:
					if !c {
						continue
					}
				case *Unknown:
					out.Open = c
					continue
				}
			}
			v := &Object{File: o.File, Line: o.Line}
			v.set("type", o.Get("type"), 0)
			if l := o.Object("copy"); l != nil {
				v.set("value", x.expand(l), 0)
			} else {
				v.set("value", x.value(o.Get("value")), 0)
			}
			out.set(m.Name, v, m.Line)
		}
	}
	d.outputs = out
	return out
}
