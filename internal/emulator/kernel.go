package emulator

import (
	"log/slog"
	"sync"
)

// kernel is what all services stand on: HTTP, the dispatch of calls, the store, operations, ETags,
// faults, throttling, the logs, the clock, and what undoes a call that fails half way.
type kernel struct {
	opts Options
	log  *slog.Logger

	// mu guards everything below that does not guard itself, and the state of the services.
	mu         sync.RWMutex
	store      *store
	kinds      map[string]*kind // by kindKey
	specials   []special
	operations map[string]*operation
	activity   []activityRecord
	later      []later // what happens by the clock, in its order
	closed     bool
	// what resources were before they were last written, by ID.Key(); nil for nothing
	before map[string][]byte

	// disk keeps the state, nil when nothing does; unkept and unkeptOperations are what it has not
	// got yet.
	disk             *disk
	unkept           []activityRecord
	unkeptOperations []string
	restored         bool
	server           savedServer

	buckets  *buckets
	faults   *faults
	requests *requestLog

	resources     *resources
	network       *network
	compute       *compute
	aks           *aks
	entra         *entra
	authorization *authorization
	insights      *insights
	deployments   *deployments
	control       *control
}
