package page

import "time"

// Expect says how often everything is looked at. Of what was not looked at for much longer it is not said that it is true: Azure may give no
// answer, or the keeper may hang.
func (b *Board) Expect(every time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.every = every
	if b.late != nil && b.late.Stop() {
		b.late = nil
	}
	b.watch()
}

// patience is how long ago the last look at a cluster may be; 0: it does not matter.
func (b *Board) patience() time.Duration {
	if b.every == 0 {
		return 0
	}
	return max(time.Minute, 3*b.every, 3*b.took)
}

// overdue reports whether a look at a cluster should have been over long ago.
func (b *Board) overdue(s *standing) bool {
	return s != nil && b.every > 0 && !s.checked.IsZero() && b.now().Sub(s.checked) >= b.patience()
}

// watch shows when the next cluster is overdue. A check that ends only puts that off: the timer looks
// again, so that a fleet does not pay for all its clusters at the end of each check.
func (b *Board) watch() {
	if b.late != nil {
		return
	}
	var next time.Duration
	now, patience := b.now(), b.patience()
	for _, s := range b.clusters {
		if left := patience - now.Sub(s.checked); left > 0 && !s.checked.IsZero() && (next == 0 || left < next) {
			next = left
		}
	}
	if next > 0 {
		b.late = time.AfterFunc(next, func() { b.wake(now) })
	}
}

// wake shows clusters that have become overdue since a moment.
func (b *Board) wake(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = nil
	for _, s := range b.clusters {
		if b.overdue(s) && s.checked.Add(b.patience()).After(since) {
			b.show(true)
			break
		}
	}
	b.watch()
}
