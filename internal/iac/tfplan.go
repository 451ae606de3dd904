package iac

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// tfPlan is the output of `terraform show -json` (and `tofu show -json`) for a plan or a state,
// with only the kinds of resources that matter here. The format:
// developer.hashicorp.com/terraform/internals/json-format.
type tfPlan struct {
	format  Format
	version string // format_version
	// changes are the planned changes in the order of the file, without no-ops.
	changes []*tfResource
	// facts are what the plan shows of the network before the changes.
	facts
	// refreshed is set if the plan shows that Terraform asked Azure: it reports drift. A plan
	// without drift may have been made with -refresh=false.
	refreshed bool
	errored   bool
	deferred  []string // addresses of kinds that matter, whose changes are put off to a later plan
	config    *tfModule
	notes     []Note
	seen      bool // something that only Terraform writes was in it
}

// tfResource is a resource of a plan or a state.
type tfResource struct {
	Address string    `json:"address"`
	Module  string    `json:"module_address"`
	Mode    string    `json:"mode"`
	Type    string    `json:"type"`
	Name    string    `json:"name"`
	Deposed string    `json:"deposed"`
	Change  tfChange  `json:"change"`
	Reason  string    `json:"action_reason"`
	Values  *tfValues `json:"values"` // of a state
	// expected are the values after a change; what is known only after apply is as before.
	expected *tfValues
}

type tfChange struct {
	Actions   []string        `json:"actions"`
	Before    *tfValues       `json:"before"`
	After     *tfValues       `json:"after"`
	Unknown   unknown         `json:"after_unknown"`
	Importing json.RawMessage `json:"importing"`
	// Forced are the attributes that force a replacement: names, and indices of lists.
	Forced [][]any `json:"replace_paths"`
}

// unknown marks values that are known only after apply: true, or an object or list of the same.
type unknown struct {
	all    bool
	fields map[string]unknown
	items  []unknown
}

func (u *unknown) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '{':
		return json.Unmarshal(raw, &u.fields)
	case '[':
		return json.Unmarshal(raw, &u.items)
	}
	u.all = string(raw) == "true"
	return nil
}

// any reports whether something in it is unknown.
func (u unknown) any() bool {
	if u.all || slices.ContainsFunc(u.items, unknown.any) {
		return true
	}
	for _, f := range u.fields {
		if f.any() {
			return true
		}
	}
	return false
}

// at returns what is unknown of an element of a list.
func (u unknown) at(i int) unknown {
	if u.all || i >= len(u.items) {
		return unknown{all: u.all}
	}
	return u.items[i]
}

// of returns what is unknown of a field.
func (u unknown) of(field string) unknown {
	if u.all {
		return u
	}
	return u.fields[field]
}

// planned reports whether the planned actions are exactly these, in any order.
func (r *tfResource) planned(actions ...string) bool {
	if len(r.Change.Actions) != len(actions) {
		return false
	}
	for _, a := range actions {
		if !slices.Contains(r.Change.Actions, a) {
			return false
		}
	}
	return true
}

func (r *tfResource) creates() bool  { return r.planned("create") }
func (r *tfResource) updates() bool  { return r.planned("update") }
func (r *tfResource) deletes() bool  { return r.planned("delete") }
func (r *tfResource) replaces() bool { return r.planned("delete", "create") }

// place returns the place of a resource in the code.
func (r *tfResource) place() Place { return Place{Address: r.Address} }

// before and after are the values, empty if there are none.
func (r *tfResource) before() *tfValues { return r.Change.Before.orEmpty() }
func (r *tfResource) after() *tfValues  { return r.Change.After.orEmpty() }

// readTerraform reads a plan or a state as `terraform show -json` writes them.
func readTerraform(s *stream) (*tfPlan, error) {
	p := &tfPlan{format: TerraformState, config: &tfModule{}, facts: newFacts()}
	err := s.object(func(key string) error {
		switch key {
		case "format_version":
			return s.decode(&p.version)
		case "terraform_version", "applyable", "complete", "checks":
			p.seen = true
			return s.skip()
		case "errored":
			return s.decode(&p.errored)
		case "planned_values":
			p.format, p.seen = TerraformPlan, true
			return s.skip()
		case "resource_changes":
			p.format, p.seen = TerraformPlan, true
			return s.array(func() error { return p.change(s) })
		case "resource_drift":
			return s.array(func() error {
				p.refreshed = true
				return s.skip()
			})
		case "deferred_changes":
			return s.array(func() error { return p.deferral(s) })
		case "prior_state":
			return s.object(func(key string) error {
				if key == "values" {
					return p.values(s)
				}
				return s.skip()
			})
		case "values":
			p.seen = true
			return p.values(s)
		case "configuration":
			p.format, p.seen = TerraformPlan, true
			return p.config.read(s)
		}
		return s.skip()
	})
	if err == nil {
		err = s.done()
	}
	if err == nil {
		err = p.check()
	}
	return p, err
}

// check makes sure that it is a plan or state of a known version.
func (p *tfPlan) check() error {
	major, _, _ := strings.Cut(p.version, ".")
	switch {
	case !p.seen || p.version == "":
		return errUnknownFormat
	case major != "0" && major != "1":
		return fmt.Errorf("format_version %s is newer than this program knows: expected 1.x",
			p.version)
	case p.errored:
		p.notes = append(p.notes,
			Note{Text: "the plan was made with errors, and is not complete", Unknown: true})
	}
	for _, address := range p.deferred {
		p.notes = append(p.notes, Note{Place: Place{Address: address},
			Text: "its change is deferred to a later plan", Unknown: true})
	}
	return nil
}

// change reads an entry of resource_changes.
func (p *tfPlan) change(s *stream) error {
	raw, err := s.value()
	if err != nil || !matters(raw) {
		return err
	}
	r, err := p.resource(raw)
	if err != nil {
		return err
	}
	switch {
	case r.Mode == "data", r.planned("no-op"), r.planned("read"), r.planned("forget"):
		if r.Values = r.Change.Before; r.Values == nil {
			r.Values = r.Change.After
		}
		p.recordUnchanged(r)
	default:
		r.expect(raw)
		p.recordChanged(r)
	}
	return nil
}

func (p *tfPlan) deferral(s *stream) error {
	raw, err := s.value()
	if change := gjson.GetBytes(raw, "resource_change"); err == nil && matters([]byte(change.Raw)) {
		p.deferred = append(p.deferred, change.Get("address").String())
	}
	return err
}

// values reads the values of a state, module by module.
func (p *tfPlan) values(s *stream) error {
	var module func(string) error
	module = func(key string) error {
		switch key {
		case "root_module":
			return s.object(module)
		case "child_modules":
			return s.array(func() error { return s.object(module) })
		case "resources":
			return s.array(func() error {
				raw, err := s.value()
				if err != nil || !matters(raw) {
					return err
				}
				r, err := p.resource(raw)
				if err == nil {
					p.recordUnchanged(r)
				}
				return err
			})
		}
		return s.skip()
	}
	return s.object(module)
}

// matters reports whether a kind of resource matters here.
func matters(raw []byte) bool { return kinds[gjson.GetBytes(raw, "type").String()] }

// resource decodes a resource.
func (p *tfPlan) resource(raw []byte) (*tfResource, error) {
	r := &tfResource{}
	return r, p.decode(raw, r, r)
}

// decode decodes a resource, or its values. It notes unexpected values, and decodes the rest.
func (p *tfPlan) decode(raw []byte, into any, r *tfResource) error {
	err := json.Unmarshal(raw, into)
	if shape, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		p.notes = append(p.notes,
			Note{Place: r.place(), Text: fmt.Sprintf("its %s is an unexpected %s",
				cmp.Or(shape.Field, "values"), shape.Value), Unknown: true})
		return nil
	}
	if err != nil {
		return fmt.Errorf("a resource is not valid JSON: %w", err)
	}
	return nil
}
