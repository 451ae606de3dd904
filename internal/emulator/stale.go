package emulator

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// remember keeps what a resource, its parent and its children are, before a write changes them, for
// faults that show it.
func (k *kernel) remember(id arm.ID) {
	if !k.faults.anyStale() {
		k.before = nil
		return
	}
	if k.before == nil {
		k.before = map[string][]byte{}
	}
	keep := func(id arm.ID) {
		k.before[id.Key()] = nil
		if r := k.store.get(id); r != nil {
			k.before[id.Key()] = k.render(r, networkVersion)
		}
	}
	keep(id)
	if strings.Count(id.Type(), "/") > 1 {
		keep(id.Parent())
	}
	for _, child := range k.store.below(id) {
		keep(child.id)
	}
}

// was returns what a stale read shows instead of a resource: what it was before the last write, nil
// for nothing.
func (k *kernel) was(c *call, id arm.ID) (raw []byte, stale bool) {
	if c.fault == nil || !c.fault.Stale {
		return nil, false
	}
	raw, stale = k.before[id.Key()]
	return raw, stale
}

// seenBy is the document of a resource as a call sees it.
func (k *kernel) seenBy(c *call, r *resource) object {
	if raw, stale := k.was(c, r.id); stale && raw != nil {
		if doc, f := decodeObject(raw); f == nil {
			return doc
		}
	}
	return r.body
}

func (fs *faults) anyStale() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.list {
		if f.Stale {
			return true
		}
	}
	return false
}
