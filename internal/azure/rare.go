package azure

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// rare logs messages that every call of an outage repeats. It logs one a minute at its own level,
// or sooner if that level is higher than the last one's, and says how many came between. These are
// logged at debug level.
type rare struct {
	mu    sync.Mutex
	last  time.Time
	level slog.Level // of the last line
	more  int        // messages since then
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
