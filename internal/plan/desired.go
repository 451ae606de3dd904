package plan

import (
	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// State is the desired state.
type State struct {
	Associations []Association
	Tables       []Table
}

// Association is a property that a subnet should have.
type Association struct {
	Cluster  string
	Subnet   arm.ID
	Property inventory.Property
	Value    arm.ID
	Why      string
}

// Table is a target with the routes it should have: the unmanaged routes, unchanged, and the
// clusters' routes.
type Table struct {
	ID     arm.ID
	Routes []inventory.Route
	// Changes turn the routes that were read into Routes.
	Changes []Change
	// Limit is how many routes the table may have, or 0 if Changes add no route.
	Limit int
}

// Table returns the desired state of a table, or nil.
func (s State) Table(id arm.ID) *Table {
	for i := range s.Tables {
		if s.Tables[i].ID.Equal(id) {
			return &s.Tables[i]
		}
	}
	return nil
}

// Properties returns the desired properties of a subnet.
func (s State) Properties(subnet arm.ID) map[inventory.Property]arm.ID {
	values := map[inventory.Property]arm.ID{}
	for _, a := range s.Associations {
		if a.Subnet.Equal(subnet) {
			values[a.Property] = a.Value
		}
	}
	return values
}
