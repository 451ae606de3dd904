package lab

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/inventory"
	"routekeeper.dev/routekeeper/internal/prove"
)

// unknownField is a field that no api-version has.
const unknownField = "routekeeperProof"

func (l *lab) unknownFields(ctx context.Context) error {
	var u prove.Unknown
	for _, f := range []struct {
		id     arm.ID
		path   string
		answer *prove.Answer
		kept   *bool
	}{
		{l.spare(), "properties." + unknownField, &u.Subnet, &u.SubnetKept},
		{l.large(), "properties.routes.0.properties." + unknownField, &u.Route, &u.RouteKept},
	} {
		doc, err := l.ready(ctx, f.id)
		if err != nil {
			return err
		}
		e, err := edited(doc.Raw, f.path, "kept")
		if err != nil {
			return err
		}
		reply, err := l.put(ctx, f.id, e.body, "")
		if err != nil {
			return err
		}
		*f.answer = answerOf(reply)
		after, err := l.after(ctx, reply, f.id)
		if err != nil {
			return err
		}
		*f.kept = e.shows(after)
		if !*f.kept {
			continue
		}
		// The other trials work without it.
		clean, err := sjson.DeleteBytes(after.Raw, f.path)
		if err != nil {
			return err
		}
		if _, err := l.write(ctx, f.id, clean); err != nil {
			return err
		}
	}
	l.seen.Unknown = &u
	return nil
}

func (l *lab) largeTables(ctx context.Context) error {
	var limit prove.Limit
	body := func(n int) []byte {
		return encode(object{"location": l.Location, "properties": object{"routes": routes(n)}})
	}
	reply, err := l.put(ctx, l.large(), body(prove.FullTable), "")
	if err != nil {
		return err
	}
	if limit.Full = answerOf(reply); limit.Full.Again {
		return refusedBy(reply.Fault())
	}
	settled := false
	for limit.Full.OK() && !settled {
		if end, err := l.follow(ctx, reply); err != nil {
			return err
		} else if end.Code != "" {
			limit.Full = prove.Answer{Status: http.StatusConflict, Code: end.Code}
			break
		}
		doc, err := l.get(ctx, l.large())
		if err != nil {
			return err
		}
		settled = inventory.Settled(doc.Raw)
		limit.Took = time.Since(reply.Sent)
		if limit.Took > settleWithin {
			break
		}
		if !settled && azure.Pause(ctx, pollInterval) != nil {
			return ctx.Err()
		}
	}
	limit.Settled = settled
	if settled {
		if reply, err = l.put(ctx, l.large(), body(prove.FullTable+1), ""); err != nil {
			return err
		}
		limit.Over = answerOf(reply)
		doc, err := l.after(ctx, reply, l.large())
		if err != nil {
			return err
		}
		limit.OverSeen = len(gjson.GetBytes(doc.Raw, "properties.routes").Array()) > prove.FullTable
	}
	l.seen.Limit = &limit
	return nil
}

// tableInUse tries to delete a table that a subnet uses.
func (l *lab) tableInUse(ctx context.Context) error {
	subnet, err := l.ready(ctx, l.nodes())
	if err != nil {
		return err
	}
	link := arm.ID(gjson.GetBytes(subnet.Raw, "properties.routeTable.id").String())
	if !link.Equal(l.table()) {
		return errNoTable
	}
	reply, err := l.change(ctx, azure.Request{
		Method: http.MethodDelete, Address: address(l.table(), "", networkVersion),
	})
	if err != nil {
		return err
	}
	answer := answerOf(reply)
	if answer.Again {
		return refusedBy(reply.Fault())
	}
	if reply.Status == http.StatusAccepted { // it may be refused at the end
		end, err := l.follow(ctx, reply)
		if err != nil {
			return err
		}
		if end.Code != "" {
			answer = prove.Answer{Status: http.StatusConflict, Code: end.Code}
		}
	}
	l.seen.InUse = &answer
	return nil
}

// networkWrites puts the network without subnets, and then with a subnet without its table.
func (l *lab) networkWrites(ctx context.Context) error {
	var n prove.Network
	before, err := l.ready(ctx, l.network())
	if err != nil {
		return err
	}
	subnets := func(doc arm.Document) []gjson.Result {
		return gjson.GetBytes(doc.Raw, "properties.subnets").Array()
	}
	n.Had = len(subnets(before))
	body, err := redeployed(before.Raw)
	if err != nil {
		return err
	}
	bare, err := sjson.DeleteBytes(body, "properties.subnets")
	if err != nil {
		return err
	}
	after, err := l.write(ctx, l.network(), bare)
	if err != nil {
		return err
	}
	n.Left = len(subnets(after))
	for i, s := range subnets(before) {
		if s.Get("name").String() == nodesName {
			body, err = sjson.DeleteBytes(body, "properties.subnets."+strconv.Itoa(i)+
				".properties.routeTable")
			if err != nil {
				return err
			}
		}
	}
	reply, err := l.put(ctx, l.network(), body, "")
	if err != nil {
		return err
	}
	n.Listed = answerOf(reply)
	if after, err = l.after(ctx, reply, l.network()); err != nil {
		return err
	}
	n.Stripped = true
	for _, s := range subnets(after) {
		if s.Get("name").String() == nodesName && s.Get("properties.routeTable.id").Exists() {
			n.Stripped = false
		}
	}
	l.seen.Network = &n
	return nil
}
