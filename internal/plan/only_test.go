package plan

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"routekeeper.dev/routekeeper/internal/inventory"
)

// TestOnly: only the chosen changes are made, the resulting table is valid, and all verbs together
// give the whole plan, whatever the tables contain.
func TestOnly(t *testing.T) {
	every := []Verb{Create, Update, Delete, Associate}
	rapid.Check(t, func(t *rapid.T) {
		w := randomWorld(t)
		p := Make(w.s, w.configs)
		if all := p.Only(verb(every...), w.s.Table); !slices.Equal(keysOf(all.Changes),
			keysOf(p.Changes)) {
			t.Fatalf("all verbs give\n%s\nof\n%s", changes(all), changes(p))
		}
		verbs := slices.DeleteFunc(slices.Clone(every), func(Verb) bool {
			return rapid.Bool().Draw(t, "without")
		})
		part := p.Only(verb(verbs...), w.s.Table)
		for _, c := range part.Changes {
			if !slices.Contains(verbs, c.Verb) ||
				!slices.ContainsFunc(p.Changes, func(o Change) bool {
					return reflect.DeepEqual(o, c)
				}) {
				t.Fatalf("asked for %v, and %+v is among\n%s\nof\n%s", verbs, c, changes(part),
					changes(p))
			}
		}
		for _, desired := range part.Desired.Tables {
			now := w.s.Table(desired.ID)
			raw, err := inventory.SetRoutes(now.Raw, desired.Routes)
			if err != nil {
				t.Fatal(err)
			}
			table, err := inventory.DecodeRouteTable(raw)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := byName(table.Routes()), apply(now.Routes(), part.Changes,
				desired.ID); !reflect.DeepEqual(got, want) {
				t.Fatalf("the changes lead to %v, the desired table is %v", want, got)
			}
			checkTable(t, w, now, table)
		}
		if len(part.Desired.Associations) > 0 && !slices.Contains(verbs, Associate) {
			t.Fatalf("associations that were not chosen: %+v", part.Desired.Associations)
		}
	})
}

func verb(verbs ...Verb) func(Change) bool {
	return func(c Change) bool { return slices.Contains(verbs, c.Verb) }
}

func keysOf(changes []Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Resource.Key()+" "+string(c.Verb)+" "+c.Route+" "+c.Old.String()+" "+
			c.New.String())
	}
	return out
}

// TestOnlyWithRoom: routes wait if they need the room or the prefix of a route whose delete was not
// chosen.
func TestOnlyWithRoom(t *testing.T) {
	w := shop(t).wrote(clusterA, tableA)
	w.table(gateway, "own 192.168.0.0/16 10.1.0.4", "n0 10.244.0.0/24 10.240.0.4",
		"n9 10.244.9.0/24 10.240.0.9", "own2 172.16.0.0/12 10.1.0.4")
	w.configs[0].Spec.Targets[0].MaxRoutes = 5
	p := Make(w.s, w.configs)
	if got := changes(p.Only(verb(Create), w.s.Table)); got != "create gw-rt n1____102441024 - "+
		"10.244.1.0/24>10.240.0.5" {
		t.Errorf("one of two has room, and made is %s", got)
	}
	w.configs[0].Spec.Targets[0].MaxRoutes = 6
	if got := Make(w.s, w.configs).Only(verb(Create), w.s.Table).Changes; len(got) != 2 {
		t.Errorf("six have room: %+v", got)
	}
}
