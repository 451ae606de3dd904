package history

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/finding"
	"routekeeper.dev/routekeeper/internal/verdict"
)

// Now is the current state, as far as a history knows it.
type Now struct {
	// Findings are the current findings as of the last check with news, sorted by key.
	Findings []finding.Finding
	// Recorded is when the newest recorded check began; checks without news are not recorded. Zero:
	// there is none.
	Recorded time.Time
	// Verdicts are the last ones on clusters, by the cluster's ID.Key().
	Verdicts map[string]verdict.Verdict
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
	lasting, err := readLasting(r.db)
	if err != nil {
		return Now{}, err
	}
	n.Verdicts = map[string]verdict.Verdict{}
	for key, l := range lasting {
		if l.Verdict != nil {
			n.Verdicts[key] = *l.Verdict
		}
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
