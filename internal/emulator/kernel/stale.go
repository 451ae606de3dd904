package kernel

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Remember keeps what a resource, its parent and its children are, before a write changes them, for
// faults that show it.
func (k *Kernel) Remember(id arm.ID) {
	if !k.Faults.anyStale() {
		k.before = nil
		return
	}
	if k.before == nil {
		k.before = map[string][]byte{}
	}
	keep := func(id arm.ID) {
		k.before[id.Key()] = nil
		if r := k.Store.Get(id); r != nil {
			k.before[id.Key()] = k.Render(r, NetworkVersion)
		}
	}
	keep(id)
	if strings.Count(id.Type(), "/") > 1 {
		keep(id.Parent())
	}
	for _, child := range k.Store.Below(id) {
		keep(child.ID)
	}
}

// was returns what a stale read shows instead of a resource: what it was before the last write, nil
// for nothing.
func (k *Kernel) was(c *Call, id arm.ID) (raw []byte, stale bool) {
	if c.Fault == nil || !c.Fault.Stale {
		return nil, false
	}
	raw, stale = k.before[id.Key()]
	return raw, stale
}

// SeenBy is the document of a resource as a call sees it.
func (k *Kernel) SeenBy(c *Call, r *Resource) Object {
	if raw, stale := k.was(c, r.ID); stale && raw != nil {
		if doc, f := DecodeObject(raw); f == nil {
			return doc
		}
	}
	return r.Body
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
