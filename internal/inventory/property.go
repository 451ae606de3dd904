package inventory

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Property is a kind of resource that a subnet refers to by ID: one of the constants below, named
// as in a subnet's document. Lists and words, such as serviceEndpoints, do not fit.
type Property string

// A subnet has at most one of each.
const (
	PropertyTable Property = "routeTable"
	PropertyNAT   Property = "natGateway"
	PropertyGroup Property = "networkSecurityGroup"
)

// Properties are all properties, in the order in which they are shown.
var Properties = []Property{PropertyTable, PropertyNAT, PropertyGroup}

// Field returns the name of the field with its ID in a config, such as routeTableID.
func (p Property) Field() string { return string(p) + "ID" }

// Name returns its name for people, such as route table.
func (p Property) Name() string {
	return map[Property]string{PropertyTable: "route table", PropertyNAT: "NAT gateway",
		PropertyGroup: "network security group"}[p]
}

// Noun returns its short name, such as table.
func (p Property) Noun() string {
	if p == PropertyTable {
		return "table"
	}
	return p.Name()
}

// Type returns the type of the resources that can be the property's value.
func (p Property) Type() string {
	return map[Property]string{PropertyTable: arm.TypeRouteTable, PropertyNAT: arm.TypeNATGateway,
		PropertyGroup: arm.TypeSecurityGroup}[p]
}

// Has returns what the subnet has, or "".
func (s *Subnet) Has(p Property) arm.ID {
	return map[Property]arm.ID{PropertyTable: s.RouteTable, PropertyNAT: s.NATGateway,
		PropertyGroup: s.SecurityGroup}[p]
}

// SetProperties returns a copy of a subnet's document with other values of some properties. Every
// other byte is unchanged, because a subnet has no PATCH, and a PUT drops what it omits.
//
// It refuses a document without properties, which Azure never returns: a PUT would drop what the
// document does not show.
func SetProperties(subnet []byte, values map[Property]arm.ID) ([]byte, error) {
	if !gjson.GetBytes(subnet, "properties").IsObject() {
		return nil, errors.New("the document of the subnet cannot be edited safely: it has no " +
			"properties")
	}
	out := subnet
	for _, p := range slices.Sorted(maps.Keys(values)) {
		var err error
		if out, err = sjson.SetBytes(out, "properties."+string(p),
			map[string]arm.ID{"id": values[p]}); err != nil {
			return nil, fmt.Errorf("setting properties.%s: %w", p, err)
		}
	}
	// If a key is duplicate or has an unusual spelling, the edit would change one place and Azure
	// read another.
	s, err := DecodeSubnet(out)
	if err != nil {
		return nil, err
	}
	for p, value := range values {
		if !s.Has(p).Equal(value) {
			return nil, fmt.Errorf("the document of %s cannot be edited safely: it still names "+
				"the %s %q after the change", s.ID, p.Name(), s.Has(p))
		}
	}
	return out, nil
}

// WithoutProperty returns a copy of a subnet's document without a property. Every other byte is
// unchanged.
func WithoutProperty(subnet []byte, p Property) ([]byte, error) {
	out, err := sjson.DeleteBytes(subnet, "properties."+string(p))
	if err != nil {
		return nil, fmt.Errorf("removing properties.%s: %w", p, err)
	}
	switch s, err := DecodeSubnet(out); {
	case err != nil:
		return nil, err
	case s.Has(p) != "":
		return nil, fmt.Errorf("the document of %s cannot be edited safely: it still names the "+
			"%s %q after the change", s.ID, p.Name(), s.Has(p))
	}
	return out, nil
}
