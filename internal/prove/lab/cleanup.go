package lab

import (
	"cmp"
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
)

// Process distinguishes groups of running programs from groups of killed ones.
type Process struct {
	// Self identifies this process.
	Self string
	// Ended reports whether the process that made a group has certainly ended.
	Ended func(by string) bool
}

// Leftover is a throwaway group of an earlier run.
type Leftover struct {
	Group arm.ID
	// Stale is true if its run has certainly ended. Otherwise another run may be using it.
	Stale bool
	Until string // when it is certainly stale
}

// Leftovers finds the throwaway groups in a subscription by their tag, which contains their name.
func Leftovers(
	ctx context.Context, client *azure.Client, subscription string, p Process,
) ([]Leftover, error) {
	l := &lab{client: client, record: newRecorder(nil, subscription)}
	below := "/resourceGroups?api-version=" + groupVersion +
		"&$filter=" + url.QueryEscape("tagName eq '"+Tag+"'")
	var found []Leftover
	err := l.each(ctx, "/subscriptions/"+subscription+below, func(doc gjson.Result) {
		id, err := arm.ParseID(doc.Get("id").String())
		if err != nil || !ours(id, doc) {
			return
		}
		left := Leftover{Group: id, Until: tagOf(doc, untilTag)}
		until, err := time.Parse(time.RFC3339, left.Until)
		left.Stale = err == nil && time.Now().After(until) || p.Ended(tagOf(doc, byTag))
		found = append(found, left)
	})
	return found, err
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
	l := &lab{client: client, record: newRecorder(nil, group.Subscription()), group: group,
		made: true}
	return l.cleanUp(within)
}

// cleanUp deletes the group, if this program has made it and it contains nothing else. If a call
// fails, it tries again until the group is gone or the time is up.
func (l *lab) cleanUp(ctx context.Context) error {
	if !l.made {
		return nil
	}
	var last error
	for ctx.Err() == nil {
		gone, final, err := l.deleteGroup(ctx)
		if gone {
			return nil
		}
		if final {
			return stillExists(l, err)
		}
		last = err
		if azure.Pause(ctx, 2*pollInterval) != nil {
			break
		}
	}
	return stillExists(l, last)
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

// deleteGroup checks the group and deletes it. A final error says why it cannot be deleted.
func (l *lab) deleteGroup(ctx context.Context) (gone, final bool, err error) {
	at := address(l.group, "", groupVersion)
	reply, err := l.send(ctx, azure.Request{Method: http.MethodGet, Address: at})
	if err != nil {
		return false, false, err
	}
	doc := gjson.ParseBytes(reply.Body)
	fault := reply.Fault()
	switch {
	case reply.Status == http.StatusNotFound:
		return true, true, nil
	case fault != nil:
		return false, fault.Refused(), refusedBy(fault)
	case !ours(l.group, doc):
		return false, true, fmt.Errorf("it lacks the tag %s with its name, %w", Tag, errNotOurs)
	case doc.Get("properties.provisioningState").String() != "Deleting":
		if err := l.onlyOurs(ctx); err != nil {
			return false, errors.Is(err, errNotOurs), err
		}
		reply, err = l.send(ctx, azure.Request{Method: http.MethodDelete, Address: at})
		if err != nil {
			return false, false, err
		}
		if fault := reply.Fault(); fault != nil && reply.Status != http.StatusNotFound {
			return false, fault.Refused(), refusedBy(fault)
		}
		end, err := l.follow(ctx, reply)
		switch {
		case err != nil:
			return false, false, err
		case end.Code != "":
			return false, false, fmt.Errorf("its deletion ended as %s", end.Code)
		}
		gone, err := l.groupGone(ctx)
		return gone, gone, err
	}
	return false, false, errors.New("it is being deleted")
}

// groupGone reads the group again: only a 404 proves that it is gone.
func (l *lab) groupGone(ctx context.Context) (bool, error) {
	at := address(l.group, "", groupVersion)
	reply, err := l.send(ctx, azure.Request{Method: http.MethodGet, Address: at})
	if err == nil && reply.Status != http.StatusNotFound {
		err = errors.New("it still exists")
	}
	return err == nil, err
}

// errNotOurs prevents the delete of a group.
var errNotOurs = errors.New("so prove did not make all of it")

// onlyOurs refuses to delete a group that contains a resource that no run makes.
func (l *lab) onlyOurs(ctx context.Context) error {
	made := []arm.ID{l.table(), l.large(), l.filter(), l.network(), l.probe()}
	var other error
	err := l.each(ctx, address(l.group, "/resources", groupVersion), func(item gjson.Result) {
		id := arm.ID(item.Get("id").String())
		if other == nil && !slices.ContainsFunc(made, id.Equal) {
			other = fmt.Errorf("it holds %s, %w", id.Short(), errNotOurs)
		}
	})
	return cmp.Or(other, err)
}
