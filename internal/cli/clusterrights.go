package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/provision"
)

// mayBuild returns an error if the caller lacks permissions, before anything is created.
func mayBuild(
	ctx context.Context, a *app, client *azure.Client, c build.Cluster, planned []provision.Outcome,
) error {
	lacks, unread, err := provision.Preflight(ctx, client, c, planned)
	if err != nil {
		return err
	}
	if unread != "" {
		say(a.err, "the rights of this login were not checked: %s\n", unread)
	}
	if len(lacks) == 0 {
		return nil
	}
	var all []string
	roles := map[string]bool{}
	for _, l := range lacks {
		all = append(all, l.String())
		for _, action := range l.Actions {
			switch {
			case strings.HasPrefix(action, arm.TypeRoleDefinition):
				roles["User Access Administrator"] = true
			case strings.HasPrefix(action, arm.TypeRoleAssignment):
				roles["Role Based Access Control Administrator"] = true
			default:
				roles["Contributor"] = true
			}
		}
	}
	if roles["User Access Administrator"] { // it can also assign roles
		delete(roles, "Role Based Access Control Administrator")
	}
	next := "needed there: " + strings.Join(slices.Sorted(maps.Keys(roles)), " and ")
	if roles["User Access Administrator"] {
		next += "; --built-in-roles does without a role definition"
	}
	return fmt.Errorf("nothing was written: this login lacks %s; %s", strings.Join(all, "; "), next)
}
