package serve

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// refusedEvery is how often the log names an address whose calls are refused.
	refusedEvery = time.Minute
	// mostRefused is how many addresses it names in that time.
	mostRefused = 20
)

// refusals logs refused calls: one line a minute for each address, and only for few addresses.
type refusals struct {
	log *slog.Logger

	mu    sync.Mutex
	since time.Time
	said  map[string]int // calls refused since, by address
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, said: map[string]int{}}
}

// note notes a refused call. name is the name it came with, if any; result says why.
func (f *refusals) note(address, name, result string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.since) >= refusedEvery {
		more := 0
		for _, n := range f.said {
			more += n - 1
		}
		if more > 0 {
			f.log.Warn("more calls were refused", "calls", more, "addresses", len(f.said), "since",
				f.since.UTC().Format(time.RFC3339))
		}
		f.since = time.Now()
		clear(f.said)
	}
	if _, known := f.said[address]; known || len(f.said) < mostRefused {
		if f.said[address]++; f.said[address] == 1 {
			f.log.Warn("a call was refused", "from", address, "name", printable(name), "result",
				result)
		}
		return
	}
	f.said["other addresses"]++
}
