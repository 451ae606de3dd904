package page

import "time"

// Expect sets the interval between two checks. The board marks a cluster as overdue when its last
// check is much older: Azure may not answer, or the keeper may hang.
func (b *Board) Expect(every time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.every = every
	if b.late != nil && b.late.Stop() {
		b.late = nil
	}
	b.watch()
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

// watch starts a timer for the next cluster that becomes overdue. A check that ends does not move
// the timer: the timer checks again when it fires, so a check costs nothing in a large fleet.
func (b *Board) watch() {
	if b.late != nil {
		return
	}
	var next time.Duration
	now, patience := b.now(), b.patience()
	for _, c := range b.clusters {
		if left := patience - now.Sub(c.Checked); left > 0 && !c.Checked.IsZero() &&
			(next == 0 || left < next) {
			next = left
		}
	}
	if next > 0 {
		b.late = time.AfterFunc(next, func() { b.wake(now) })
	}
}

// wake shows the clusters that became overdue since the given time.
func (b *Board) wake(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = nil
	for _, c := range b.clusters {
		if b.overdue(c) && c.Checked.Add(b.patience()).After(since) {
			b.show(true)
			break
		}
	}
	b.watch()
}
