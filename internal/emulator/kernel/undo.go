package kernel

import (
	"fmt"
	"net/http"
	"runtime/debug"
)

// undo stores the state of everything that a write has read: a write that ends in a panic changes
// nothing.
type undo struct {
	resources map[string]*Resource // copies, by ID.Key(); nil for nothing
	// restore restores state outside resources; once are the keys of that state.
	restore  []func()
	once     map[string]bool
	later    []later
	activity int
}

// noted stores a copy of a resource before it is returned.
func (u *undo) noted(key string, r *Resource) {
	if _, known := u.resources[key]; known {
		return
	}
	u.resources[key] = nil
	if r != nil {
		was := *r
		was.Body, was.rendered = Clone(r.Body), nil
		u.resources[key] = &was
	}
}

// NotedOnce stores state outside resources before it is used: note returns the function that
// restores it.
func (u *undo) NotedOnce(key string, note func() (takeBack func())) {
	if !u.once[key] {
		u.once[key] = true
		u.restore = append(u.restore, note())
	}
}

// watch starts to record. A read needs no undo.
func (q request) watch() {
	if q.c.Method == http.MethodGet || q.c.Method == http.MethodHead {
		return
	}
	u := &undo{
		resources: map[string]*Resource{}, once: map[string]bool{},
		later: append([]later(nil), q.later...), activity: len(q.Activity),
	}
	for _, s := range q.services {
		if s.Watch == nil {
			continue
		}
		if takeBack := s.Watch(q.c); takeBack != nil {
			u.restore = append(u.restore, takeBack)
		}
	}
	q.Store.Undo = u
}

// recovered ends a call. If the call panicked, it logs the panic, undoes the call and answers 500.
func (q request) recovered(answer *Reply, f **Failure) {
	u := q.Store.Undo
	q.Store.Undo = nil
	reason := recover()
	if reason == nil {
		return
	}
	refusal := q.panicked(reason)
	if u != nil {
		u.takeBack(q.Kernel)
	}
	*answer, *f = Reply{}, refusal
}

// panicked logs what is needed to find the bug, and returns what is answered.
func (q request) panicked(reason any) *Failure {
	q.Log.Error("a bug in the emulator: a request made it panic; it was answered with 500 and "+
		"undone", "method", q.c.Method, "path", q.c.Key(), "apiVersion", q.c.Version, "body",
		string(q.c.Body), "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
	return Fail(http.StatusInternalServerError, "InternalServerError", "The emulator failed at "+
		"%s %s: %v. This is a bug in it; its log has more.", q.c.Method, q.c.Key(), reason)
}

// takeBack restores the recorded state.
func (u *undo) takeBack(k *Kernel) {
	for key := range u.resources {
		if now := k.Store.Resources[key]; now != nil {
			k.Store.Remove(now.ID)
		}
	}
	for _, was := range u.resources {
		if was != nil {
			k.Store.Put(was)
		}
	}
	for _, takeBack := range u.restore {
		takeBack()
	}
	k.later, k.Activity = u.later, k.Activity[:min(u.activity, len(k.Activity))]
}

// Guarded runs background work, and logs a panic in it.
func (k *Kernel) Guarded(what string, do func()) {
	defer func() {
		if reason := recover(); reason != nil {
			k.Log.Error("a bug in the emulator: "+what+" panicked", "panic", fmt.Sprint(reason),
				"stack", string(debug.Stack()))
		}
	}()
	do()
}
