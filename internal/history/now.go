package history

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Now is what a history knows of the present.
type Now struct {
	// Findings are those that stood when a check last found something else, sorted by key.
	Findings []finding.Finding
	// Recorded is when the newest check in the history began; checks that find and change nothing are not in
	// it. Zero: there is none.
	Recorded time.Time
}

// Now reads what stands.
func (r *Reader) Now() (Now, error) {
	known, err := readStanding(r.db)
	if err != nil {
		return Now{}, err
	}
	var n Now
	for _, key := range slices.Sorted(maps.Keys(known)) {
		n.Findings = append(n.Findings, known[key])
	}
	var started int64
	switch err := r.db.QueryRow("SELECT started FROM rounds ORDER BY id DESC LIMIT 1").Scan(&started); {
	case err == nil:
		n.Recorded = time.UnixMilli(started).UTC()
	case !errors.Is(err, sql.ErrNoRows):
		return Now{}, err
	}
	return n, nil
}
