package serve

import (
	"fmt"
	"slices"
	"strings"
)

// right is what a caller may do. Each is given on its own: a program that sends events has no
// reason to see pages, and a person who sees them may not be meant to change routes.
type right int

const (
	// toSend is to send events, which start checks.
	toSend right = iota
	// toMeasure is to read metrics: senders with the secret may, and who may look.
	toMeasure
	// toLook is to see the pages and metrics, and to start a check.
	toLook
	// toAct is to sync and repair with the buttons.
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

// token reports whether an application has the right, or one of a token's roles.
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

// grant sets the rights of a caller. Who may act may look: a preview is a page.
func (c *caller) grant(has func(Callers) bool, a Auth) {
	c.may[toSend] = has(a.Send)
	c.may[toAct] = has(a.Act)
	c.may[toLook] = c.may[toAct] || has(a.Look)
	c.may[toMeasure] = c.may[toLook]
}
