package iac

import (
	"encoding/json"
	"fmt"
)

// readState reads a raw state (terraform.tfstate, version 4). Its attributes have the same form as
// in plans.
func readState(s *stream) (*Reading, error) {
	p := &tfPlan{format: TerraformState, config: &tfModule{}, facts: newFacts()}
	var version int
	err := s.object(func(key string) error {
		switch key {
		case "version":
			return s.decode(&version)
		case "resources":
			return s.array(func() error {
				raw, err := s.value()
				if err != nil || !matters(raw) {
					return err
				}
				return p.stateResource(raw)
			})
		}
		return s.skip()
	})
	if err == nil {
		err = s.done()
	}
	if err != nil {
		return nil, err
	}
	if version != 4 {
		return nil, fmt.Errorf("it is a state of version %d: expected 4, which Terraform has "+
			"written since 0.12", version)
	}
	return p.judge(), nil
}

func (p *tfPlan) stateResource(raw []byte) error {
	var r struct {
		Module, Mode, Type, Name string
		Instances                []struct {
			IndexKey   json.RawMessage `json:"index_key"`
			Deposed    string          `json:"deposed"`
			Attributes json.RawMessage `json:"attributes"`
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return syntax(err)
	}
	for _, i := range r.Instances {
		if len(i.Attributes) == 0 {
			continue
		}
		address := r.Type + "." + r.Name
		if r.Mode == "data" {
			address = "data." + address
		}
		if r.Module != "" {
			address = r.Module + "." + address
		}
		if len(i.IndexKey) > 0 {
			address += "[" + string(i.IndexKey) + "]"
		}
		one := &tfResource{Address: address, Module: r.Module, Mode: r.Mode, Type: r.Type,
			Name: r.Name, Deposed: i.Deposed}
		if err := p.decode(i.Attributes, &one.Values, one); err != nil {
			return err
		}
		p.recordUnchanged(one)
	}
	return nil
}
