package keeper

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// usage says which clusters use which resources. Keys are ID.Key().
type usage struct {
	of    map[string][]string // resources that a cluster has used since the last reload
	users index               // clusters by the resources they use
	// clusters by the virtual networks and node resource groups that contain these resources
	around index
}

func newUsage() usage {
	return usage{of: map[string][]string{}, users: index{}, around: index{}}
}

// add notes resources that a cluster uses, and reports whether some are new.
func (u *usage) add(cluster string, resources []string) (added bool) {
	have := u.of[cluster]
	for _, resource := range resources {
		if !slices.Contains(have, resource) {
			have, added = append(have, resource), true
			u.users.add(resource, cluster)
			if id := arm.ID(resource); id.Is(arm.TypeSubnet) {
				u.around.add(id.Parent().Key(), cluster)
			}
		}
	}
	if added || have == nil {
		u.of[cluster] = have
		added = u.users.add(cluster, cluster) || added
	}
	return added
}

// related returns clusters and all others that share a resource with them, directly or
// through others.
func (u *usage) related(clusters ...string) map[string]bool {
	in := map[string]bool{}
	for queue := clusters; len(queue) > 0; queue = queue[1:] {
		if in[queue[0]] {
			continue
		}
		in[queue[0]] = true
		for _, resource := range u.of[queue[0]] {
			queue = append(queue, u.users[resource]...)
		}
	}
	return in
}

// concerned returns the clusters that an event about a resource concerns.
func (u *usage) concerned(id arm.ID) []string {
	found := slices.Concat(u.around[id.Key()], u.around[id.Group().Key()])
	if scope, _, about := strings.Cut(id.Key(), "/providers/microsoft.authorization/"); about {
		return u.within(scope)
	}
	for ; id != "" && !id.Is(arm.TypeResourceGroup); id = id.Parent() {
		found = append(found, u.users[id.Key()]...)
	}
	return found
}

// within returns the clusters that use something in a scope: a role, lock or policy applies
// to its whole scope.
func (u *usage) within(scope string) []string {
	var found []string
	for resource, clusters := range u.users {
		if resource == scope || strings.HasPrefix(resource, scope+"/") {
			found = append(found, clusters...)
		}
	}
	return found
}

// index finds the clusters that use a resource, or something inside it. Both are IDs' Key().
type index map[string][]string

// add notes that a cluster uses a resource, and reports whether that is new.
func (i index) add(resource, cluster string) bool {
	if slices.Contains(i[resource], cluster) {
		return false
	}
	i[resource] = append(i[resource], cluster)
	return true
}
