package iac

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// facts are what a plan or a state shows of the present network: which subnet has which table, and
// who uses it. They keep as little as possible of each resource, because there can be very many.
type facts struct {
	// tables has the subnets' tables, by the subnet's key, if anything names one: an association, a
	// subnet, an inline block, or the table itself.
	tables map[string]arm.ID
	// others are the subnets' other properties.
	others map[slot]arm.ID
	// instances are the resources by address without keys, byAddress by whole address, byID by ID.
	instances map[string][]*knownResource
	byAddress map[string]*knownResource
	byID      map[string]*knownResource
	// subnets are the separate subnet resources, by their network's key.
	subnets map[string][]*knownResource
	// bare are the subnets without a table according to an inline block, with the network's
	// address.
	bare []bareBlock
	// pictures are the network before and after.
	pictures [2]picture
	// rewritten are the tables, by key, whose inline routes change.
	rewritten map[string]bool
	// users are clusters, their pools, and gateways.
	users []*tfResource
}

// knownResource is a resource: its place in the code and its ID in Azure.
type knownResource struct {
	address string
	id      arm.ID
	// becomes is its name if it is created or replaced, "" if it stays.
	becomes string
	changes bool
	goes    bool // it is destroyed, and no longer in the code
}

// slot is a property of a subnet, which is named by its key.
type slot struct {
	subnet   string
	property inventory.Property
}

type bareBlock struct {
	subnet  arm.ID
	address string
}

func newFacts() facts {
	return facts{tables: map[string]arm.ID{}, others: map[slot]arm.ID{},
		instances: map[string][]*knownResource{}, byAddress: map[string]*knownResource{},
		byID:    map[string]*knownResource{},
		subnets: map[string][]*knownResource{}, rewritten: map[string]bool{}}
}

// recordUnchanged adds a resource that stays as it is, or that a state has.
func (p *tfPlan) recordUnchanged(r *tfResource) {
	if r.Values == nil || !p.learn(r, r.Values) {
		return
	}
	if r.Mode != "data" {
		p.picture(r, r.Values, r.Values)
	}
	if u := r.user(r.Values); u != nil {
		p.users = append(p.users, u)
	}
}

// recordChanged adds a resource that changes.
func (p *tfPlan) recordChanged(r *tfResource) {
	p.learn(r, r.before())
	if r.Deposed == "" {
		p.picture(r, r.Change.Before, r.expected)
	}
	if r.Type == tfTable && r.updates() &&
		routesDiffer(r.before().Route, r.expected.orEmpty().Route) {
		p.rewritten[r.before().ID.Key()] = true
	}
	// a new resource removes nothing; the pictures have what it adds
	if made := r.creates() &&
		slices.Contains([]string{tfVNet, tfSubnet, tfTable, tfRoute}, r.Type); !made {
		p.changes = append(p.changes, r)
	}
	if s := p.byAddress[r.Address]; s != nil && r.Deposed == "" {
		s.changes, s.goes = true, r.deletes()
		if r.creates() || r.replaces() {
			s.becomes = r.after().Name
		}
	}
}

// learn adds what a resource shows of the network before the changes, and reports whether it is
// new. The same resource appears as a change and in the state, in either order.
func (p *tfPlan) learn(r *tfResource, v *tfValues) bool {
	s := p.byAddress[r.Address]
	if s != nil && r.Deposed == "" {
		return false
	}
	s = &knownResource{address: r.Address, id: v.ID}
	if r.Deposed == "" {
		name := withoutKeys(r.Address)
		p.byAddress[r.Address] = s
		p.instances[name] = append(p.instances[name], s)
	}
	// whose ID is the subnet's
	if v.ID != "" && r.Mode != "data" && p.byID[v.ID.Key()] == nil && associations[r.Type] == "" {
		p.byID[v.ID.Key()] = s
	}
	switch r.Type {
	case tfAssociation, tfNATAssociation, tfGroupAssociation:
		p.recordProperty(v.SubnetID, associations[r.Type], v.gives(associations[r.Type]))
	case tfSubnet:
		p.recordTable(v.ID, v.table())
		if r.Mode != "data" && v.ID != "" {
			p.subnets[v.ID.Parent().Key()] = append(p.subnets[v.ID.Parent().Key()], s)
		}
	case tfAzapi:
		if body, err := v.body(); err == nil &&
			strings.HasPrefix(strings.ToLower(v.AzapiType), strings.ToLower(arm.TypeSubnet)+"@") {
			for _, property := range inventory.Properties {
				p.recordProperty(v.ID, property, body.has(property))
			}
			if r.Mode != "data" && v.ID != "" {
				p.subnets[v.ID.Parent().Key()] = append(p.subnets[v.ID.Parent().Key()], s)
			}
		}
	case tfTable:
		for _, subnet := range v.Subnets {
			p.recordTable(subnet, v.ID)
		}
	case tfVNet:
		for _, b := range v.Subnet {
			id := v.ID.Child("subnets", inline(b).name())
			for property := range inlineAttributes {
				p.recordProperty(id, property, inline(b).has(property))
			}
			if namesTables(v.Subnet) && inline(b).table() == "" {
				p.bare = append(p.bare, bareBlock{id, r.Address})
			}
		}
	}
	return true
}

// recordTable records that a subnet has a table. A resource without a table proves nothing: it may
// have been read earlier.
func (p *tfPlan) recordTable(subnet, table arm.ID) {
	if subnet != "" && table != "" {
		if s := p.byID[table.Key()]; s != nil && s.id == table {
			table = s.id // thousands of subnets can have one table
		}
		p.tables[subnet.Key()] = table
	}
}

// recordProperty records that a subnet has a property, and propertyBefore returns it.
func (p *tfPlan) recordProperty(subnet arm.ID, property inventory.Property, id arm.ID) {
	switch {
	case property == inventory.PropertyTable:
		p.recordTable(subnet, id)
	case subnet != "" && id != "":
		p.others[slot{subnet.Key(), property}] = id
	}
}

func (p *tfPlan) propertyBefore(subnet arm.ID, property inventory.Property) arm.ID {
	if property == inventory.PropertyTable {
		return p.tables[subnet.Key()]
	}
	return p.others[slot{subnet.Key(), property}]
}

// subnet returns the place of a subnet: its own resource, or else the resource that contains it.
func (p *tfPlan) subnet(id arm.ID, by Place) Place {
	place := Place{ID: id, Name: id.Name(), VNet: id.Parent().Name(), Address: by.Address}
	if s := p.byID[id.Key()]; s != nil {
		place.Address = s.address
	}
	return place
}

// reference returns how a module refers to a table: by its resource in the same module, otherwise
// by ID.
func (p *tfPlan) reference(table arm.ID, module string) string {
	if s := p.byID[table.Key()]; s != nil && moduleOf(s.address) == module {
		address := strings.TrimPrefix(strings.TrimPrefix(s.address, module), ".")
		if isAddress(address) {
			return address + ".id"
		}
	}
	return quoteHCL(string(table))
}

// isAddress reports whether an address is what Terraform writes: names, and keys that are
// constants. Anything else would be code.
func isAddress(address string) bool {
	_, diagnostics := hclsyntax.ParseTraversalAbs([]byte(address), "", hcl.InitialPos)
	return !diagnostics.HasErrors()
}

// quoteHCL returns text as a string of Terraform's language, whatever is in it: a template would be
// evaluated.
func quoteHCL(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}
