package page

import "time"

// Expect says how often everything is looked at. Of what was not looked at for much longer it is not said that it is true: Azure may give no
// answer, or the keeper may hang.
func (b *Board) Expect(every time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.every = every
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

// watch shows it when the next cluster is overdue.
func (b *Board) watch() {
	if b.late != nil {
		b.late.Stop()
		b.late = nil
	}
	var next time.Duration
	for _, s := range b.clusters {
		if left := b.patience() - b.now().Sub(s.checked); left > 0 && !s.checked.IsZero() && (next == 0 || left < next) {
			next = left
		}
	}
	if next > 0 {
		b.late = time.AfterFunc(next, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.show(true)
			b.watch()
		})
	}
}
