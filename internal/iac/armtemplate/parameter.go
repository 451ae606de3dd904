package armtemplate

import (
	"fmt"
	"strings"
)

// IsParameters reports whether a document is a parameter file.
func IsParameters(v any) bool {
	o, _ := v.(*Object)
	if o == nil {
		return false
	}
	if strings.Contains(strings.ToLower(o.Text("$schema")), "deploymentparameters.json") {
		return true
	}
	// A compiled .bicepparam, as `bicep build-params --stdout` prints it, contains the file as
	// text.
	_, is := o.Get("parametersJson").(string)
	return is
}

// Parameters returns the values in a parameter file, each {"value": …} or {"reference": …}, for
// Evaluate.
func Parameters(v any) (*Object, error) {
	o, _ := v.(*Object)
	if text, is := o.Get("parametersJson").(string); is {
		inner, err := Parse(o.File, []byte(text))
		if err != nil {
			return nil, fmt.Errorf("parametersJson: %w", err)
		}
		o, _ = inner.(*Object)
	}
	values := o.Object("parameters")
	if values == nil {
		return nil, fmt.Errorf("it has no parameters")
	}
	return values, nil
}

// Merge returns all parameters of two files. If both files have a parameter, the second one wins.
func Merge(a, b *Object) *Object {
	if a == nil {
		return b
	}
	out := &Object{File: a.File, Line: a.Line}
	for _, o := range []*Object{a, b} {
		if o == nil {
			continue
		}
		for _, m := range o.Members {
			out.set(m.Name, m.Value, m.Line)
		}
	}
	return out
}

func parameter(x *scope, name string) (any, error) {
	if x.function {
		if v, there := x.locals[strings.ToLower(name)]; there {
			return v, nil
		}
		return nil, fmt.Errorf("the function has no parameter %s", shorten(name))
	}
	d := x.d.expressions()
	declared := d.template.Object("parameters").Object(name)
	if declared == nil {
		return nil, fmt.Errorf("the template has no parameter %s", shorten(name))
	}
	return d.once("parameters."+strings.ToLower(name), func() any {
		return d.parameterValue(name, declared)
	})
}

func (d *deployment) parameterValue(name string, declared *Object) any {
	unknown := &Unknown{Why: "the parameter " + name}
	given, there := d.given.Lookup(name)
	if _, isUnknown := given.(*Unknown); isUnknown {
		return given
	}
	if o, is := given.(*Object); there && is {
		v, has := o.Lookup("value")
		if has && v != nil {
			return v
		}
		if !has {
			return d.placeholder(name, declared, unknown) // a secret from a key vault
		}
	}
	at := place{d.address + "parameters." + name, declared.File, declared.Line}
	if v, has := declared.Lookup("defaultValue"); has {
		return (&scope{d: d, place: at}).value(v)
	}
	nullable, _ := declared.Get("nullable").(bool)
	if nullable || there {
		return nil
	}
	if kind := d.typeOf(declared); strings.HasPrefix(strings.ToLower(kind), "secure") {
		d.note(at, false, "the secret parameter %s has no value here, so what depends on it is "+
			"unknown", name)
	} else {
		d.note(at, true, "the parameter %s (%s) has no value, so what depends on it is unknown: "+
			"name its parameter file", name, strings.ToLower(kind))
	}
	return d.placeholder(name, declared, unknown)
}

// placeholder stands for a parameter without a value: text in braces, or unknown.
func (d *deployment) placeholder(name string, declared *Object, unknown *Unknown) any {
	if kind := strings.ToLower(d.typeOf(declared)); kind == "string" || kind == "securestring" {
		return Opaque("{" + name + "}")
	}
	return unknown
}

// typeOf returns the type of a parameter, and resolves user-defined types.
func (d *deployment) typeOf(declared *Object) string {
	for range 10 {
		ref := declared.Text("$ref")
		name, own := strings.CutPrefix(ref, "#/definitions/")
		if !own {
			break
		}
		declared = d.template.Object("definitions").Object(name)
	}
	if kind := declared.Text("type"); kind != "" {
		return kind
	}
	return "of a type that is not given"
}

func variable(x *scope, name string) (any, error) {
	if x.function {
		return nil, fmt.Errorf("a function of the template has no variables")
	}
	d := x.d.expressions()
	all := d.template.Object("variables")
	for _, l := range all.Objects("copy") {
		if strings.EqualFold(l.Text("name"), name) {
			return d.once("variables."+strings.ToLower(name), func() any {
				return (&scope{d: d,
					place: place{d.address + "variables." + name, l.File, l.Line}}).expand(l)
			})
		}
	}
	source, there := all.Lookup(name)
	if !there {
		return nil, fmt.Errorf("the template has no variable %s", shorten(name))
	}
	return d.once("variables."+strings.ToLower(name), func() any {
		return (&scope{d: d, place: place{d.address + "variables." + name, all.File,
			all.LineOf(name)}}).value(source)
	})
}

// once evaluates a parameter or variable the first time it is needed.
func (d *deployment) once(key string, evaluate func() any) (any, error) {
	if v, done := d.values[key]; done {
		return v, nil
	}
	if d.busy[key] || !d.enter() {
		return nil, fmt.Errorf("%s refers to itself", key)
	}
	defer d.leave()
	if d.values == nil {
		d.values, d.busy = map[string]any{}, map[string]bool{}
	}
	d.busy[key] = true
	v := evaluate()
	delete(d.busy, key)
	d.values[key] = v
	return v, nil
}
