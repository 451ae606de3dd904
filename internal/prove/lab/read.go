package lab

import (
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// writes is how often a table is written, reads how often it is read after each write.
const writes, reads = 5, 5

// readsAfterWrites writes a table, and reads it as soon as the write has ended.
func (t *trial) readsAfterWrites() {
	var r prove.Reads
	for range writes {
		e := t.edit(t.ready(t.table()), t.hop)
		t.follow(t.accepted(t.table(), e.body))
		for range reads {
			r.Gets++
			if !e.shows(t.get(t.table())) {
				r.StaleGets++
			}
		}
		r.Lists++
		if !t.listed(t.table(), func(item gjson.Result) bool {
			return e.shows(arm.Document{Raw: []byte(item.Raw)})
		}) {
			r.StaleLists++
		}
	}
	t.seen.Reads = &r
}

// networkInterface makes an interface, checks where it appears, and deletes it.
func (t *trial) networkInterface() {
	var n prove.Interface
	reply := t.accepted(t.probe(), encode(object{"location": t.Location, "properties": object{
		"ipConfigurations": []any{object{"name": "ip", "properties": object{
			"privateIPAllocationMethod": "Dynamic", "subnet": object{"id": string(t.spare())}}}},
	}}))
	n.Updating = !inventory.Settled(reply.Body)
	n.Operation = reply.Header.Get("Azure-AsyncOperation") != ""
	t.follow(reply)
	n.Listed = t.listed(t.probe(), func(item gjson.Result) bool {
		const ip = "properties.ipConfigurations.0.properties.privateIPAddress"
		return item.Get(ip).String() != ""
	})
	t.ready(t.probe())
	subnet := t.ready(t.spare())
	for _, c := range gjson.GetBytes(subnet.Raw, "properties.ipConfigurations").Array() {
		id := strings.ToLower(c.Get("id").String())
		n.InSubnet = n.InSubnet || strings.HasPrefix(id, t.probe().Key()+"/")
	}
	reply = t.remove(t.probe())
	n.Deleted = answerOf(reply)
	t.follow(reply)
	n.StillListed = t.listed(t.probe(), func(gjson.Result) bool { return true })
	t.seen.Interface = &n
}
