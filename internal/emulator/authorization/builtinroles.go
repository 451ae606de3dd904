package authorization

import (
	_ "embed"
	"encoding/json"
)

// More of Azure's built-in roles, which az and azurerm look up by name: of networks, AKS, managed
// identities and monitoring. GUIDs and actions are those of the built-in-roles documentation.
//
//go:embed builtinroles.json
var moreRoles []byte

func init() {
	var all []struct {
		Name, GUID, Description string
		Permissions             []struct {
			Actions, NotActions, DataActions,
			NotDataActions []string
		}
	}
	if err := json.Unmarshal(moreRoles, &all); err != nil {
		panic(err) // it is part of the program
	}
	for _, r := range all {
		made := Role{Guid: r.GUID, Name: r.Name, Description: r.Description}
		for _, p := range r.Permissions {
			made.Permissions = append(
				made.Permissions,
				permission{p.Actions, p.NotActions, p.DataActions, p.NotDataActions},
			)
		}
		BuiltInRoles = append(BuiltInRoles, made)
	}
}
