package lab

import (
	"cmp"
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
}

// race sends two PUTs at the same moment, waits until both have ended, and reports what each
// resource shows.
func (t *trial) race(first, second sending) *prove.Race {
	if t.err != nil {
		return nil
	}
	var replies [2]azure.Reply
	var errs [2]error
	var group sync.WaitGroup
	for i, s := range []sending{first, second} {
		group.Go(func() {
			replies[i], errs[i] = t.lab.put(t.ctx, s.id, s.edit.body, s.etag)
		})
	}
	group.Wait()
	for i := range replies {
		if errs[i] == nil {
			_, errs[i] = t.lab.follow(t.ctx, replies[i])
		}
	}
	t.err = cmp.Or(errs[0], errs[1])
	one := t.ready(first.id)
	another := one
	if second.id != first.id {
		another = t.ready(second.id)
	}
	return &prove.Race{
		First: answerOf(replies[0]), FirstSeen: first.edit.shows(one),
		Second: answerOf(replies[1]), SecondSeen: second.edit.shows(another),
	}
}

// writersAtOnce sends two PUTs of one table at once, and PUTs of two subnets of one network.
func (t *trial) writersAtOnce() {
	table := t.ready(t.table())
	t.seen.SameTable = t.race(sending{t.table(), t.edit(table, t.hop), table.ETag},
		sending{t.table(), t.edit(table, t.hop), table.ETag})
	subnet := func(id arm.ID) sending {
		e := t.edit(t.ready(id), t.flip)
		e.body = t.took(redeployed(e.body))
		return sending{id: id, edit: e}
	}
	t.seen.Siblings = t.race(subnet(t.nodes()), subnet(t.spare()))
}

func (t *trial) tableOverlap() { t.seen.TableOverlap = t.overlap(t.large(), t.hop) }

func (t *trial) subnetOverlap() { t.seen.SubnetOverlap = t.overlap(t.nodes(), t.flip) }

// overlap puts a resource, and puts it again without waiting for the end of the first operation.
func (t *trial) overlap(id arm.ID, change func(arm.Document) (edit, error)) *prove.Overlap {
	first := t.edit(t.ready(id), change)
	second := t.edit(arm.Document{ID: id, Raw: first.body}, change)
	began := t.put(id, t.took(redeployed(first.body)), "")
	v := &prove.Overlap{First: answerOf(began)}
	v.Running = v.First.OK() && !inventory.Settled(began.Body) &&
		began.Header.Get("Azure-AsyncOperation") != ""
	if !v.Running {
		t.ready(id)
		return v
	}
	next := t.put(id, t.took(redeployed(second.body)), "")
	v.Second = answerOf(next)
	end := t.follow(began)
	v.End, v.EndCode, v.EndAgain = end.Status, end.Code, end.Again
	v.SecondSeen = second.shows(t.after(next, id))
	return v
}
