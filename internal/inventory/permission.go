package inventory

import (
	"regexp"
	"slices"
	"strings"
)

// Permission is what one or more roles allow at a scope: actions without the notActions.
type Permission struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions,omitempty"`
}

// Rights are what a principal may do at a scope.
type Rights struct {
	Permissions []Permission `json:"permissions"`
	// Denied lists the actions that deny assignments forbid, even if a role allows them.
	Denied []Permission `json:"denied,omitempty"`
	// DeniedBy names the deny assignments. Undenied says why the deny assignments could not be
	// read, or "". If it is set, an action that looks allowed may be denied.
	DeniedBy []string `json:"deniedBy,omitempty"`
	Undenied string   `json:"undenied,omitempty"`
	// Roles names the roles that grant the permissions, if known.
	Roles []string `json:"roles,omitempty"`
	// Failed says why the rights could not be read in full, or "". If it is set, actions that look
	// forbidden may be allowed.
	Failed string `json:"failed,omitempty"`
}

// May reports whether an action is allowed. A NotAction limits only its own permission: another
// permission may still allow the action. A deny assignment always forbids the action
// (Microsoft.Authorization: understand deny assignments).
func (r Rights) May(action string) bool {
	covers := func(p Permission) bool { return p.covers(action) }
	return !slices.ContainsFunc(r.Denied, covers) && slices.ContainsFunc(r.Permissions, covers)
}

func (p Permission) covers(action string) bool {
	return anyAction(p.Actions, action) && !anyAction(p.NotActions, action)
}

// anyAction reports whether an action matches one of the patterns, in which * stands for anything.
// It ignores case.
func anyAction(patterns []string, action string) bool {
	for _, p := range patterns {
		if p == "*" || strings.EqualFold(p, action) {
			return true
		}
		if strings.Contains(p, "*") {
			expression := "(?is)^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$"
			if matched, err := regexp.MatchString(expression, action); err == nil && matched {
				return true
			}
		}
	}
	return false
}
