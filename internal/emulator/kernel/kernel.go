// Package kernel is what all services of the emulator stand on: HTTP, the dispatch of calls, the
// store and the state file, operations, ETags, faults, throttling, the request log and the records
// of the activity log, the clock, and what undoes a call that fails half way.
//
// It knows subscriptions and resource groups, which are in every ID, and no other resource type: a
// service says with Add what its types do.
package kernel

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

// Kernel is what all services stand on: HTTP, the dispatch of calls, the store, operations, ETags,
// faults, throttling, the logs, the clock, and what undoes a call that fails half way.
type Kernel struct {
	Opts Options
	Log  *slog.Logger

	// Mu guards everything below that does not guard itself, and the state of the services.
	Mu         sync.RWMutex
	Store      *store
	Kinds      map[string]*Kind // by KindKey
	specials   []Special
	Operations map[string]*Operation
	Activity   []ActivityRecord
	later      []later // what happens by the clock, in its order
	Closed     bool
	// what resources were before they were last written, by ID.Key(); nil for nothing
	before map[string][]byte

	// Disk keeps the state, nil when nothing does; unkept and unkeptOperations are what it has not
	// got yet.
	Disk             *disk
	unkept           []ActivityRecord
	unkeptOperations []string
	Restored         bool
	Server           savedServer

	Buckets  *buckets
	Faults   *faults
	Requests *requestLog

	// services are what the services have added; what is in the fields below is of all of them.
	services    []Service
	above       []Special
	waits       map[string][2]int
	newerFields []NewerField
	things      []Thing
	sections    []Section
	HostNames   []string

	// Control answers the calls under /_emulator/.
	Control func(w http.ResponseWriter, c *Call)

	Fabric    fabric
	Guard     guard
	Directory directory
	Host      host
}

// Service is what a service adds to the kernel.
type Service struct {
	// Types are its resource types; calls are answered once the caller is known and admitted, above
	// before that.
	Types []Kind
	Calls []Special
	Above []Special
	// Waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE, by
	// type.
	Waits map[string][2]int
	// NewerFields exist from an api-version on.
	NewerFields []NewerField
	// Refuse refuses calls that their callers may make, spell completes a path that Azure takes
	// shortened, listen is told of each record of the activity log.
	Refuse func(c *Call) *Failure
	// Prepare finds out for a call what takes time: nothing is locked then.
	Prepare func(c *Call)
	Spell   func(path []string) []string
	Listen  func(ActivityRecord)
	// Index is told of the documents that are stored and removed.
	Index index
	// things, sections, watch and resume keep, undo and resume what is no document.
	Things   []Thing
	Sections []Section
	Watch    func(c *Call) (takeBack func())
	Resume   Resumer
	// HostNames are further names of the emulator, moved is told when it listens elsewhere, stop
	// when it ends.
	HostNames []string
	Moved     func()
	Stop      func()
}

// Add adds a service.
func (k *Kernel) Add(s Service) {
	for _, t := range s.Types {
		k.Kinds[KindKey(t.Name)] = &t
	}
	maps.Copy(k.waits, s.Waits)
	k.specials = append(k.specials, s.Calls...)
	k.above = append(k.above, s.Above...)
	k.newerFields = append(k.newerFields, s.NewerFields...)
	k.things = append(k.things, s.Things...)
	k.sections = append(k.sections, s.Sections...)
	k.HostNames = append(k.HostNames, s.HostNames...)
	if s.Index != nil {
		k.Store.indexes = append(k.Store.indexes, s.Index)
	}
	k.services = append(k.services, s)
}

// Options say what the kernel is like.
type Options struct {
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

// New makes a kernel without services.
func New(opts Options) *Kernel {
	k := &Kernel{
		Opts:        opts,
		Log:         opts.Log,
		Store:       newStore(),
		Kinds:       map[string]*Kind{},
		waits:       map[string][2]int{},
		Operations:  map[string]*Operation{},
		Buckets:     newBuckets(opts.Buckets),
		Faults:      &faults{},
		newerFields: slices.Clone(opts.Newer),
		Requests:    &requestLog{keep: opts.LogBodies, log: opts.Log},
	}
	k.specials = []Special{k.operationCall, k.nestedCall}
	k.things = []Thing{{"server", func() any { return k.Server },
		func(read func(into any) error) error { return read(&k.Server) }}}
	for _, s := range opts.Subscriptions {
		k.Store.addSubscription(s)
	}
	return k
}

// Open goes on with the state in a file, and keeps it there from now on.
func (k *Kernel) Open(file string) error {
	var err error
	if k.Disk, err = openDisk(file, k.sections); err != nil {
		return err
	}
	k.Mu.Lock()
	k.Restored, err = k.load()
	k.Mu.Unlock()
	if err != nil {
		return errors.Join(err, k.Disk.DB.Close())
	}
	return nil
}

// Close stops what goes on behind the emulator. Requests are still answered.
func (k *Kernel) Close() {
	k.Lock()()
	k.Mu.Lock()
	defer k.Mu.Unlock()
	if k.Closed {
		return
	}
	k.Closed = true
	for _, s := range k.services {
		if s.Stop != nil {
			s.Stop()
		}
	}
	if k.Disk != nil {
		if err := k.Disk.DB.Close(); err != nil {
			k.Log.Error("the state was not closed", "error", err.Error())
		}
	}
}

// fabric is what holds resources of all types together: the links between their documents, and the
// addresses that they take in subnets.
type fabric interface {
	// DropBack removes from a document what only Azure may say: who links to the resource.
	DropBack(r *Resource)
	// SettleLinks checks what a document links to.
	SettleLinks(r *Resource, location string) *Failure
	// SettleSeats chooses the addresses that a resource takes, TakeSeats takes them, LeaveSeats
	// gives them back, GivePublic does what follows for its public addresses.
	SettleSeats(r *Resource) *Failure
	TakeSeats(r *Resource)
	LeaveSeats(r *Resource)
	GivePublic(r *Resource)
	// ShowBack adds to a document who links to it, unlinked refuses to delete what is linked.
	ShowBack(r *Resource, doc Object)
	Unlinked(r *Resource) *Failure
}

// guard says what a caller may do.
type guard interface {
	Admit(c *Call) *Failure
	MayRead(who Principal, id arm.ID) bool
}

// directory says who calls, and answers what is asked before and about that.
type directory interface {
	Authenticate(header, base string) (Principal, *Failure)
	Login(c *Call) (Reply, bool)
	Graph(c *Call) (Reply, *Failure, bool)
}

// host answers for what is reached through the emulator and is not Azure Resource Manager: the
// clusters' API servers.
type host interface {
	Hosts(c *Call) bool
	// TakesOver reports whether it has served the request itself, whatever the protocol.
	TakesOver(w http.ResponseWriter, r *http.Request) bool
	User(c *Call) (Principal, *Failure)
	// Silent reports whether there is no answer at all.
	Silent(c *Call) bool
	Answer(c *Call) Reply
	Refusal(f *Failure) Reply
}

// TenantOf returns the tenant a subscription lies in.
func (k *Kernel) TenantOf(subscription string) string {
	for s, tenant := range k.Opts.Tenants {
		if strings.EqualFold(s, subscription) {
			return tenant
		}
	}
	return k.Opts.TenantID
}
