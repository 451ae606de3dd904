package lab

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

var errNoTable = errors.New("the subnet has no table, after an earlier trial")

// writes is how often a table is written, reads how often it is read after each write.
const writes, reads = 5, 5

// readsAfterWrites writes a table, and reads it as soon as the write has ended.
func (l *lab) readsAfterWrites(ctx context.Context) error {
	var r prove.Reads
	for range writes {
		doc, err := l.ready(ctx, l.table())
		if err != nil {
			return err
		}
		e, err := l.hop(doc)
		if err != nil {
			return err
		}
		reply, err := l.accepted(ctx, l.table(), e.body)
		if err != nil {
			return err
		}
		if _, err := l.follow(ctx, reply); err != nil {
			return err
		}
		for range reads {
			now, err := l.get(ctx, l.table())
			if err != nil {
				return err
			}
			r.Gets++
			if !e.shows(now) {
				r.StaleGets++
			}
		}
		shows := func(item gjson.Result) bool {
			return e.shows(arm.Document{Raw: []byte(item.Raw)})
		}
		listed, err := l.listed(ctx, l.table(), shows)
		if err != nil {
			return err
		}
		r.Lists++
		if !listed {
			r.StaleLists++
		}
	}
	l.seen.Reads = &r
	return nil
}

// listed reports whether the list of a group's resources of a type shows one of them as expected.
func (l *lab) listed(
	ctx context.Context, id arm.ID, as func(gjson.Result) bool,
) (found bool, err error) {
	below := "/providers/" + id.Type()
	for next := address(l.group, below, networkVersion); next != ""; {
		reply, err := l.fetch(ctx, next)
		if err != nil {
			return false, err
		}
		for _, item := range gjson.GetBytes(reply.Body, "value").Array() {
			if id.Equal(arm.ID(item.Get("id").String())) {
				found = found || as(item)
			}
		}
		next = gjson.GetBytes(reply.Body, "nextLink").String()
	}
	return found, nil
}

// networkInterface makes an interface, checks where it appears, and deletes it.
func (l *lab) networkInterface(ctx context.Context) error {
	var n prove.Interface
	body := encode(object{"location": l.Location, "properties": object{"ipConfigurations": []any{
		object{"name": "ip", "properties": object{
			"privateIPAllocationMethod": "Dynamic", "subnet": object{"id": string(l.spare())}}},
	}}})
	reply, err := l.accepted(ctx, l.probe(), body)
	if err != nil {
		return err
	}
	n.Updating = !inventory.Settled(reply.Body)
	n.Operation = reply.Header.Get("Azure-AsyncOperation") != ""
	if _, err := l.follow(ctx, reply); err != nil {
		return err
	}
	const ip = "properties.ipConfigurations.0.properties.privateIPAddress"
	n.Listed, err = l.listed(ctx, l.probe(), func(item gjson.Result) bool {
		return item.Get(ip).String() != ""
	})
	if err != nil {
		return err
	}
	if _, err := l.ready(ctx, l.probe()); err != nil {
		return err
	}
	subnet, err := l.ready(ctx, l.spare())
	if err != nil {
		return err
	}
	for _, c := range gjson.GetBytes(subnet.Raw, "properties.ipConfigurations").Array() {
		id := strings.ToLower(c.Get("id").String())
		n.InSubnet = n.InSubnet || strings.HasPrefix(id, l.probe().Key()+"/")
	}
	reply, err = l.change(ctx, azure.Request{
		Method: http.MethodDelete, Address: address(l.probe(), "", networkVersion),
	})
	if err != nil {
		return err
	}
	n.Deleted = answerOf(reply)
	if _, err := l.follow(ctx, reply); err != nil {
		return err
	}
	n.StillListed, err = l.listed(ctx, l.probe(), func(gjson.Result) bool { return true })
	l.seen.Interface = &n
	return err
}
