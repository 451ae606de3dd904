package kernel

import (
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Remember stores a resource, its parent and its children before a write changes them, for stale
// faults.
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

// olderState returns the older state of a resource for a stale read, nil if it did not exist.
func (q request) olderState(id arm.ID) (raw []byte, stale bool) {
	if q.c.Fault == nil || !q.c.Fault.Stale {
		return nil, false
	}
	raw, stale = q.before[id.Key()]
	return raw, stale
}

// SeenBy returns the document of a resource for a call.
func (k *Kernel) SeenBy(c *Call, r *Resource) Object {
	if raw, stale := k.on(c).olderState(r.ID); stale && raw != nil {
		if doc, f := DecodeObject(raw); f == nil {
			return doc
		}
	}
	return r.Body
}

func (fs *faults) anyStale() bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.ContainsFunc(fs.list, func(f *Fault) bool { return f.Stale })
}
