package cli

import "sync"

// running are the emulators of the running scripts, by the script's folder.
var running azures

type azures struct {
	mu  sync.Mutex
	all map[string]*azureOf
}

func (a *azures) set(dir string, az *azureOf) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*azureOf{}
	}
	a.all[dir] = az
}

func (a *azures) get(dir string) *azureOf {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[dir]
}
