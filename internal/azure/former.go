package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// ReadFormer notes what subnets and route tables had before, as far as the activity log shows it.
// The record of a write's begin has the body of its request (captured: a write of a route table),
// and the record of its end can have the body of the answer (captured: a write of a machine). A
// subnet has no PATCH, so the body of every write has all values that the subnet keeps.
func (c *documents) ReadFormer(ctx context.Context, s *inventory.Snapshot, ids []arm.ID) error {
	logs := map[arm.ID][]arm.ID{} // by the resource of a log: which of ids its writes can change
	newest := map[arm.ID]map[inventory.Property]bodyOf{}
	for _, id := range inventory.SortIDs(ids) {
		newest[id] = map[inventory.Property]bodyOf{}
		logs[id] = append(logs[id], id)
		if id.Is(arm.TypeSubnet) {
			logs[id.Parent()] = append(logs[id.Parent()], id)
		}
	}
	var mu sync.Mutex
	done := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for written, parts := range logs {
		g.Go(func() error {
			found, err := readBodies(ctx, c.activityLog, written, parts)
			mu.Lock()
			defer mu.Unlock()
			done++
			c.progress(done, len(logs), "activity logs")
			if err != nil {
				return noted(s, written.SubscriptionID()+"/providers/"+arm.TypeActivityLog, err)
			}
			for i, id := range parts {
				for property, b := range found[i] {
					if b.at.After(newest[id][property].at) {
						newest[id][property] = b
					}
				}
			}
			return nil
		})
	}
	err := g.Wait()
	for id, all := range newest {
		for _, property := range slices.Sorted(maps.Keys(all)) {
			s.NoteFormer(id, all[property].Former)
		}
	}
	return err
}

// readBodies returns, for each part, what the writes of a resource gave it last: a subnet the value
// of each property, a table the default route. A network's parts are subnets; a subnet or a table
// is its own only part.
func readBodies(ctx context.Context, c *activityLog, written arm.ID,
	parts []arm.ID) ([]map[inventory.Property]bodyOf, error) {
	filter, most := "resourceUri eq '"+string(written)+"'", len(inventory.Properties)*len(parts)
	if written.Is(arm.TypeRouteTable) { // routes have records of their own
		filter, most = "resourceGroupName eq '"+written.ResourceGroup()+"'", 1
	}
	all, known := make([]map[inventory.Property]bodyOf, len(parts)), 0
	accepted := map[string]bool{} // writes by correlation and resource: their end comes first
	now := time.Now()
	each := func(raw json.RawMessage) (more bool) {
		for i, id := range parts {
			for property, b := range bodiesIn(raw, id, accepted) {
				if _, newer := all[i][property]; !newer {
					if all[i] == nil {
						all[i] = map[inventory.Property]bodyOf{}
					}
					all[i][property] = b
					known++
				}
			}
		}
		return known < most
	}
	_, err := c.eachRecord(ctx, written, now.Add(-logReach), now, filter, each)
	return all, err
}

// ReadNamed reads resources that subnets of the snapshot had and no longer have: you cannot give
// back a resource that does not exist. It treats a resource that it cannot read as existing. For
// NAT gateways it reads the activity log, because nothing else needs a right to read them.
func (c *documents) ReadNamed(ctx context.Context, s *inventory.Snapshot) error {
	named := map[inventory.Property][]arm.ID{}
	for _, all := range s.Former {
		for _, h := range all {
			if h.Value != "" {
				named[h.Property] = append(named[h.Property], h.Value)
			}
		}
	}
	for property, ids := range named {
		ids = slices.DeleteFunc(inventory.SortIDs(ids), func(id arm.ID) bool {
			return s.Table(id) != nil || s.SecurityGroups[id.Key()] != nil
		})
		if property == inventory.PropertyNAT {
			for _, id := range ids {
				deleted, err := wasDeleted(ctx, c.activityLog, id)
				if _, fatal := asFault(err); fatal != nil {
					return fatal
				}
				if deleted {
					s.Unread[id.Key()] = inventory.Unread{ID: id, Absent: true}
				}
			}
			continue
		}
		if err := c.read(ctx, property.Type(), networkVersion, asWanted(ids),
			func(w wanted, id arm.ID, body []byte, fault *Error) {
				if fault == nil || unreadFor(id, fault).Absent {
					addRead(s)(w, id, body, fault)
				}
			}); err != nil {
			return err
		}
	}
	return nil
}

// wasDeleted reports whether the last change of a resource in the activity log is its delete.
func wasDeleted(ctx context.Context, c *activityLog, id arm.ID) (deleted bool, err error) {
	now := time.Now()
	_, err = c.eachRecord(ctx, id, now.Add(-logReach), now, "resourceUri eq '"+string(id)+"'",
		func(raw json.RawMessage) (more bool) {
			var r logRecord
			if json.Unmarshal(raw, &r) != nil || !r.accepted() || !r.ResourceID.Equal(id) {
				return true
			}
			deleted = strings.HasSuffix(strings.ToLower(r.OperationName.Value), "/delete")
			return !deleted && !r.isWrite()
		})
	return deleted, err
}

// bodyOf is a value that the body of a write had, and the time of the write.
type bodyOf struct {
	inventory.Former
	at time.Time
}

// bodiesIn returns what a write gave the resource id, by property, as the body in this record of
// the write shows it. It returns nothing for a write that is not in accepted. It adds the write
// there if the record says that Azure accepted it.
func bodiesIn(raw []byte, id arm.ID, accepted map[string]bool) map[inventory.Property]bodyOf {
	var r struct {
		logRecord
		Properties struct {
			RequestBody  string `json:"requestbody"`
			ResponseBody string `json:"responseBody"`
		} `json:"properties"`
	}
	if json.Unmarshal(raw, &r) != nil || !r.isWrite() {
		return nil
	}
	write := r.CorrelationID + " " + r.ResourceID.Key()
	if r.accepted() {
		accepted[write] = true
	}
	w, timed := r.write()
	body := cmp.Or(r.Properties.RequestBody, r.Properties.ResponseBody)
	if !timed || !accepted[write] || body == "" {
		return nil
	}
	all := map[inventory.Property]bodyOf{}
	for _, h := range inventory.FormerIn(body, r.ResourceID, id) {
		h.How = fmt.Sprintf("the write of %s by %s at %s, says the activity log",
			r.ResourceID.Short(), w.who(), w.At.UTC().Format("2006-01-02 15:04:05 UTC"))
		all[h.Property] = bodyOf{h, w.At}
	}
	return all
}
