package page

import "time"

// Expect sets the interval between two checks. The board marks a cluster as overdue when its last
// check is much older: Azure may not answer, or the keeper may hang.
func (b *Board) Expect(every time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.every = every
}

// patience returns how old the last check of a cluster may be; 0: any age.
func (b *Board) patience() time.Duration {
	if b.every == 0 {
		return 0
	}
	return max(time.Minute, 3*b.every, 3*b.took)
}

// overdue reports whether the last check of a cluster is too old.
func (b *Board) overdue(c *Cluster) bool {
	return c != nil && b.every > 0 && !c.Checked.IsZero() && b.now().Sub(c.Checked) >= b.patience()
}

// current returns the version, which also goes up when a cluster becomes overdue.
func (b *Board) current() uint64 {
	late := 0
	for _, c := range b.clusters {
		if b.overdue(c) {
			late++
		}
	}
	if late > b.late {
		b.version++
	}
	b.late = late
	return b.version
}
