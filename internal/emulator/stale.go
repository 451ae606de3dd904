package emulator

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// remember keeps what a resource, its parent and its children are, before a write changes them, for
// faults that show it.
func (e *Emulator) remember(id arm.ID) {
	if !e.faults.anyStale() {
		e.before = nil
		return
	}
	if e.before == nil {
		e.before = map[string][]byte{}
	}
	keep := func(id arm.ID) {
		e.before[id.Key()] = nil
		if r := e.store.get(id); r != nil {
			e.before[id.Key()] = e.render(r, networkVersion)
		}
	}
	keep(id)
	if strings.Count(id.Type(), "/") > 1 {
		keep(id.Parent())
	}
	for _, child := range e.store.below(id) {
		keep(child.id)
	}
}

// was returns what a stale read shows instead of a resource: what it was before the last write, nil
// for nothing.
func (e *Emulator) was(c *call, id arm.ID) (raw []byte, stale bool) {
	if c.fault == nil || !c.fault.Stale {
		return nil, false
	}
	raw, stale = e.before[id.Key()]
	return raw, stale
}

// seenBy is the document of a resource as a call sees it.
func (e *Emulator) seenBy(c *call, r *resource) object {
	if raw, stale := e.was(c, r.id); stale && raw != nil {
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
