package serve

import (
	"fmt"
	"slices"
	"strings"
)

// right is a permission of a caller. Each is granted separately: a program that sends events has no
// reason to see pages, and a person who sees pages may not be allowed to change routes.
type right int

const (
	// toSend allows sending events, which start checks.
	toSend right = iota
	// toMeasure allows reading metrics. Senders with the secret have it, and callers who may look.
	toMeasure
	// toLook allows seeing the pages and metrics, and starting a check.
	toLook
	// toAct allows syncing and repairing with the buttons.
	toAct
)

// Callers are the callers that have a right: applications by client ID, application roles, and
// people in the users file by name.
type Callers struct{ Apps, Roles, Users []string }

// Everyone in Users stands for all people in the users file.
const Everyone = "*"

// Add adds a caller, written as app:ID, role:NAME or user:NAME.
func (c *Callers) Add(who string) error {
	kind, name, found := strings.Cut(who, ":")
	switch {
	case !found || name == "":
	case kind == "app":
		c.Apps = append(c.Apps, name)
		return nil
	case kind == "role":
		c.Roles = append(c.Roles, name)
		return nil
	case kind == "user":
		c.Users = append(c.Users, name)
		return nil
	}
	return fmt.Errorf("%q is not a caller, expected app:ID, role:NAME, user:NAME or user:*", who)
}

// Empty reports whether no caller has the right.
func (c Callers) Empty() bool { return len(c.Apps)+len(c.Roles)+len(c.Users) == 0 }

// tokens reports whether callers with tokens can have the right.
func (c Callers) tokens() bool { return len(c.Apps)+len(c.Roles) > 0 }

// user reports whether a person of the users file has the right.
func (c Callers) user(name string) bool {
	return slices.Contains(c.Users, name) || slices.Contains(c.Users, Everyone)
}

// token reports whether an application or one of its token's roles has the right.
func (c Callers) token(app string, roles []string) bool {
	return app != "" && slices.ContainsFunc(c.Apps, func(a string) bool {
		return strings.EqualFold(a, app)
	}) || slices.ContainsFunc(roles, func(r string) bool { return slices.Contains(c.Roles, r) })
}

// caller is an authenticated caller.
type caller struct {
	name     string
	bySecret bool // with the secret that every sender of events knows
	// May has each right.
	may [toAct + 1]bool
}

// grant sets the rights of a caller. A caller who may act may also look, because a preview is a
// page.
func (c *caller) grant(has func(Callers) bool, a Auth) {
	c.may[toSend] = has(a.Send)
	c.may[toAct] = has(a.Act)
	c.may[toLook] = c.may[toAct] || has(a.Look)
	c.may[toMeasure] = c.may[toLook]
}
