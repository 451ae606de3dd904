package authorization

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// roleHistory are changes of built-in roles: their actions before a date.
var roleHistory = []struct {
	guid, before string
	was          func(r *Role)
}{
	{"b24988ac-6180-42a0-ab88-20f7382dd24c", "2023-07-01", func(r *Role) { // Contributor
		r.Permissions = withoutActions(r.Permissions, "Microsoft.Purview/",
			"Microsoft.Resources/deploymentStacks/")
	}},
	{"f58310d9-a9f6-439a-9e8d-f62e7b41a168", "2023-10-01", func(r *Role) {
		r.Name += " (Preview)"
	}},
	{
		"ed7f3fbd-7b88-4dd4-9017-9adb7ce333f8",
		"2023-12-01",
		func(r *Role) { // Azure Kubernetes Service Contributor Role
			r.Permissions = []kernel.Object{{"actions": []any{
				"Microsoft.ContainerService/managedClusters/read",
				"Microsoft.ContainerService/managedClusters/write",
				"Microsoft.Resources/deployments/*",
			}}}
			completePermissions(r.Permissions)
		},
	},
	{
		"a7ffa36f-339b-4b5c-8bdf-e2c188b2c0eb",
		"2023-05-01",
		func(r *Role) { // Azure Kubernetes Service RBAC Writer
			const cluster = "Microsoft.ContainerService/managedClusters/"
			r.Permissions = withoutActions(r.Permissions, cluster+"discovery.k8s.io/",
				cluster+"metrics.k8s.io/", cluster+"coordination.k8s.io/", cluster+"events/")
			// Azure listed the latter twice
			addDataActions(r, cluster+"events/read", cluster+"replicationcontrollers/*")
		},
	},
	{"d5a2ae44-610b-4500-93be-660a0c5f5ca6", "2023-06-01", func(r *Role) {
		// Kubernetes Agentless Operator
		r.Permissions = withoutActions(r.Permissions, "Microsoft.Features/")
	}},
	{
		"7f6c6a51-bcf8-42ba-9220-52d62157d7db",
		"2023-05-01",
		func(r *Role) { // Azure Kubernetes Service RBAC Reader
			const cluster = "Microsoft.ContainerService/managedClusters/"
			r.Permissions = withoutActions(r.Permissions, cluster+"discovery.k8s.io/",
				cluster+"metrics.k8s.io/")
			addDataActions(r, cluster+"replicationcontrollers/read") // Azure listed it twice
		},
	},
}

// asOf returns a built-in role as of the date of a call.
func (r Role) asOf(c *kernel.Call) Role {
	for _, h := range roleHistory {
		if h.guid == r.Guid && !c.Since(h.before) {
			h.was(&r)
		}
	}
	return r
}

// addDataActions adds data actions to a role.
func addDataActions(r *Role, actions ...string) {
	all := append(kernel.List(r.Permissions[0], "dataActions"), actions...)
	r.Permissions[0]["dataActions"] = kernel.Items(all)
}

// withoutActions returns the permissions without the actions that have one of the given beginnings.
func withoutActions(permissions []kernel.Object, prefixes ...string) []kernel.Object {
	var out []kernel.Object
	for _, p := range permissions {
		kept := kernel.Object{}
		for name := range p {
			actions := slices.DeleteFunc(kernel.List(p, name), func(action string) bool {
				return slices.ContainsFunc(prefixes,
					func(prefix string) bool { return strings.HasPrefix(action, prefix) })
			})
			kept[name] = kernel.Items(actions)
		}
		out = append(out, kept)
	}
	return out
}
