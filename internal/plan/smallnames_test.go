package plan

import "slices"

// States that differ only in names count once.

// smallNames are other numbers for machines, pod CIDRs and addresses.
type smallNames struct{ machines, cidrs, addresses [smallMost]int8 }

// prefix returns the number of a prefix: those of IPv6 follow the pod CIDR of IPv4.
func (n smallNames) prefix(c int) int {
	if c < smallMost {
		return int(n.cidrs[c])
	}
	return smallMost + int(n.cidrs[c-smallMost])
}

func (n smallNames) row(r smallRow) smallRow {
	switch {
	case !r.exists():
		return r
	case r.person():
		return aRow(byPerson, int(n.addresses[r.address()]))
	}
	return aRow(int(n.machines[r.name()]), int(n.addresses[r.address()]))
}

func (n smallNames) table(rows smallTable) (out smallTable) {
	for c, r := range rows {
		if r.exists() {
			out[n.prefix(c)] = n.row(r)
		}
	}
	return out
}

func (n smallNames) allMachines(of [smallMost]smallMachine) (out [smallMost]smallMachine) {
	for i, m := range of {
		if m.exists() {
			out[n.machines[i]] = aMachine(int(n.addresses[m.address()]), int(n.cidrs[m.cidr()]))
		}
	}
	return out
}

// renamed returns the state with other names for machines, addresses and pod CIDRs.
func (s smallState) renamed(n smallNames) smallState {
	out := s
	out.machine, out.own = n.allMachines(s.machine), n.table(s.own)
	for i := range s.off {
		out.off[n.machines[i]] = s.off[i]
	}
	for k := range s.target {
		out.target[k] = n.table(s.target[k])
	}
	return out
}

func (s smallStory) renamed(n smallNames) smallStory {
	out := s
	out.smallState = s.smallState.renamed(n)
	for c, was := range s.edited {
		if was {
			out.edited[c] = false
		}
	}
	for c, was := range s.edited {
		if was {
			out.edited[n.prefix(c)] = true
		}
	}
	for k, rows := range s.adopted {
		out.adopted[k] = n.table(rows)
	}
	for i, m := range s.keeper {
		out.keeper[i] = m.renamed(n)
	}
	return out
}

func (m smallMemory) renamed(n smallNames) smallMemory {
	out := smallMemory{started: m.started, looks: m.looks, lacks: m.lacks, crossed: m.crossed,
		table: m.table, interfaces: m.interfaces,
		machines: n.allMachines(m.machines), rows: n.table(m.rows)}
	hop := func(h int8) int8 {
		if h == 0 {
			return 0
		}
		return 1 + n.addresses[h-1]
	}
	for i := range m.offs {
		out.offs[n.machines[i]] = m.offs[i]
	}
	for c := range smallPrefixes {
		if c >= smallMost && int(n.cidrs[c-smallMost]) >= smallPrefixes-smallMost {
			continue // a world with three pod CIDRs has no IPv6
		}
		at := n.prefix(c)
		out.seen[at], out.settled[at] = hop(m.seen[c]), m.settled[c]
		for k := range m.inSync {
			out.inSync[k][at] = hop(m.inSync[k][c])
		}
		for a, was := range m.had[c] {
			out.had[at][n.addresses[a]] = was
		}
	}
	return out
}

// key is the same for states that differ only in names: the machines that exist come last, and
// their addresses and pod CIDRs are in their order. In the few worlds in which names matter it is
// the state.
func (s smallStory) key(w *smallWorld) smallStory {
	if w.unnamed || w.outside || w.room > 0 {
		return s
	}
	best, bytes := s, s.pack()
	for _, n := range w.names(s.smallState) {
		other := s.renamed(n)
		if packed := other.pack(); slices.Compare(packed, bytes) < 0 {
			best, bytes = other, packed
		}
	}
	return best
}

func (s smallStory) pack() (b []byte) {
	b = make([]byte, 0, 80)
	for _, m := range s.machine {
		b = append(b, byte(m))
	}
	rows := func(t smallTable) {
		for _, r := range t {
			b = append(b, byte(r))
		}
	}
	bits := func(all ...bool) {
		n := byte(0)
		for _, is := range all {
			if n <<= 1; is {
				n |= 1
			}
		}
		b = append(b, n)
	}
	rows(s.own)
	rows(s.target[0])
	rows(s.target[1])
	rows(s.adopted[0])
	rows(s.adopted[1])
	bits(s.off[:]...)
	bits(s.edited[:]...)
	for _, m := range s.keeper {
		for c := range smallPrefixes {
			b = append(b, byte(m.seen[c]), byte(m.inSync[0][c]), byte(m.inSync[1][c]))
			bits(append(m.had[c][:], m.settled[c])...)
		}
		for _, machine := range m.machines {
			b = append(b, byte(machine))
		}
		bits(m.offs[:]...)
		rows(m.rows)
	}
	return b
}

// orders are all orders of the numbers below n; the rest keep their places.
func orders(n int) (all [][smallMost]int8) {
	for _, o := range [][smallMost]int8{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {1, 2, 0},
		{2, 0, 1}} {
		if n == smallMost || n == 2 && o[2] == 2 || o == [smallMost]int8{0, 1, 2} {
			all = append(all, o)
		}
	}
	return all
}

// names are the names that may lead to the key of a state.
func (w *smallWorld) names(s smallState) (all []smallNames) {
	// least orders the used numbers as the machines are, and the rest in each way
	least := func(used []int8, n int, of func(order [smallMost]int8)) {
		for _, o := range orders(n) {
			ok := true
			for i, u := range used {
				ok = ok && o[u] == int8(i)
			}
			if ok {
				of(o)
			}
		}
	}
	for _, m := range orders(w.machines) {
		var addresses, cidrs []int8
		last := true // machines that do not exist come first
		for at := range int8(smallMost) {
			machine := s.machine[slices.Index(m[:], at)]
			last = last && (machine.exists() || len(addresses) == 0)
			if machine.exists() {
				addresses = append(addresses, int8(machine.address()))
				cidrs = append(cidrs, int8(machine.cidr()))
			}
		}
		if !last && w.machines == smallMost {
			continue
		}
		least(addresses, smallMost, func(a [smallMost]int8) {
			least(cidrs, w.cidrs, func(c [smallMost]int8) {
				all = append(all, smallNames{m, c, a})
			})
		})
	}
	return all
}
