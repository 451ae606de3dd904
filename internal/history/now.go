package history

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
)

// Now is the current state, as far as a history has it.
type Now struct {
	// Findings are the current findings as of the last check with news, sorted by key.
	Findings []finding.Finding
	// Recorded is when the newest recorded check began; checks without news are not recorded. Zero:
	// there is none.
	Recorded time.Time
}

// Now reads the current state.
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
	switch err := r.db.QueryRow("SELECT started FROM checks ORDER BY id DESC LIMIT 1").Scan(
		&started); {
	case err == nil:
		n.Recorded = time.UnixMilli(started).UTC()
	case !errors.Is(err, sql.ErrNoRows):
		return Now{}, err
	}
	return n, nil
}
