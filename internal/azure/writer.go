package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// LastWrite is the last change of a resource that the activity log knows of.
type LastWrite struct {
	Resource    arm.ID
	Operation   string // Microsoft.Network/virtualNetworks/subnets/write
	At          time.Time
	Caller      string // user principal name, or object ID of a service principal
	Name        string // of a user, if the log has it
	Application string // client ID
	// Identity is the resource whose managed identity made the change, or "".
	Identity    arm.ID
	Correlation string

	object string // the caller's object ID, "" if the log does not have it
}

// who names the writer.
func (w LastWrite) who() string {
	who := cmp.Or(w.Name, w.Caller)
	switch {
	case w.ByPolicy():
		who += ", the identity of policy assignment " + w.Identity.Name()
	case w.Identity != "":
		who += ", the identity of " + w.Identity.Short()
	case w.Application != "" && w.Application != w.Caller:
		who += ", application " + w.Application
	}
	return who
}

// String says who made the change, and when.
func (w LastWrite) String() string {
	what, did := w.Resource.Short(), "written"
	if whole := w.Resource.Parent(); slices.ContainsFunc(inParts, whole.Is) {
		what = whole.Name() + "/" + what
	}
	if strings.HasSuffix(strings.ToLower(w.Operation), "/delete") {
		did = "deleted"
	}
	return fmt.Sprintf("%s was last %s by %s at %s (%s, correlation %s)", what, did, w.who(),
		w.At.UTC().Format("2006-01-02 15:04:05 UTC"), w.Operation, w.Correlation)
}

// inParts are types whose parts can be written separately: a route, a security rule.
var inParts = []string{arm.TypeRouteTable, arm.TypeSecurityGroup}

// names returns what the record calls the writer, as in Cluster.Principals.
func (w LastWrite) names() (names []string) {
	for _, name := range []string{w.Caller, w.Application, string(w.Identity), w.object} {
		if name != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}

// ByPolicy reports whether an assignment of Azure Policy made the change: its identity writes what
// the policy's modify or deployIfNotExists effect requires.
func (w LastWrite) ByPolicy() bool {
	return w.Identity.Is("Microsoft.Authorization/policyAssignments")
}

// LastWrite finds the last change to a resource, or to one of the resources that contain it: a
// subnet can be written with its whole network, a route table route by route. It returns false if
// the log does not show it: the log is minutes late and goes back 90 days.
func (c *activityLog) LastWrite(ctx context.Context, ids ...arm.ID) (LastWrite, bool, error) {
	now := time.Now()
	last, err := c.lastWrite(ctx, now.Add(-logReach), now, ids)
	return last, last.Operation != "" && err == nil, err
}

// OthersWrite works like LastWrite for a span of time. It returns false if the caller itself made
// the last change, because that changed what others wrote before. Nothing waits for this read, so
// it goes behind all other calls.
func (c *activityLog) OthersWrite(ctx context.Context, from, until time.Time,
	ids ...arm.ID) (LastWrite, bool, error) {
	ctx = withCall(ctx, func(m *manner) { m.yield = true })
	caller, _, err := c.Who(ctx)
	if err != nil || caller == "" { // then no write is known to be another identity's
		return LastWrite{}, false, err
	}
	if reach := time.Now().Add(-logReach); from.Before(reach) {
		from = reach
	}
	last, err := c.lastWrite(ctx, from, until, ids)
	own := strings.EqualFold(last.object, caller) || strings.EqualFold(last.Caller, caller)
	return last, last.Operation != "" && !own && err == nil, err
}

// lastWrite returns the newest write of any of the resources in a span of time.
func (c *activityLog) lastWrite(ctx context.Context, from, until time.Time,
	ids []arm.ID) (LastWrite, error) {
	var last LastWrite
	newest := func(id arm.ID, since time.Time, filter string) (found LastWrite, err error) {
		_, err = c.eachRecord(ctx, id, since, until, filter, func(raw json.RawMessage) (more bool) {
			w, ok := writeRecord(raw, id)
			if ok {
				found = w
			}
			return !ok
		})
		return found, err
	}
	for _, id := range ids {
		found, err := newest(id, from, "resourceUri eq '"+string(id)+"'")
		if err == nil && slices.ContainsFunc(inParts, id.Is) {
			since := from
			if found.At.After(since) {
				since = found.At
			}
			var part LastWrite
			if part, err = newest(id, since, "resourceGroupName eq '"+
				id.ResourceGroup()+"'"); part.At.After(found.At) {
				found = part
			}
		}
		if err != nil {
			return last, err
		}
		if found.At.After(last.At) {
			last = found
		}
	}
	return last, nil
}

// RefusedDelete is a delete that Azure refused because the resource is in use.
type RefusedDelete struct {
	LastWrite
	Code string // InUseRouteTableCannotBeDeleted
}

// String says who tried to delete what, and when.
func (r RefusedDelete) String() string {
	return fmt.Sprintf("%s tried to delete %s at %s (%s, correlation %s)", r.who(),
		r.Resource.Short(), r.At.UTC().Format("2006-01-02 15:04:05 UTC"), r.Code, r.Correlation)
}

// inUse matches the codes with which Azure refuses to delete a resource that another one uses.
var inUse = lazy.Regexp(`InUse\w*CannotBeDeleted|CannotDeleteNatGateway\w*`)

// RefusedDelete finds the newest delete of a resource, since a time, that Azure refused because the
// resource is in use. It returns false if the log does not show one. It goes behind all other
// calls.
func (c *activityLog) RefusedDelete(ctx context.Context, from time.Time,
	id arm.ID) (last RefusedDelete, known bool, err error) {
	ctx = withCall(ctx, func(m *manner) { m.yield = true })
	_, err = c.eachRecord(ctx, id, from, time.Now(), "resourceUri eq '"+string(id)+"'",
		func(raw json.RawMessage) (more bool) {
			var r struct {
				logRecord
				Properties map[string]any `json:"properties"`
			}
			if json.Unmarshal(raw, &r) != nil || !r.ResourceID.Equal(id) ||
				!strings.HasSuffix(strings.ToLower(r.OperationName.Value), "/delete") {
				return true
			}
			message, _ := r.Properties["statusMessage"].(string)
			w, timed := r.write()
			last = RefusedDelete{w, inUse().FindString(message)}
			known = timed && last.Code != ""
			return !known
		})
	return last, known && err == nil, err
}

// eachRecord calls use with the records of a filtered log, the newest first, until use returns
// false. whole is false if the log has more records than were read.
func (c *activityLog) eachRecord(ctx context.Context, id arm.ID, since, until time.Time,
	filter string, use func(json.RawMessage) (more bool)) (whole bool, err error) {
	return c.listSome(ctx, logAddress(c.caller, id.SubscriptionID(), since, until, filter),
		logPages, use)
}

// writeRecord reads a record of the activity log: an accepted or completed write of the resource,
// or a write or delete of a part of it. For a part itself, such as a route, deletes count as well.
func writeRecord(raw []byte, id arm.ID) (LastWrite, bool) {
	var r logRecord
	if json.Unmarshal(raw, &r) != nil {
		return LastWrite{}, false // an unknown kind of record
	}
	// a role assignment or a lock on a table does not change the table
	within := strings.HasPrefix(strings.ToLower(r.ResourceID.Type()),
		strings.ToLower(id.Type())+"/")
	part := slices.ContainsFunc(inParts, id.Is) && within && r.ResourceID.Parent().Equal(id) ||
		slices.ContainsFunc(inParts, id.Parent().Is) && r.ResourceID.Equal(id)
	written := r.isWrite() && (part || id.Equal(r.ResourceID)) ||
		strings.HasSuffix(strings.ToLower(r.OperationName.Value), "/delete") && part
	w, timed := r.write()
	return w, timed && written && r.accepted()
}
