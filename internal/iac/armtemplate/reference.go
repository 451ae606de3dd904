package armtemplate

import (
	"fmt"
	"slices"
	"strings"
)

// Functions about the template that contains the expression (template-functions-deployment,
// template-functions-resource).
var templateFunctions = map[string]function{
	"parameters":   typed1(parameter),
	"variables":    typed1(variable),
	"copyIndex":    {max: 2, call: copyIndex},
	"reference":    {min: 1, max: 3, open: true, call: reference},
	"references":   {min: 1, max: 2, open: true, call: references},
	"resourceInfo": {min: 1, max: 1, open: true, call: resourceInfo},
}

// find returns the resource of the template with this symbol, ID or name.
func (x *scope) find(name string) *Resource {
	for d := x.d; d != nil; d = d.parent {
		var byName *Resource
		for _, r := range d.resources {
			d.spend(1)
			if r.symbol != "" && strings.EqualFold(r.symbol, name) ||
				r.ID != "" && strings.EqualFold(r.ID, name) {
				return r
			}
			if r.symbol == "" && strings.EqualFold(r.Name, name) && byName == nil && !r.skipped {
				byName = r
			}
		}
		if byName != nil || d.outer == nil {
			return byName
		}
	}
	return nil
}

func reference(x *scope, args []any) (any, error) {
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	name, is := TextOf(args[0])
	if !is {
		return nil, fmt.Errorf("expected a name or an ID, not %s", kindOf(args[0]))
	}
	full := len(args) == 3 && strings.EqualFold(fmt.Sprint(args[2]), "Full")
	r := x.find(name)
	if r == nil {
		if !x.live() {
			return present(name), nil
		}
		version := ""
		if len(args) > 1 {
			version, _ = TextOf(args[1])
		}
		switch {
		case !strings.HasPrefix(name, "/"):
			return nil, fmt.Errorf("%s is neither a resource of the template nor a resource ID",
				shorten(name))
		case version == "":
			return nil, fmt.Errorf("the resource %s is not in the template: name an API version",
				shorten(name))
		}
		return x.shown(name, version, full)
	}
	return x.state(r, full)
}

// live reports whether the state of resources is known, because the deployment is running.
func (x *scope) live() bool { return x.d.world != nil && !x.d.planning }

// shown returns the current state of a resource in Azure.
func (x *scope) shown(id, version string, full bool) (any, error) {
	doc, err := x.d.world.Resource(id, version)
	if err != nil {
		return nil, err
	}
	x.d.measure(doc)
	if !full {
		return doc.Get("properties"), nil
	}
	out := &Object{Members: slices.Clone(doc.Members)}
	for name, value := range map[string]string{"apiVersion": version, "resourceId": id} {
		if out.Member(name) == nil {
			out.set(name, value, 0)
		}
	}
	return out, nil
}

// state returns the current or future state of a resource of the template.
func (x *scope) state(r *Resource, full bool) (any, error) {
	if x.live() {
		return x.shown(r.ID, r.APIVersion, full)
	}
	if x.d.world != nil { // before the deployment, only the dependency is known
		if x.resource != nil && x.resource != r {
			x.resource.needs = append(x.resource.needs, r)
		}
		return present(r.ID), nil
	}
	return x.stateOf(r, full), nil
}

// present returns the state of a resource before the deployment, which is unknown.
func present(id string) *Unknown {
	return &Unknown{Why: "what " + lastOf(id) + " is at present", Of: id}
}

func lastOf(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

// stateOf returns the future state of a resource of the template: its body as written, and further
// members that are unknown.
func (x *scope) stateOf(r *Resource, full bool) any {
	if x.resource != nil && x.resource != r {
		x.resource.needs = append(x.resource.needs, r)
	}
	if r.Existing || r.skipped {
		return present(r.ID)
	}
	if r.state == 1 || !r.d.enter() {
		x.d.note(x.place, true, "%s refers to itself", shorten(r.Name))
		return &Unknown{Why: "a resource that refers to itself"}
	}
	defer r.d.leave()
	r.evaluate()
	if r.runtime == nil {
		open := &Unknown{Why: "what " + lastOf(r.ID) + " says of itself", Of: r.ID}
		body, _ := x.opened(r.Body, open).(*Object)
		body.set("id", marked(r.ID), 0)
		body.set("name", marked(lastOf(r.Name)), 0)
		properties, _ := body.Get("properties").(*Object)
		if properties == nil {
			properties = &Object{Open: open}
			body.set("properties", properties, 0)
		}
		if c := r.nested(); c != nil {
			properties.set("outputs", c.outputValues(), 0)
		}
		for _, s := range properties.Objects("subnets") { // as a network lists its subnets
			if s.Text("name") != "" {
				s.set("id", marked(r.ID+"/subnets/"+s.Text("name")), 0)
			}
		}
		r.runtime = body
	}
	if full {
		return r.runtime
	}
	return r.runtime.Get("properties")
}

// opened copies a value and marks all its objects as open.
func (x *scope) opened(v any, open *Unknown) any {
	x.d.spend(1)
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = x.opened(item, open)
		}
		return list
	case *Object:
		out := &Object{File: v.File, Line: v.Line, Open: open}
		for _, m := range v.Members {
			out.set(m.Name, x.opened(m.Value, open.at(m.Name)), m.Line)
		}
		return out
	}
	return v
}

// references returns all copies of a symbol.
func references(x *scope, args []any) (any, error) {
	name, is := TextOf(args[0])
	if !is {
		return &Unknown{Why: "a list of resources"}, nil
	}
	full := len(args) == 2 && strings.EqualFold(fmt.Sprint(args[1]), "Full")
	list := []any{}
	for _, r := range x.d.resources {
		if base, _, looped := strings.Cut(r.symbol, "["); looped && strings.EqualFold(base, name) {
			v, err := x.state(r, full)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	}
	return list, nil
}

// list calls a function of a resource, such as listKeys(id, version).
func (x *scope) list(c *call) (any, error) {
	args, err := x.evalAll(c.args)
	if err != nil {
		return nil, err
	}
	if u := unknownOf(args); u != nil {
		return u, nil
	}
	if len(args) < 2 || len(args) > 3 {
		return nil, fmt.Errorf("%s takes a resource, an API version and at most one value", c.name)
	}
	id, isID := args[0].(string)
	version, isVersion := args[1].(string)
	if !isID || !isVersion {
		return nil, fmt.Errorf("%s takes a resource and an API version", c.name)
	}
	if r := x.find(id); r != nil {
		id = r.ID
	}
	if len(args) == 2 {
		args = append(args, nil)
	}
	return x.d.world.List(c.name, id, version, args[2])
}

func resourceInfo(x *scope, args []any) (any, error) {
	name, _ := TextOf(args[0])
	r := x.find(name)
	if r == nil {
		return nil, fmt.Errorf("the template has no resource %s", shorten(name))
	}
	return partlyKnown("what is known of a resource", "id", r.ID, "name", lastOf(r.Name), "type",
		r.Type, "apiVersion", r.APIVersion), nil
}
