package azure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// ReadHad notes what subnets and route tables had before, as far as the activity log shows it: the
// record of a write's begin has the body of its request (captured: a write of a route table), and
// that of its end can have the body of the answer (captured: a write of a machine). A subnet has no
// PATCH, so every write of it names all that it keeps. It also reads the route tables that it
// finds.
func (c *documents) ReadHad(ctx context.Context, s *inventory.Snapshot, ids []arm.ID) error {
	var tables []arm.ID
	for _, id := range inventory.SortIDs(ids) {
		if _, asked := s.Had[id.Key()]; asked {
			continue
		}
		found, err := readHad(ctx, c.activityLog, id)
		if _, fatal := asFault(err); fatal != nil {
			return fatal
		}
		s.NoteHad(id, found...) // ReadWriters says why the log cannot be read
		for _, h := range found {
			if h.Property == inventory.PropertyTable && s.Table(h.Value) == nil {
				tables = append(tables, h.Value)
			}
		}
	}
	return c.Read(ctx, s, inventory.Wanted{Tables: inventory.SortIDs(tables)}, ReadOptions{})
}

// readHad returns the last value of each property of a subnet, or the last default route of a
// table, that a write gave it.
func readHad(ctx context.Context, c *activityLog, id arm.ID) (all []inventory.Had, err error) {
	// routes have records of their own
	filters, most := []string{"resourceGroupName eq '" + id.ResourceGroup() + "'"}, 1
	if id.Is(arm.TypeSubnet) {
		filters = []string{"resourceUri eq '" + string(id) + "'",
			"resourceUri eq '" + string(id.Parent()) + "'"}
		most = len(inventory.Properties)
	}
	newest := map[inventory.Property]bodyOf{}
	for _, filter := range filters {
		here := map[inventory.Property]bodyOf{}
		took := map[string]bool{} // writes by correlation and resource: their end comes first
		now := time.Now()
		if _, err := c.eachRecord(ctx, id, now.Add(-logReach), now, filter, func(raw []byte) bool {
			for property, b := range bodiesIn(raw, id, took) {
				if _, known := here[property]; !known {
					here[property] = b
				}
			}
			return len(here) < most
		}); err != nil {
			return nil, err
		}
		for property, b := range here {
			if b.at.After(newest[property].at) {
				newest[property] = b
			}
		}
	}
	for _, property := range slices.Sorted(maps.Keys(newest)) {
		all = append(all, newest[property].Had)
	}
	return all, nil
}

// bodyOf is what the body of a write named.
type bodyOf struct {
	inventory.Had
	at time.Time
}

// bodiesIn reads a record: the end of a write into took, and from the body of the request or the
// answer what it gave a resource, by property.
func bodiesIn(raw []byte, id arm.ID, took map[string]bool) map[inventory.Property]bodyOf {
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
	if r.took() {
		took[write] = true
	}
	w, timed := r.write()
	body := cmp.Or(r.Properties.RequestBody, r.Properties.ResponseBody)
	if !timed || !took[write] || body == "" {
		return nil
	}
	all := map[inventory.Property]bodyOf{}
	for _, h := range inventory.HadIn(body, r.ResourceID, id) {
		h.How = fmt.Sprintf("the write of %s by %s at %s, says the activity log",
			r.ResourceID.Short(), w.who(), w.At.UTC().Format("2006-01-02 15:04:05 UTC"))
		all[h.Property] = bodyOf{h, w.At}
	}
	return all
}
