package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/build"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Lack is a set of actions that the caller may not do at a scope.
type Lack struct {
	Scope   arm.ID
	Actions []string
}

func (l Lack) String() string {
	return fmt.Sprintf("%s on %s", strings.Join(l.Actions, ", "), l.Scope)
}

// Preflight lists the rights that the caller lacks for the plan. If it cannot read rights, it says
// why; that does not count as a lack.
func Preflight(ctx context.Context, client *azure.Client, c build.Cluster,
	planned []Outcome) (lacks []Lack, unread string, err error) {
	have := build.Made{}
	for _, o := range planned {
		if o.Have != nil {
			have[o.Step.ID.Key()] = *o.Have
		}
	}
	var needs []build.Need
	for _, o := range planned {
		if o.Verb == build.Create || o.Verb == build.Change {
			needs = append(needs, o.Step.Needs(c, have)...)
		}
	}
	if len(needs) == 0 {
		return nil, "", nil
	}
	var scopes []arm.ID
	for _, n := range needs {
		scopes = append(scopes, n.Scope)
	}
	s := inventory.NewSnapshot()
	if err := client.ReadRights(ctx, s, scopes, nil); err != nil {
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		return nil, err.Error(), nil
	}
	for _, n := range needs {
		own := s.CallerRights[n.Scope.Key()]
		switch {
		case own.May(n.Action):
			continue
		case own.Failed != "":
			unread = own.Failed
			continue
		}
		i := slices.IndexFunc(lacks, func(l Lack) bool { return l.Scope.Equal(n.Scope) })
		if i < 0 {
			i, lacks = len(lacks), append(lacks, Lack{Scope: n.Scope})
		}
		if !slices.Contains(lacks[i].Actions, n.Action) {
			lacks[i].Actions = append(lacks[i].Actions, n.Action)
		}
	}
	return lacks, unread, nil
}
