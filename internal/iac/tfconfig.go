package iac

import (
	"strings"

	"github.com/tidwall/gjson"
)

// tfModule is a module of a plan's configuration: its references, for values that the plan only
// shows as known after apply.
type tfModule struct {
	resources map[string]*tfConfig // by type.name
	calls     map[string]*tfCall
	outputs   map[string][]string // what an output refers to
}

// tfConfig is a resource's configuration: the references of each attribute, nil for a constant.
type tfConfig struct{ attributes map[string][]string }

// tfCall is a call of a module: the references of each input.
type tfCall struct {
	inputs map[string][]string
	module *tfModule
}

// read reads the configuration of a plan.
func (m *tfModule) read(s *stream) error {
	return s.object(func(key string) error {
		if key == "root_module" {
			return m.readModule(s)
		}
		return s.skip()
	})
}

func (m *tfModule) readModule(s *stream) error {
	*m = tfModule{resources: map[string]*tfConfig{}, calls: map[string]*tfCall{},
		outputs: map[string][]string{}}
	return s.object(func(key string) error {
		switch key {
		case "resources":
			return s.array(func() error {
				raw, err := s.value()
				if err == nil && matters(raw) {
					r := gjson.GetManyBytes(raw, "type", "name", "expressions",
						"for_each_expression.references")
					c := &tfConfig{attributes: map[string][]string{}}
					c.learn("", r[2])
					c.attributes["each"] = texts(r[3])
					m.resources[r[0].String()+"."+r[1].String()] = c
				}
				return err
			})
		case "outputs":
			return s.object(func(name string) error {
				raw, err := s.value()
				m.outputs[name] = texts(gjson.GetBytes(raw, "expression.references"))
				return err
			})
		case "module_calls":
			return s.object(func(name string) error {
				call := &tfCall{inputs: map[string][]string{}, module: &tfModule{}}
				m.calls[name] = call
				return s.object(func(key string) error {
					switch key {
					case "module":
						return call.module.readModule(s)
					case "expressions":
						return s.object(func(input string) error {
							raw, err := s.value()
							call.inputs[input] = texts(gjson.GetBytes(raw, "references"))
							return err
						})
					}
					return s.skip()
				})
			})
		}
		return s.skip()
	})
}

// learn records the references of an expression's attributes, also in nested blocks.
func (c *tfConfig) learn(name string, e gjson.Result) {
	switch {
	case e.IsArray():
		for _, item := range e.Array() {
			c.learn(name, item)
		}
	case e.Get("references").IsArray():
		c.attributes[name] = append(c.attributes[name], texts(e.Get("references"))...)
	case e.Get("constant_value").Exists():
		if e.Get("constant_value").Type != gjson.Null && c.attributes[name] == nil {
			c.attributes[name] = []string{}
		}
	case e.IsObject():
		e.ForEach(func(key, value gjson.Result) bool {
			c.learn(key.String(), value)
			return true
		})
	}
}

func texts(list gjson.Result) []string {
	var out []string
	for _, item := range list.Array() {
		out = append(out, item.String())
	}
	return out
}

// withoutKeys returns an address without the instance keys of count and for_each:
// module.net["a.b"].azurerm_subnet.x[0] becomes module.net.azurerm_subnet.x.
func withoutKeys(address string) string {
	var b strings.Builder
	rest := 0
	for _, key := range keysIn(address) {
		b.WriteString(address[rest:key.start])
		rest = key.end
	}
	b.WriteString(address[rest:])
	return b.String()
}

type span struct{ start, end int }

// keysIn finds the instance keys in an address, with their brackets. A key is a number, or any
// text.
func keysIn(address string) []span {
	var keys []span
	quoted, start := false, -1
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case quoted && c == '\\':
			i++
		case c == '"' && start >= 0:
			quoted = !quoted
		case quoted:
		case c == '[' && start < 0:
			start = i
		case c == ']' && start >= 0:
			keys = append(keys, span{start, i + 1})
			start = -1
		}
	}
	return keys
}

// modulesOf returns the names of the modules in an address.
func modulesOf(module string) []string {
	var names []string
	parts := strings.Split(withoutKeys(module), ".")
	for i := 0; i+1 < len(parts) && parts[i] == "module"; i += 2 {
		names = append(names, parts[i+1])
	}
	return names
}

// config returns the configuration of a resource, with the modules that contain it; nil if the file
// has none.
func (p *tfPlan) configOf(r *tfResource) (*tfConfig, []*tfModule, []string) {
	way, names := []*tfModule{p.config}, modulesOf(r.Module)
	for _, name := range names {
		call := way[len(way)-1].calls[name]
		if call == nil {
			return nil, nil, nil
		}
		way = append(way, call.module)
	}
	return way[len(way)-1].resources[r.Type+"."+r.Name], way, names
}

// sets reports whether the configuration sets an attribute, and whether that is known.
func (p *tfPlan) sets(r *tfResource, attribute string) (sets, known bool) {
	c, _, _ := p.configOf(r)
	if c == nil {
		return false, false
	}
	_, sets = c.attributes[attribute]
	return sets, true
}

// refers returns the resources of a kind that an attribute refers to, through variables and outputs
// of modules. Of several instances it prefers the one with the same key. It returns nothing if it
// cannot follow a reference.
func (p *tfPlan) refers(r *tfResource, attribute, kind string) *knownResource {
	c, way, names := p.configOf(r)
	if c == nil {
		return nil
	}
	for _, address := range follow(way, names, c.attributes[attribute], c.attributes["each"], kind,
		0) {
		if found := p.instance(address, r); found != nil {
			return found
		}
	}
	return nil
}

// maxHops limits the variables and outputs that a reference is followed through, so that a loop
// ends.
const maxHops = 20

// follow returns the addresses, without instance keys, of the resources of a kind at the end of
// references.
func follow(way []*tfModule, names, references, each []string, kind string, hops int) []string {
	if hops > maxHops {
		return nil
	}
	var found []string
	here := way[len(way)-1]
	prefix := ""
	for _, name := range names {
		prefix += "module." + name + "."
	}
	for _, ref := range references {
		parts := strings.Split(withoutKeys(ref), ".")
		switch {
		case len(parts) < 2:
		case parts[0] == kind:
			found = append(found, prefix+kind+"."+parts[1])
		case parts[0] == "each" && len(each) > 0:
			found = append(found, follow(way, names, each, nil, kind, hops+1)...)
		case parts[0] == "var" && len(names) > 0:
			up := len(names) - 1
			found = append(found,
				follow(way[:up+1], names[:up], way[up].calls[names[up]].inputs[parts[1]], nil, kind,
					hops+1)...)
		case parts[0] == "module" && len(parts) > 2 && here.calls[parts[1]] != nil:
			in := here.calls[parts[1]].module
			found = append(found, follow(append(way[:len(way):len(way)], in),
				append(names[:len(names):len(names)], parts[1]), in.outputs[parts[2]], nil, kind,
				hops+1)...)
		}
	}
	return found
}

// instance returns the resource with an address without keys: of several, the one with the key of
// the referring resource.
func (p *tfPlan) instance(address string, from *tfResource) *knownResource {
	all := p.instances[address]
	if len(all) == 1 {
		return all[0]
	}
	key := keyOf(from.Address)
	for _, s := range all {
		if key != "" && keyOf(s.address) == key && moduleOf(s.address) == from.Module {
			return s
		}
	}
	var here *knownResource
	for _, s := range all {
		if moduleOf(s.address) == from.Module {
			if here != nil {
				return nil
			}
			here = s
		}
	}
	return here
}

// keyOf returns the instance key at the end of an address, "" for none.
func keyOf(address string) string {
	keys := keysIn(address)
	if len(keys) == 0 || keys[len(keys)-1].end != len(address) {
		return ""
	}
	return address[keys[len(keys)-1].start:]
}

// moduleOf returns the module's part of an address, with its keys.
func moduleOf(address string) string {
	rest := strings.TrimSuffix(address, keyOf(address))
	for range 2 { // the resource's name and type
		if at := strings.LastIndexByte(rest, '.'); at >= 0 {
			rest = rest[:at]
		} else {
			return ""
		}
	}
	return strings.TrimSuffix(rest, ".data")
}
