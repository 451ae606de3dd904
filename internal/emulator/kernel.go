package emulator

import (
	"log/slog"
	"net/http"
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

	// What the services add: calls that are answered before anyone's rights are asked for, what
	// refuses a call that its caller may make, who is told of each record of the activity log, and
	// whole for paths that Azure takes shortened.
	above     []special
	refusals  []func(c *call) *failure
	listeners []func(activityRecord)
	spellings []func(path []string) []string
	// listening are told where the emulator listens from now on; hostNames are further names of it.
	listening []func()
	hostNames []string
	control   func(w http.ResponseWriter, c *call)
	// waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE, by type.
	waits map[string][2]int
	// newerFields exist from an api-version on.
	newerFields []NewerField
	// sections, things, watchers and resumers keep, undo and resume what is no document.
	sections []section
	things   []thing
	watchers []func(c *call) (takeBack func())
	resumers []resumer

	fabric    fabric
	guard     guard
	directory directory
	host      host
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
	Buckets  Buckets
	// LogBodies is for how many of the last requests the log keeps bodies.
	LogBodies int
	Log       *slog.Logger
}

// newKernel makes a kernel without services.
func newKernel(opts settings) *kernel {
	return &kernel{
		opts:       opts,
		log:        opts.Log,
		store:      newStore(),
		kinds:      map[string]*kind{},
		waits:      map[string][2]int{},
		operations: map[string]*operation{},
		buckets:    newBuckets(opts.Buckets),
		faults:     &faults{},
		requests:   &requestLog{keep: opts.LogBodies, log: opts.Log},
	}
}

// fabric is what holds resources of all types together: the links between their documents, and the
// addresses that they take in subnets.
type fabric interface {
	// dropBack removes from a document what only Azure may say: who links to the resource.
	dropBack(r *resource)
	// settleLinks checks what a document links to.
	settleLinks(r *resource, location string) *failure
	// settleSeats chooses the addresses that a resource takes, takeSeats takes them, leaveSeats gives
	// them back, givePublic does what follows for its public addresses.
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
