package inventory

import (
	"regexp"
	"strings"
)

// Permission is what a role, or several, allow at a scope: all actions, less the others.
type Permission struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions,omitempty"`
}

// Rights are what a principal may do at a scope.
type Rights struct {
	Permissions []Permission `json:"permissions"`
	// Denied are what deny assignments take away, whatever is allowed.
	Denied []Permission `json:"denied,omitempty"`
	// DeniedBy names the deny assignments; Undenied says why they could not be read, "" where they were: something may be
	// denied that looks allowed.
	DeniedBy []string `json:"deniedBy,omitempty"`
	Undenied string   `json:"undenied,omitempty"`
	// Roles names the roles the permissions come from, where that is known.
	Roles []string `json:"roles,omitempty"`
	// Failed says why the rights could not be read in full, "" where they were: what is not allowed by them may be allowed then.
	Failed string `json:"failed,omitempty"`
}

// May reports whether an action is allowed. A NotAction only takes away from the permission it stands in: another may give it back;
// a deny assignment takes it away for good (Microsoft.Authorization: understand deny assignments).
func (r Rights) May(action string) bool {
	for _, p := range r.Denied {
		if p.covers(action) {
			return false
		}
	}
	for _, p := range r.Permissions {
		if p.covers(action) {
			return true
		}
	}
	return false
}

func (p Permission) covers(action string) bool {
	return anyAction(p.Actions, action) && !anyAction(p.NotActions, action)
}

// anyAction reports whether one of the patterns, in which * stands for anything, matches an action; without case.
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
