package azure

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// rare logs messages that every call of an outage repeats. It logs one a minute, with the number of
// the others, and more if they become worse. The others are logged at debug level.
type rare struct {
	mu    sync.Mutex
	last  time.Time
	level slog.Level // of the last line
	more  int        // since then
}

// rarely is the shortest time between two lines.
const rarely = time.Minute

func (r *rare) log(ctx context.Context, log *slog.Logger, level slog.Level, message string,
	attrs ...any) {
	r.mu.Lock()
	if now := time.Now(); r.last.IsZero() || now.Sub(r.last) >= rarely || level > r.level {
		if r.more > 0 {
			attrs = append(attrs, "others", r.more)
		}
		r.last, r.level, r.more = now, level, 0
	} else {
		level = slog.LevelDebug
		r.more++
	}
	r.mu.Unlock()
	log.Log(ctx, level, message, attrs...)
}
