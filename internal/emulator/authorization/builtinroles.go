package authorization

import (
	_ "embed"
	"encoding/json"
)

// Azure's built-in roles, which az and azurerm look up by name: of networks, AKS, managed
// identities and monitoring. GUIDs and actions are those of the built-in-roles documentation.
//
//go:embed builtinroles.json
var builtIn []byte

func builtInRoles() (all []Role) {
	if err := json.Unmarshal(builtIn, &all); err != nil {
		panic(err) // it is part of the program
	}
	for _, r := range all {
		completePermissions(r.Permissions)
	}
	return all
}
