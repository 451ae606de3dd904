package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/network"
)

// LastWrite is the last change of a resource that the activity log knows of.
type LastWrite struct {
	Resource    network.ID
	Operation   string // Microsoft.Network/virtualNetworks/subnets/write
	At          time.Time
	Caller      string // user principal name, or object ID of a service principal
	Name        string // of a user, where the log has it
	Application string // client ID
	// Identity is the resource whose managed identity it was, "" for anybody else.
	Identity    network.ID
	Correlation string
}

// String says who it was, and when.
func (w LastWrite) String() string {
	who := cmp.Or(w.Name, w.Caller)
	switch {
	case w.Identity.Is("Microsoft.Authorization/policyAssignments"):
		who += ", the identity of policy assignment " + w.Identity.Name()
	case w.Identity != "":
		who += ", the identity of " + w.Identity.Short()
	case w.Application != "" && w.Application != w.Caller:
		who += ", application " + w.Application
	}
	return fmt.Sprintf("%s was last written by %s at %s (%s, correlation %s)", w.Resource.Short(), who, w.At.UTC().Format("2006-01-02 15:04:05 UTC"), w.Operation, w.Correlation)
}

// LastWrite finds who changed a resource last, or one of the resources it is part of: a subnet can be written with its whole
// network. False where the log does not know: it is minutes late, and goes 90 days back.
func (c *Client) LastWrite(ctx context.Context, ids ...network.ID) (LastWrite, bool, error) {
	now := time.Now()
	return c.lastWrite(ctx, now.Add(-logReach), now, "", ids)
}

// OthersWrite finds who changed a resource last in a span of time, or one of the resources it is part of, if it was not the caller. A
// write of the caller's own ends the search: what was before it was changed since.
func (c *Client) OthersWrite(ctx context.Context, from, until time.Time, ids ...network.ID) (LastWrite, bool, error) {
	caller, err := c.caller(ctx)
	if err != nil || caller == "" { // then no write can be told to be somebody else's
		return LastWrite{}, false, err
	}
	if reach := time.Now().Add(-logReach); from.Before(reach) {
		from = reach
	}
	return c.lastWrite(ctx, from, until, caller, ids)
}

// lastWrite is what the newest record in the span says, unless it is of the principal that is not meant.
func (c *Client) lastWrite(ctx context.Context, from, until time.Time, not string, ids []network.ID) (LastWrite, bool, error) {
	var last LastWrite
	own := false
	for _, id := range ids {
		filter := "eventTimestamp ge '" + from.UTC().Format(time.RFC3339) + "' and eventTimestamp le '" + until.UTC().Format(time.RFC3339Nano) + "' and resourceUri eq '" + string(id) + "'"
		next := c.address(network.ID("/subscriptions/"+id.Subscription()), "/providers/Microsoft.Insights/eventtypes/management/values", activityVersion) + "&$filter=" + url.QueryEscape(filter)
		for pages, found := 0, false; next != "" && !found && pages < logPages; pages++ {
			page, err := c.get(ctx, next)
			if err != nil {
				return last, false, err
			}
			values, following, fault := readPage(page, next)
			if fault != nil {
				return last, false, fault
			}
			next = following
			for _, raw := range values { // newest first
				if w, object, ok := writeRecord(raw, id); ok {
					if found = true; w.At.After(last.At) {
						last, own = w, not != "" && (strings.EqualFold(object, not) || strings.EqualFold(w.Caller, not))
					}
					break
				}
			}
		}
	}
	return last, last.Operation != "" && !own, nil
}

// objectClaim is the claim with the object ID of who made a write.
const objectClaim = "http://schemas.microsoft.com/identity/claims/objectidentifier"

// writeRecord reads a record of the activity log: whether it is a write of the resource that was accepted, or has ended well, and the
// object ID of who made it.
func writeRecord(raw []byte, id network.ID) (w LastWrite, object string, ok bool) {
	var r logRecord
	if json.Unmarshal(raw, &r) != nil {
		return LastWrite{}, "", false // a record of another form is of no use here
	}
	written := strings.HasSuffix(strings.ToLower(r.OperationName.Value), "/write")
	took := strings.EqualFold(r.Status.Value, "Succeeded") || strings.EqualFold(r.Status.Value, "Accepted")
	at, err := time.Parse(time.RFC3339Nano, r.EventTimestamp)
	if err != nil || !written || !took || !id.Equal(r.ResourceID) {
		return LastWrite{}, "", false
	}
	return LastWrite{
		Resource: id, Operation: r.OperationName.Value, At: at, Caller: r.Caller, Name: r.Claims["name"], Application: r.Claims["appid"],
		Identity: network.ID(r.Claims["xms_mirid"]), Correlation: r.CorrelationID,
	}, r.Claims[objectClaim], true
}
