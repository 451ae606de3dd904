package history

import "time"

// pruneEvery is the time between removals of old checks.
const pruneEvery = 10 * time.Minute

// prune removes checks that are too old, and the oldest ones while the file is too large. A failure
// does no harm: it is retried, and other writes report a file that cannot be written.
func (l *Log) prune() {
	if l.j.trouble != nil || time.Since(l.pruned) < pruneEvery {
		return
	}
	l.pruned = time.Now()
	if err := l.removeOld(time.Now()); err != nil {
		l.opts.Log.Warn("old checks could not be removed from the history", "file", l.j.path,
			"error", reason(err))
	}
}

func (l *Log) removeOld(now time.Time) error {
	db := l.j.db
	if l.opts.Age > 0 {
		if _, err := db.Exec("DELETE FROM checks WHERE started < ?",
			now.Add(-l.opts.Age).UnixMilli()); err != nil {
			return err
		}
	}
	for l.opts.Size > 0 {
		used, err := usedBytes(db)
		if err != nil {
			return err
		}
		if used <= l.opts.Size {
			break
		}
		// Remove a tenth at a time: that takes few steps and removes not much more than necessary.
		result, err := db.Exec("DELETE FROM checks WHERE id IN (SELECT id FROM checks ORDER BY " +
			"id LIMIT (SELECT (count(*) + 9) / 10 FROM checks))")
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
	}
	// Return the freed pages to the disk.
	rows, err := db.Query("PRAGMA incremental_vacuum")
	if err != nil {
		return err
	}
	for rows.Next() { // each step frees a page
	}
	return rows.Close()
}

// usedBytes returns the size of the file without its free pages.
func usedBytes(db rower) (int64, error) {
	var pages, free, size int64
	for pragma, into := range map[string]*int64{"page_count": &pages, "freelist_count": &free,
		"page_size": &size} {
		if err := db.QueryRow("PRAGMA " + pragma).Scan(into); err != nil {
			return 0, err
		}
	}
	return (pages - free) * size, nil
}
