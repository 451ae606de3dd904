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

// Association is a subnet that should have a table.
type Association struct {
	Cluster string
	Subnet  arm.ID
	Table   arm.ID
	Why     string
}

// Table is a target with the routes it should have: the unmanaged routes, unchanged, and the
// clusters' routes.
type Table struct {
	ID     arm.ID
	Routes []inventory.Route
	// Changes lead from the routes that were read to Routes.
	Changes []Change
	// Limit is the largest number of routes; 0 if none is added.
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

// Association returns the desired table of a subnet, or "".
func (s State) Association(subnet arm.ID) arm.ID {
	for _, a := range s.Associations {
		if a.Subnet.Equal(subnet) {
			return a.Table
		}
	}
	return ""
}
