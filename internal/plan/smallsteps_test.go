package plan

import "fmt"

// smallStep is one thing that can happen. It changes nothing if it is not possible.
type smallStep struct {
	name string
	do   func(s smallStory) (after smallStory, rules []string)
}

// happens makes a step that does not call the planner.
func happens(do func(s *smallStory) bool, format string, args ...any) smallStep {
	return smallStep{fmt.Sprintf(format, args...), func(s smallStory) (smallStory, []string) {
		if before := s; !do(&s) {
			return before, nil
		}
		return s, nil
	}}
}

// allSteps are the steps of a world: of its machines, of the cloud provider, of people, and of the
// keeper.
func (w *smallWorld) allSteps() (steps []smallStep) {
	add := func(do func(s *smallStory) bool, format string, args ...any) {
		steps = append(steps, happens(do, format, args...))
	}
	w.machineSteps(add)
	add(func(s *smallStory) bool { s.provide(w); return true }, "the cloud provider writes")
	add(func(s *smallStory) bool { s.byOther = false; return !s.stopped && s.deleted == 0 },
		"the cloud provider writes another route, from an older read")
	for _, c := range w.prefixes() {
		add(func(s *smallStory) bool {
			if s.stopped || !s.own[c].node() {
				return false
			}
			s.own[c], s.edited[c], s.byOther = 0, false, false
			return true
		}, "the cloud provider loses %s to a 412", smallCIDR[c])
	}
	add(func(s *smallStory) bool {
		s.provide(w)
		s.stopped = !s.stopped
		return true
	}, "the cloud provider stops, or starts")
	add(func(s *smallStory) bool { s.wait(w); return true }, "time passes")
	w.personSteps(add)
	for k := range w.keepers {
		by := []string{"a", "another keeper's"}[k]
		for _, reads := range []int8{readWhole, readPart, readRefused, readNoTable, readNoCluster,
			readNoTarget, readNoSubnet} {
			for _, writes := range []bool{true, false} {
				if !writes && reads >= readNoTable {
					continue // it writes nothing
				}
				name := fmt.Sprintf("%s check reads %s; its writes succeed: %t", by,
					readWords[reads], writes)
				steps = append(steps, smallStep{name, func(s smallStory) (smallStory, []string) {
					after, _, rules := s.check(w, k, reads, writes)
					return after, rules
				}})
			}
		}
	}
	for history, name := range []string{", without its history", ", with an older history", ""} {
		add(func(s *smallStory) bool {
			s.keeper[0].restarts(history)
			s.adopted = [smallTargets]smallTable{}
			return true
		}, "the keeper starts again%s", name)
	}
	late := func(name string, machines bool) {
		steps = append(steps, smallStep{name, func(s smallStory) (smallStory, []string) {
			return s.late(w, machines)
		}})
	}
	late("a check with old reads", true)
	late("a check with an old read of the cluster's table", false)
	return append(steps, smallStep{"a check writes late, by a new read of the cluster's table",
		func(s smallStory) (smallStory, []string) { return s.again(w) }})
}

// machineSteps are what happens to machines.
func (w *smallWorld) machineSteps(add func(do func(*smallStory) bool, format string, args ...any)) {
	for i := range w.machines {
		add(func(s *smallStory) bool {
			was := s.machine[i].exists()
			s.machine[i], s.off[i] = 0, false
			return was
		}, "machine %d leaves", i)
		add(func(s *smallStory) bool {
			s.off[i] = !s.off[i] && s.machine[i].exists()
			return s.machine[i].exists()
		}, "machine %d is deallocated, or started", i)
		for a := range smallMost {
			for c := range w.cidrs {
				now := aMachine(a, c)
				add(func(s *smallStory) bool {
					for j, o := range s.machine {
						if j != i && o.exists() && (o.address() == a || o.cidr() == c) {
							return false
						}
					}
					s.machine[i], s.off[i] = now, false
					return s.deleted != deletedCluster && !w.stray(aRow(i, a))
				}, "machine %d has %s and %s", i, smallAddress[a], smallCIDR[c])
			}
		}
	}
	// A pool is made again under its name, or all its machines are reimaged.
	rotate := func(s *smallStory, with func(m, next smallMachine) smallMachine) bool {
		before := s.machine
		var there []int
		for i, m := range before {
			if m.exists() {
				there = append(there, i)
			}
		}
		for n, i := range there {
			s.machine[i] = with(before[i], before[there[(n+1)%len(there)]])
		}
		return len(there) > 1
	}
	add(func(s *smallStory) bool {
		return rotate(s, func(m, next smallMachine) smallMachine {
			return aMachine(next.address(), m.cidr())
		})
	}, "all machines get other addresses")
	add(func(s *smallStory) bool {
		return rotate(s, func(m, next smallMachine) smallMachine {
			return aMachine(m.address(), next.cidr())
		})
	}, "all machines get other pod CIDRs")
	add(func(s *smallStory) bool {
		s.machine, s.off, s.own, s.deleted = [smallMost]smallMachine{}, [smallMost]bool{},
			smallTable{}, deletedCluster
		return true
	}, "the cluster is deleted")
	add(func(s *smallStory) bool {
		was := s.deleted
		s.own, s.deleted = smallTable{}, max(was, deletedTable)
		if was == deletedCluster {
			s.deleted = was
		}
		return was == 0
	}, "the cluster's table is deleted")
}

// personSteps are what a person, or another component, writes.
func (w *smallWorld) personSteps(add func(do func(*smallStory) bool, format string, args ...any)) {
	write := func(s *smallStory, rows smallTable) bool {
		for c, r := range rows { // the cloud provider passes over another next hop
			was := s.own[c]
			s.edited[c] = s.edited[c] || r.exists() != was.exists() || r.name() != was.name()
		}
		s.own, s.byOther = rows, true
		return s.deleted == 0
	}
	for _, c := range w.prefixes() {
		rows := []smallRow{0}
		for name := range w.machines + 1 {
			if name == w.machines {
				name = byPerson
			}
			for a := range smallMost {
				rows = append(rows, aRow(name, a))
			}
		}
		for _, r := range rows {
			add(func(s *smallStory) bool {
				rows := s.own
				rows[c] = r
				return !w.stray(r) && write(s, rows)
			}, "a person sets in the cluster's table, for %s: %s", smallCIDR[c], smallRoute(c, r))
			for k := range w.targets {
				add(func(s *smallStory) bool { s.target[k][c] = r; return true },
					"a person sets in %s, for %s: %s",
					[]string{"the target", "the second target"}[k], smallCIDR[c], smallRoute(c, r))
			}
		}
		for _, d := range w.prefixes() {
			if d <= c || (c < smallMost) != (d < smallMost) {
				continue
			}
			add(func(s *smallStory) bool {
				rows := s.own
				if rows[c].exists() && rows[d].exists() {
					rows[c], rows[d] = aRow(rows[c].name(), rows[d].address()),
						aRow(rows[d].name(), rows[c].address())
				}
				return rows != s.own && write(s, rows)
			}, "a person exchanges the next hops of %s and %s", smallCIDR[c], smallCIDR[d])
		}
	}
	for _, c := range w.prefixes() {
		for _, d := range w.prefixes() {
			add(func(s *smallStory) bool {
				rows := s.own
				rows[c], rows[d] = 0, rows[c]
				return c != d && (c < smallMost) == (d < smallMost) && s.own[c].exists() &&
					write(s, rows)
			}, "a person gives the row of %s the prefix %s", smallCIDR[c], smallCIDR[d])
		}
	}
	add(func(s *smallStory) bool { return write(s, s.keeper[0].rows) },
		"a person restores the cluster's table as the last check read it")
	add(func(s *smallStory) bool { return write(s, w.start.own) },
		"a person restores the cluster's table as it was at the start")
	add(func(s *smallStory) bool { return write(s, smallTable{}) },
		"a person empties the cluster's table")
	add(func(s *smallStory) bool { s.target[0] = smallTable{}; return true },
		"a person empties the target")
	add(func(s *smallStory) bool { s.target[0] = w.start.own; return true },
		"a person restores the target as it was at the start")
	add(func(s *smallStory) bool { s.on = hasNone; return true },
		"another component strips the node subnet")
	if w.unnamed {
		add(func(s *smallStory) bool { s.on = hasCopy; return true },
			"a person gives the node subnet a copy of the table")
		add(func(s *smallStory) bool { s.on = hasOwn; return s.deleted == 0 },
			"a person gives the node subnet its own table")
		add(func(s *smallStory) bool { s.forgot = true; return true },
			"the activity log forgets who wrote the table")
	}
}
