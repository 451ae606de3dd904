package emulator

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// kernel is what all services stand on: HTTP, the dispatch of calls, the store, operations, ETags,
// faults, throttling, the logs, the clock, and what undoes a call that fails half way.
type kernel struct {
	opts settings
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

	// services are what the services have added; what is in the fields below is of all of them.
	services    []service
	above       []special
	waits       map[string][2]int
	newerFields []NewerField
	things      []thing
	sections    []section
	hostNames   []string

	// control answers the calls under /_emulator/.
	control func(w http.ResponseWriter, c *call)

	fabric    fabric
	guard     guard
	directory directory
	host      host
}

// service is what a service adds to the kernel.
type service struct {
	// types are its resource types; calls are answered once the caller is known and admitted, above
	// before that.
	types []kind
	calls []special
	above []special
	// waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE, by
	// type.
	waits map[string][2]int
	// newerFields exist from an api-version on.
	newerFields []NewerField
	// refuse refuses calls that their callers may make, spell completes a path that Azure takes
	// shortened, listen is told of each record of the activity log.
	refuse func(c *call) *failure
	// prepare finds out for a call what takes time: nothing is locked then.
	prepare func(c *call)
	spell   func(path []string) []string
	listen  func(activityRecord)
	// index is told of the documents that are stored and removed.
	index index
	// things, sections, watch and resume keep, undo and resume what is no document.
	things   []thing
	sections []section
	watch    func(c *call) (takeBack func())
	resume   resumer
	// hostNames are further names of the emulator, moved is told when it listens elsewhere, stop
	// when it ends.
	hostNames []string
	moved     func()
	stop      func()
}

// add adds a service.
func (k *kernel) add(s service) {
	for _, t := range s.types {
		k.kinds[kindKey(t.name)] = &t
	}
	maps.Copy(k.waits, s.waits)
	k.specials = append(k.specials, s.calls...)
	k.above = append(k.above, s.above...)
	k.newerFields = append(k.newerFields, s.newerFields...)
	k.things = append(k.things, s.things...)
	k.sections = append(k.sections, s.sections...)
	k.hostNames = append(k.hostNames, s.hostNames...)
	if s.index != nil {
		k.store.indexes = append(k.store.indexes, s.index)
	}
	k.services = append(k.services, s)
}

// settings say what the kernel is like.
type settings struct {
	Subscriptions []string
	TenantID      string
	// Tenants says which subscriptions lie in another tenant than TenantID.
	Tenants map[string]string
	// Principals are who can log in; the first may do everything.
	Principals []Principal
	// OperationTime is how long a write keeps its resource busy.
	OperationTime time.Duration
	// AsOf is the date as of which Azure is to answer. Zero: today.
	AsOf time.Time
	// PageSize is how many resources a list page holds.
	PageSize int
	// Newer are fields that only exist from an api-version on, in addition to the services'.
	Newer   []NewerField
	Buckets Buckets
	// LogBodies is for how many of the last requests the log keeps bodies.
	LogBodies int
	Log       *slog.Logger
}

// newKernel makes a kernel without services.
func newKernel(opts settings) *kernel {
	k := &kernel{
		opts:        opts,
		log:         opts.Log,
		store:       newStore(),
		kinds:       map[string]*kind{},
		waits:       map[string][2]int{},
		operations:  map[string]*operation{},
		buckets:     newBuckets(opts.Buckets),
		faults:      &faults{},
		newerFields: slices.Clone(opts.Newer),
		requests:    &requestLog{keep: opts.LogBodies, log: opts.Log},
	}
	k.specials = []special{k.operationCall, k.nestedCall}
	k.things = []thing{{"server", func() any { return k.server },
		func(read func(into any) error) error { return read(&k.server) }}}
	for _, s := range opts.Subscriptions {
		k.store.addSubscription(s)
	}
	return k
}

// open goes on with the state in a file, and keeps it there from now on.
func (k *kernel) open(file string) error {
	var err error
	if k.disk, err = openDisk(file, k.sections); err != nil {
		return err
	}
	k.mu.Lock()
	k.restored, err = k.load()
	k.mu.Unlock()
	if err != nil {
		return errors.Join(err, k.disk.db.Close())
	}
	return nil
}

// close stops what goes on behind the emulator. Requests are still answered.
func (k *kernel) close() {
	k.lock()()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	k.closed = true
	for _, s := range k.services {
		if s.stop != nil {
			s.stop()
		}
	}
	if k.disk != nil {
		if err := k.disk.db.Close(); err != nil {
			k.log.Error("the state was not closed", "error", err.Error())
		}
	}
}

// fabric is what holds resources of all types together: the links between their documents, and the
// addresses that they take in subnets.
type fabric interface {
	// dropBack removes from a document what only Azure may say: who links to the resource.
	dropBack(r *resource)
	// settleLinks checks what a document links to.
	settleLinks(r *resource, location string) *failure
	// settleSeats chooses the addresses that a resource takes, takeSeats takes them, leaveSeats
	// gives them back, givePublic does what follows for its public addresses.
	settleSeats(r *resource) *failure
	takeSeats(r *resource)
	leaveSeats(r *resource)
	givePublic(r *resource)
	// showBack adds to a document who links to it, unlinked refuses to delete what is linked.
	showBack(r *resource, doc object)
	unlinked(r *resource) *failure
}

// guard says what a caller may do.
type guard interface {
	admit(c *call) *failure
	mayRead(who Principal, id arm.ID) bool
}

// directory says who calls, and answers what is asked before and about that.
type directory interface {
	authenticate(header, base string) (Principal, *failure)
	login(c *call) (reply, bool)
	graph(c *call) (reply, *failure, bool)
}

// host answers for what is reached through the emulator and is not Azure Resource Manager: the
// clusters' API servers.
type host interface {
	hosts(c *call) bool
	// takesOver reports whether it has served the request itself, whatever the protocol.
	takesOver(w http.ResponseWriter, r *http.Request) bool
	user(c *call) (Principal, *failure)
	// silent reports whether there is no answer at all.
	silent(c *call) bool
	answer(c *call) reply
	refusal(f *failure) reply
}

// tenantOf returns the tenant a subscription lies in.
func (k *kernel) tenantOf(subscription string) string {
	for s, tenant := range k.opts.Tenants {
		if strings.EqualFold(s, subscription) {
			return tenant
		}
	}
	return k.opts.TenantID
}
