package lab

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// writes is how often a table is written, reads how often it is read after each write.
const writes, reads = 5, 5

// readsAfterWrites writes a table, and reads it as soon as the write has ended.
func (t *trial) readsAfterWrites() {
	staleGets, staleLists := 0, 0
	for range writes {
		e := t.edit(t.ready(t.table()), t.hop)
		t.follow(t.accepted(t.table(), e.body))
		for range reads {
			if !e.shows(t.get(t.table())) {
				staleGets++
			}
		}
		if !t.listed(t.table(), func(item gjson.Result) bool {
			return e.shows(arm.Document{Raw: []byte(item.Raw)})
		}) {
			staleLists++
		}
	}
	seen := fmt.Sprintf("%d of %d GETs showed an older state", staleGets, writes*reads)
	t.fact("fresh-get", confirmedIf(staleGets == 0, seen, seen))
	seen = fmt.Sprintf("%d of %d lists showed an older state", staleLists, writes)
	t.fact("fresh-list", confirmedIf(staleLists == 0, seen, seen))
}

// networkInterface makes an interface, checks where it appears, and deletes it.
func (t *trial) networkInterface() {
	reply := t.accepted(t.probe(), encode(object{"location": t.Location, "properties": object{
		"ipConfigurations": []any{object{"name": "ip", "properties": object{
			"privateIPAllocationMethod": "Dynamic", "subnet": arm.Link(t.spare())}}},
	}}))
	t.fact("interface-at-once", confirmedIf(
		inventory.Settled(reply.Body) && operationOf(reply) == "",
		"it was Succeeded at once", "it began an operation"))
	t.follow(reply)
	listed := t.listed(t.probe(), func(item gjson.Result) bool {
		const ip = "properties.ipConfigurations.0.properties.privateIPAddress"
		return item.Get(ip).String() != ""
	})
	t.fact("interface-list", confirmedIf(listed, "it was listed with its address",
		"it was not listed"))
	t.ready(t.probe())
	subnet, named := t.ready(t.spare()), false
	for _, c := range gjson.GetBytes(subnet.Raw, "properties.ipConfigurations").Array() {
		id := strings.ToLower(c.Get("id").String())
		named = named || strings.HasPrefix(id, t.probe().Key()+"/")
	}
	t.fact("interface-in-subnet", confirmedIf(named, "the subnet named it",
		"the subnet did not name it"))
	reply = t.remove(t.probe())
	t.follow(reply)
	listed = t.listed(t.probe(), func(gjson.Result) bool { return true })
	gone := untested("the deletion was refused: " + answerOf(reply).String())
	if answerOf(reply).OK() {
		gone = confirmedIf(!listed, "it was gone", "it was still listed")
	}
	t.fact("interface-gone", gone)
}
