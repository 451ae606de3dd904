package daemon

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/keeper"
	"routekeeper.dev/routekeeper/internal/silence"
)

// specPauses has the pauses in the specs of the configs, as entries of the store of silences. So
// they work like those from the page and the command line.
type specPauses struct {
	k *keeper.Keeper

	mu    sync.Mutex
	since map[string]time.Time // when this program first saw the pause, by cluster
}

func newSpecPauses(k *keeper.Keeper) *specPauses {
	return &specPauses{k: k, since: map[string]time.Time{}}
}

func (s *specPauses) entries() (all []silence.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pauses := s.k.Pauses()
	maps.DeleteFunc(s.since, func(name string, _ time.Time) bool {
		_, still := pauses[name]
		return !still
	})
	for _, name := range slices.Sorted(maps.Keys(pauses)) {
		p := pauses[name]
		if s.since[name].IsZero() {
			s.since[name] = time.Now()
		}
		all = append(all, silence.Entry{Kind: silence.Pause, Cluster: name, Reason: p.Reason,
			By: cmp.Or(p.By, "its spec"), From: silence.InSpec, At: s.since[name],
			Until: keeper.PauseEnd(p)})
	}
	return all
}
