package kernel

import (
	"slices"
	"time"
)

// later is a scheduled action.
type later struct {
	at time.Time
	do func()
}

// At does something at a time, under the lock. A timer runs it, and in any case it runs before a
// later request is answered.
func (k *Kernel) At(t time.Time, do func()) {
	if !t.After(time.Now()) {
		do()
		return
	}
	i := len(k.later)
	for i > 0 && k.later[i-1].at.After(t) {
		i--
	}
	k.later = slices.Insert(k.later, i, later{t, do})
	time.AfterFunc(time.Until(t), func() {
		defer k.Lock()()
		k.Happen()
	})
}

// Happen runs the actions that are due.
func (k *Kernel) Happen() {
	for len(k.later) > 0 && !k.later[0].at.After(time.Now()) && !k.Closed {
		do := k.later[0].do
		k.later = k.later[1:]
		k.Guarded("what an operation ends with", do)
	}
}
