package history

import "time"

// pruneEvery is how often old rounds are looked for.
const pruneEvery = 10 * time.Minute

// prune removes the rounds that are too old, and the oldest while the file is too large. It is no matter when that fails: it is tried
// again, and a file that cannot be written is told of anyway.
func (l *Log) prune() {
	if l.j.trouble != nil || time.Since(l.pruned) < pruneEvery {
		return
	}
	l.pruned = time.Now()
	if err := l.removeOld(time.Now()); err != nil {
		l.opts.Log.Warn("old rounds could not be removed from the history", "file", l.j.path, "error", reason(err))
	}
}

func (l *Log) removeOld(now time.Time) error {
	db := l.j.db
	if l.opts.Age > 0 {
		if _, err := db.Exec("DELETE FROM rounds WHERE started < ?", now.Add(-l.opts.Age).UnixMilli()); err != nil {
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
		// A tenth at a time, so that few steps are taken, and not much more goes than has to.
		result, err := db.Exec("DELETE FROM rounds WHERE id IN (SELECT id FROM rounds ORDER BY id LIMIT (SELECT (count(*) + 9) / 10 FROM rounds))")
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
	}
	// What was freed goes back to the disk.
	rows, err := db.Query("PRAGMA incremental_vacuum")
	if err != nil {
		return err
	}
	for rows.Next() { // each step frees a page
	}
	return rows.Close()
}

// usedBytes is how large the file is without its free pages.
func usedBytes(db rower) (int64, error) {
	var pages, free, size int64
	for pragma, into := range map[string]*int64{"page_count": &pages, "freelist_count": &free, "page_size": &size} {
		if err := db.QueryRow("PRAGMA " + pragma).Scan(into); err != nil {
			return 0, err
		}
	}
	return (pages - free) * size, nil
}
