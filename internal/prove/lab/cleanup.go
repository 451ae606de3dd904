package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/prove"
)

// Process distinguishes groups of running programs from groups of killed ones.
type Process struct {
	// Self identifies this process.
	Self string
	// Ended reports whether the process that made a group has certainly ended.
	Ended func(by string) bool
}

// Leftovers finds the throwaway groups in a subscription by their tag, which contains their name.
func Leftovers(
	ctx context.Context, client *azure.Client, subscription string, p Process,
) ([]prove.Leftover, error) {
	c := &caller{ctx: ctx, lab: &lab{client: client, record: newRecorder(nil, subscription)}}
	below := "/resourceGroups?api-version=" + groupVersion +
		"&$filter=" + url.QueryEscape("tagName eq '"+Tag+"'")
	found := []prove.Leftover{}
	c.each("/subscriptions/"+subscription+below, func(doc gjson.Result) {
		id, err := arm.ParseID(doc.Get("id").String())
		if err != nil || !ours(id, doc) {
			return
		}
		left := prove.Leftover{Group: id, Until: tagOf(doc, untilTag)}
		until, err := time.Parse(time.RFC3339, left.Until)
		left.Stale = err == nil && time.Now().After(until) || p.Ended(tagOf(doc, byTag))
		found = append(found, left)
	})
	return found, c.err
}

// ours reports whether a group is a throwaway group, by its name and by the tag with this name.
func ours(id arm.ID, doc gjson.Result) bool {
	return id.Is(arm.TypeResourceGroup) && strings.HasPrefix(id.Name(), groupPrefix) &&
		tagOf(doc, Tag) == id.Name()
}

func tagOf(doc gjson.Result, name string) string {
	return doc.Get("tags").Map()[name].String()
}

// Remove deletes a throwaway group and checks that it is gone.
func Remove(ctx context.Context, client *azure.Client, group arm.ID) error {
	within, cancel := context.WithTimeout(ctx, cleanUpWithin)
	defer cancel()
	c := &caller{ctx: within, lab: &lab{client: client, group: group, made: true,
		record: newRecorder(nil, group.Subscription())}}
	c.cleanUp()
	return c.err
}

// cleanUp deletes the group, if this program has made it and it contains nothing else. If a call
// fails, it tries again until the group is gone or the time is up.
func (c *caller) cleanUp() {
	for c.made {
		gone, final := c.deleteGroup()
		if gone {
			return
		}
		why := c.err
		if final || azure.Pause(c.ctx, 2*pollInterval) != nil {
			c.err = stillExists(c.lab, why)
			return
		}
		c.err = nil
	}
}

// stillExists returns the error for a group that still exists: why, and what to do.
func stillExists(l *lab, why error) error {
	if errors.Is(why, errNotOurs) {
		return fmt.Errorf("the group %s stays: %w; check it, and delete it yourself",
			l.group.Name(), why)
	}
	return fmt.Errorf("the group %s still exists: %w; delete it with %s", l.group.Name(), why,
		finding.Command("routekeeper prove --subscription %s --clean", l.group.Subscription()))
}

// deleteGroup checks the group and deletes it. If it is final that it is not gone, the error says
// why it cannot be deleted.
func (c *caller) deleteGroup() (gone, final bool) {
	read := azure.Request{Method: http.MethodGet, Address: address(c.group, "", groupVersion)}
	reply := c.send(read)
	doc, fault := gjson.ParseBytes(reply.Body), reply.Fault()
	switch {
	case c.err != nil:
		return false, false
	case reply.Status == http.StatusNotFound:
		return true, true
	case fault != nil:
		c.err = refusedBy(fault)
		return false, fault.Refused()
	case !ours(c.group, doc):
		c.err = fmt.Errorf("it lacks the tag %s with its name, %w", Tag, errNotOurs)
		return false, true
	case doc.Get("properties.provisioningState").String() == "Deleting":
		c.err = errors.New("it is being deleted")
		return false, false
	}
	if c.onlyOurs(); c.err != nil {
		return false, errors.Is(c.err, errNotOurs)
	}
	reply = c.send(azure.Request{Method: http.MethodDelete, Address: read.Address})
	fault = reply.Fault()
	if c.err == nil && fault != nil && reply.Status != http.StatusNotFound {
		c.err = refusedBy(fault)
		return false, fault.Refused()
	}
	if end := c.follow(reply); end.Code != "" {
		c.err = fmt.Errorf("its deletion ended as %s", end.Code)
	}
	reply = c.send(read) // only a 404 proves that it is gone
	if c.err == nil && reply.Status != http.StatusNotFound {
		c.err = errors.New("it still exists")
	}
	return c.err == nil, false
}

// errNotOurs prevents the delete of a group.
var errNotOurs = errors.New("so prove did not make all of it")

// onlyOurs refuses to delete a group that contains a resource that no run makes.
func (c *caller) onlyOurs() {
	made := []arm.ID{c.table(), c.large(), c.filter(), c.network(), c.probe()}
	c.each(address(c.group, "/resources", groupVersion), func(item gjson.Result) {
		if id := arm.ID(item.Get("id").String()); !slices.ContainsFunc(made, id.Equal) {
			c.fail(fmt.Errorf("it holds %s, %w", id.Short(), errNotOurs))
		}
	})
}
