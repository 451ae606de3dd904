package lab

import (
	"fmt"
	"sync"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// sending is a PUT to send together with another one.
type sending struct {
	id   arm.ID
	edit edit
	etag string

	answer prove.Answer
	seen   bool // a GET afterwards shows the change
}

// race sends two PUTs at the same moment, waits until both have ended, and notes what each resource
// shows.
func (t *trial) race(both ...*sending) {
	if t.err != nil {
		return
	}
	runs := make([]caller, len(both))
	replies := make([]azure.Reply, len(both))
	var group sync.WaitGroup
	for i, s := range both {
		runs[i] = caller{lab: t.lab, ctx: t.ctx}
		group.Go(func() { replies[i] = runs[i].put(s.id, s.edit.body, s.etag) })
	}
	group.Wait()
	for i := range runs {
		runs[i].follow(replies[i])
		t.fail(runs[i].err)
	}
	var doc arm.Document
	for i, s := range both {
		if i == 0 || s.id != both[i-1].id {
			doc = t.ready(s.id)
		}
		s.answer, s.seen = answerOf(replies[i]), s.edit.shows(doc)
	}
}

// writersAtOnce sends two PUTs of one table at once, and PUTs of two subnets of one network.
func (t *trial) writersAtOnce() {
	table := t.ready(t.table())
	first := &sending{id: t.table(), edit: t.edit(table, t.hop), etag: table.ETag}
	second := &sending{id: t.table(), edit: t.edit(table, t.hop), etag: table.ETag}
	t.race(first, second)
	t.fact("same-table", judgeSameTable(first, second))
	subnet := func(id arm.ID) *sending {
		e := t.edit(t.ready(id), t.flip)
		e.body = t.changed(redeployed(e.body))
		return &sending{id: id, edit: e}
	}
	first, second = subnet(t.nodes()), subnet(t.spare())
	t.race(first, second)
	t.fact("sibling-subnets", judgeSiblings(first, second))
}

func judgeSameTable(first, second *sending) prove.Judgement {
	a, b := first.answer, second.answer
	switch {
	case a.OK() && b.OK():
		return differs("both were accepted, and one of them is lost")
	case !a.OK() && !b.OK():
		return untested(fmt.Sprintf("both were refused: %s; %s", a.Brief(), b.Brief()))
	case a.OK() != first.seen || b.OK() != second.seen:
		return differs("the accepted PUT did not take effect")
	}
	return confirmed("the other was refused: " + refused(a, b).Brief())
}

// refused returns the refusal of two answers: the first, if it is one.
func refused(first, second prove.Answer) prove.Answer {
	if first.OK() {
		return second
	}
	return first
}

func judgeSiblings(first, second *sending) prove.Judgement {
	a, b := first.answer, second.answer
	switch {
	case a.OK() && !first.seen || b.OK() && !second.seen:
		return differs("one was accepted, and is lost")
	case !a.OK() && !a.Again:
		return differs("one was refused for good: " + a.String())
	case !b.OK() && !b.Again:
		return differs("one was refused for good: " + b.String())
	case a.OK() && b.OK():
		return confirmed("both were accepted, and took effect")
	case !a.OK() && !b.OK():
		return untested("both were refused for now: " + a.Brief())
	}
	return confirmed("one was refused for now: " + refused(a, b).Brief())
}

func (t *trial) tableOverlap() { t.fact("table-overlap", t.overlap(t.large(), t.hop)) }

func (t *trial) subnetOverlap() { t.fact("subnet-overlap", t.overlap(t.nodes(), t.flip)) }

// overlap puts a resource, and puts it again without waiting for the end of the first operation.
func (t *trial) overlap(id arm.ID, change func(arm.Document) (edit, error)) prove.Judgement {
	first := t.edit(t.ready(id), change)
	second := t.edit(arm.Document{ID: id, Raw: first.body}, change)
	began := t.put(id, t.changed(redeployed(first.body)), "")
	switch answer := answerOf(began); {
	case !answer.OK():
		t.ready(id)
		return untested("the first was refused: " + answer.String())
	case inventory.Settled(began.Body) || operationOf(began) == "":
		t.ready(id)
		return untested("the first ended at once, so nothing was superseded")
	}
	next := t.put(id, t.changed(redeployed(second.body)), "")
	end := t.follow(began)
	return judgeOverlap(end, answerOf(next), second.shows(t.after(next, id)))
}

// judgeOverlap judges the end of an operation and the answer to a PUT that was sent while it was
// running. seen: a GET afterwards shows that PUT's change.
func judgeOverlap(first ending, second prove.Answer, seen bool) prove.Judgement {
	end := first.Status
	if first.Code != "" {
		end += " (" + first.Code + ")"
	}
	switch {
	case !second.OK() && !second.Again:
		return differs("the second was refused for good: " + second.String())
	case first.Status != "Succeeded" && !first.Again:
		return differs("the first ended as " + end +
			", which is not a known code of a superseded operation")
	case !second.OK():
		return confirmed("the second was refused for now: " + second.Brief())
	case !seen:
		return differs("the second was accepted, and is lost")
	}
	return confirmed("the second was accepted, and the first ended as " + end)
}
