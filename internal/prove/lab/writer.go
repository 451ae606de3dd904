package lab

import (
	"context"
	"sync"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// sending is a PUT to send together with others.
type sending struct {
	id   arm.ID
	edit edit
	etag string

	reply azure.Reply
	err   error
}

// together sends PUTs at the same moment, and waits until all have ended.
func (l *lab) together(ctx context.Context, all ...*sending) error {
	var group sync.WaitGroup
	for _, s := range all {
		group.Go(func() { s.reply, s.err = l.put(ctx, s.id, s.edit.body, s.etag) })
	}
	group.Wait()
	for _, s := range all {
		if s.err == nil {
			_, s.err = l.follow(ctx, s.reply)
		}
	}
	for _, s := range all {
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// writersAtOnce sends two PUTs of one table at once, and PUTs of two subnets of one network.
func (l *lab) writersAtOnce(ctx context.Context) error {
	table, err := l.ready(ctx, l.table())
	if err != nil {
		return err
	}
	one, another := &sending{id: l.table(), etag: table.ETag}, &sending{id: l.table(),
		etag: table.ETag}
	for _, s := range []*sending{one, another} {
		if s.edit, err = l.hop(table); err != nil {
			return err
		}
	}
	if err := l.together(ctx, one, another); err != nil {
		return err
	}
	if table, err = l.ready(ctx, l.table()); err != nil {
		return err
	}
	l.seen.SameTable = &prove.Race{
		First: answerOf(one.reply), FirstSeen: one.edit.shows(table),
		Second: answerOf(another.reply), SecondSeen: another.edit.shows(table),
	}

	subnets := []*sending{{id: l.nodes()}, {id: l.spare()}}
	for _, s := range subnets {
		doc, err := l.ready(ctx, s.id)
		if err != nil {
			return err
		}
		if s.edit, err = l.flip(doc); err != nil {
			return err
		}
		if s.edit.body, err = redeployed(s.edit.body); err != nil {
			return err
		}
	}
	if err := l.together(ctx, subnets...); err != nil {
		return err
	}
	shows := func(s *sending) (bool, error) {
		doc, err := l.ready(ctx, s.id)
		return s.edit.shows(doc), err
	}
	r := &prove.Race{First: answerOf(subnets[0].reply), Second: answerOf(subnets[1].reply)}
	if r.FirstSeen, err = shows(subnets[0]); err != nil {
		return err
	}
	r.SecondSeen, err = shows(subnets[1])
	l.seen.Siblings = r
	return err
}

func (l *lab) tableOverlap(ctx context.Context) (err error) {
	l.seen.TableOverlap, err = l.overlap(ctx, l.large(), l.hop)
	return err
}

func (l *lab) subnetOverlap(ctx context.Context) (err error) {
	l.seen.SubnetOverlap, err = l.overlap(ctx, l.nodes(), l.flip)
	return err
}

// overlap puts a resource, and puts it again without waiting for the end of the first operation.
func (l *lab) overlap(
	ctx context.Context, id arm.ID, change func(arm.Document) (edit, error),
) (*prove.Overlap, error) {
	doc, err := l.ready(ctx, id)
	if err != nil {
		return nil, err
	}
	first, err := change(doc)
	if err != nil {
		return nil, err
	}
	second, err := change(arm.Document{ID: id, Raw: first.body})
	if err != nil {
		return nil, err
	}
	for _, e := range []*edit{&first, &second} {
		if e.body, err = redeployed(e.body); err != nil {
			return nil, err
		}
	}
	began, err := l.put(ctx, id, first.body, "")
	if err != nil {
		return nil, err
	}
	v := &prove.Overlap{First: answerOf(began)}
	v.Running = v.First.OK() && !inventory.Settled(began.Body) &&
		began.Header.Get("Azure-AsyncOperation") != ""
	if !v.Running {
		_, err := l.ready(ctx, id)
		return v, err
	}
	next, err := l.put(ctx, id, second.body, "")
	if err != nil {
		return nil, err
	}
	v.Second = answerOf(next)
	end, err := l.follow(ctx, began)
	if err != nil {
		return nil, err
	}
	v.End, v.EndCode, v.EndAgain = end.Status, end.Code, end.Again
	after, err := l.after(ctx, next, id)
	v.SecondSeen = second.shows(after)
	return v, err
}
