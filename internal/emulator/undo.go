package emulator

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// undo remembers what there was before a write, of all that the write has looked at: one that ends
// in a panic leaves
// nothing half made.
type undo struct {
	resources map[string]*resource // copies, by ID.Key(); nil for nothing
	// restore take back what is no resource; once are the keys of what they take back.
	restore  []func()
	once     map[string]bool
	later    []later
	activity int
}

// noted keeps a copy of a resource that is about to be looked at.
func (u *undo) noted(key string, r *resource) {
	if _, known := u.resources[key]; known {
		return
	}
	u.resources[key] = nil
	if r != nil {
		was := *r
		was.body, was.rendered = clone(r.body), nil
		u.resources[key] = &was
	}
}

// notedOnce keeps what is no resource and is about to be looked at: note returns what takes it
// back.
func (u *undo) notedOnce(key string, note func() (takeBack func())) {
	if !u.once[key] {
		u.once[key] = true
		u.restore = append(u.restore, note())
	}
}

// watch remembers from now on. A read needs nothing undone.
func (k *kernel) watch(c *call) {
	if c.method == http.MethodGet || c.method == http.MethodHead {
		return
	}
	u := &undo{
		resources: map[string]*resource{}, once: map[string]bool{},
		later: append([]later(nil), k.later...), activity: len(k.activity),
	}
	for _, s := range k.services {
		if s.watch == nil {
			continue
		}
		if takeBack := s.watch(c); takeBack != nil {
			u.restore = append(u.restore, takeBack)
		}
	}
	k.store.undo = u
}

// recovered ends a call: one that panicked is logged, undone and answered with 500.
func (k *kernel) recovered(c *call, answer *reply, f **failure) {
	u := k.store.undo
	k.store.undo = nil
	reason := recover()
	if reason == nil {
		return
	}
	k.panicked(c, reason)
	if u != nil {
		k.takeBack(u)
	}
	*answer, *f = reply{}, fail(
		http.StatusInternalServerError,
		"InternalServerError",
		"The local Azure failed at %s %s: %v. This is a bug in it; its log has more.",
		c.method,
		c.key(),
		reason,
	)
}

// panicked logs what a person needs to find the bug.
func (k *kernel) panicked(c *call, reason any) {
	k.log.Error(
		"a bug in the local Azure: a request made it panic; it was answered with 500 and undone",
		"method",
		c.method,
		"path",
		c.key(),
		"apiVersion",
		c.version,
		"body",
		string(c.body),
		"panic",
		fmt.Sprint(reason),
		"stack",
		string(debug.Stack()),
	)
}

// takeBack brings back what there was.
func (k *kernel) takeBack(u *undo) {
	for key := range u.resources {
		if now := k.store.resources[key]; now != nil {
			k.store.remove(now.id)
		}
	}
	for _, was := range u.resources {
		if was != nil {
			k.store.put(was)
		}
	}
	for _, takeBack := range u.restore {
		takeBack()
	}
	k.later, k.activity = u.later, k.activity[:min(u.activity, len(k.activity))]
}

// guarded does what no request waits for, and logs a panic in it.
func (k *kernel) guarded(what string, do func()) {
	defer func() {
		if reason := recover(); reason != nil {
			k.log.Error(
				"a bug in the local Azure: "+what+" panicked",
				"panic",
				fmt.Sprint(reason),
				"stack",
				string(debug.Stack()),
			)
		}
	}()
	do()
}
