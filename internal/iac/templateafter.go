package iac

import (
	"encoding/json"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/iac/armtemplate"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// tables reports each route table that the template writes as a whole: the write removes routes
// that others wrote. A table that is written only if it does not exist is not reported.
func (t *armReading) tables() {
	t.each(arm.TypeRouteTable, func(r *armtemplate.Resource) {
		if onlyOnce(r) {
			return
		}
		routes := r.Body.Object("properties").Get("routes")
		if u, is := routes.(*armtemplate.Unknown); is && strings.EqualFold(u.Of, r.ID) {
			return // it writes what it read
		}
		var users []Place
		for _, s := range t.subnets {
			if strings.EqualFold(s.table, r.ID) {
				users = append(users, s.place)
			}
		}
		t.reading.Effects = append(t.reading.Effects, Effect{
			Verb: MayLoseRoutes, Users: users, What: t.place(r), By: t.place(r),
			How: "the template writes the whole table, and a cluster's pod routes are not in it",
			Fix: "deploy the table once and then refer to it as existing; write each route as " +
				"its own resource, Microsoft.Network/routeTables/routes",
		})
	})
}

// unknownID stands for the ID of something that the template gives a subnet, or keeps.
const unknownID = "{unknown}"

// after makes the snapshot of the resulting network.
func (t *armReading) after() {
	s := inventory.NewSnapshot()
	t.reading.After = s
	add := func(r *armtemplate.Resource, id string, doc map[string]any) {
		doc["id"] = id
		raw, err := json.Marshal(doc)
		if err == nil {
			err = s.Add(raw)
		}
		if err != nil {
			t.note(t.place(r), false, "the result is not checked: "+err.Error())
		}
	}
	t.each(arm.TypeVNet, func(r *armtemplate.Resource) {
		doc := plainObject(r.Body)
		properties, _ := doc["properties"].(map[string]any)
		delete(properties, "subnets")
		add(r, r.ID, doc)
	})
	for _, subnet := range t.subnets {
		final := subnet.writes[len(subnet.writes)-1]
		id := subnet.place.ID
		switch {
		case final.subnet == nil: // deleted
		case subnet.kept: // unchanged, whatever it is
		case subnet.doubt:
			s.Unread[id.Key()] = inventory.Unread{ID: id,
				Message: "the template does not show its route table"}
		default:
			doc := plainObject(final.subnet)
			properties, _ := doc["properties"].(map[string]any)
			for _, p := range inventory.Properties[1:] {
				if is, value, _ := propertyIn(final.subnet, id, p); is != strips && value == "" {
					properties[string(p)] = map[string]any{"id": unknownID}
				}
			}
			add(final.by, string(id), doc)
		}
	}
	for _, kind := range []string{arm.TypeRouteTable, arm.TypeCluster, arm.TypeGateway} {
		t.each(kind, func(r *armtemplate.Resource) { add(r, r.ID, plainObject(r.Body)) })
	}
	t.each(arm.TypeRouteTable+"/routes", func(r *armtemplate.Resource) {
		table := s.Table(arm.ID(r.ID).Parent())
		if table == nil {
			return
		}
		doc := plainObject(r.Body)
		doc["name"] = lastName(r.Name)
		raw, err := json.Marshal(doc)
		if err != nil {
			return
		}
		if route, err := inventory.DecodeRoute(raw); err == nil {
			s.Tables[table.ID.Key()] = table.WithRoutes(append(slices.Clone(table.Routes()), route))
		}
	})
}

func plainObject(o *armtemplate.Object) map[string]any {
	out, _ := armtemplate.Plain(o).(map[string]any)
	return out
}
