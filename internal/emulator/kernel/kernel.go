// Package kernel is the base of all services of the emulator: it does what every call needs. That
// is HTTP, the dispatch of calls, the store and the state file, operations, ETags, faults,
// throttling, the request log and the records of the activity log, the clock, and the undo of a
// call that fails half way.
//
// It knows subscriptions and resource groups, which are in every ID, and no other resource type: a
// service adds its types with Add.
package kernel

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Kernel is the base of all services.
type Kernel struct {
	Opts Options
	Log  *slog.Logger

	// Mu guards everything below that does not guard itself, and the state of the services.
	Mu    sync.RWMutex
	Store *store
	kinds
	specials   []Special
	Operations map[string]*Operation
	leaving    leaving // children that are being deleted
	Activity   []ActivityRecord
	later      []later // scheduled actions, by time
	Closed     bool
	// resources before their last write, by ID.Key(); nil for nothing
	before map[string][]byte

	Disk     *disk // saves the state, nil if nothing does
	Restored bool
	Server   *server

	Buckets  *buckets
	Faults   *faults
	Requests *requestLog

	// services has the added services. The fields below combine those of all services.
	services  []Service
	above     []Special
	things    []Thing
	HostNames []string

	// Control answers the calls under /_emulator/.
	Control func(w http.ResponseWriter, c *Call)

	Fabric    fabric
	Addresses addresses
	Guard     guard
	Directory directory
	Host      host
}

// Service is what a service adds to the kernel.
type Service struct {
	// Types are its resource types. The functions in Calls answer calls after authentication and
	// authorization, those in Above before.
	Types []Kind
	// Names has properties of its types in Azure's spelling, with marks (spelling.go), in addition
	// to the ones that the types name themselves.
	Names string
	Calls []Special
	Above []Special
	// Waits are the seconds that Azure asks a client to wait after a PUT and after a DELETE, by
	// type.
	Waits map[string][2]int
	// Refuse refuses calls that the caller has the rights for. Spell completes paths that Azure
	// also accepts in a shortened form. Listen is called for each record of the activity log.
	Refuse func(c *Call) *Failure
	// Prepare does slow work for a call, before the lock is taken.
	Prepare func(c *Call)
	Spell   func(path []string) []string
	Listen  func(ActivityRecord)
	// Index is called for the documents that are stored and removed.
	Index index
	// Things, Watch and Resume save, undo and resume state that is not in documents. SavedWith
	// returns the resource whose Extra (Kind) changes with another one, or "".
	Things    []Thing
	SavedWith func(id arm.ID) arm.ID
	Watch     func(c *Call) (takeBack func())
	Resume    Resumer
	// HostNames has further names of the emulator. Stop is called when it ends.
	HostNames []string
	Stop      func()
}

// Add adds a service.
func (k *Kernel) Add(s Service) {
	known := namesOf(s.Names)
	for _, t := range s.Types {
		t.spelling = t.names(known)
		k.Kinds[strings.ToLower(t.Name)] = &t
	}
	maps.Copy(k.waits, s.Waits)
	k.specials = append(k.specials, s.Calls...)
	k.above = append(k.above, s.Above...)
	k.things = append(k.things, s.Things...)
	k.HostNames = append(k.HostNames, s.HostNames...)
	if s.Index != nil {
		k.Store.indexes = append(k.Store.indexes, s.Index)
	}
	k.services = append(k.services, s)
}

// Options are the settings of the kernel, as emulator.Options describes them.
type Options struct {
	Subscriptions []string
	TenantID      string
	Tenants       map[string]string
	Principals    []Principal
	OperationTime time.Duration
	AsOf          time.Time
	PageSize      int
	Buckets       Buckets
	LogBodies     int
	Log           *slog.Logger
	// Wrote is called under the lock after each write of a resource and each change of nodes.
	Wrote func(arm.ID)
}

// New makes a kernel without services.
func New(opts Options) *Kernel {
	k := &Kernel{
		Opts: opts,
		Log:  opts.Log,
		Store: &store{Resources: map[string]*Resource{},
			byType: map[string]map[string]*Resource{}},
		kinds:      kinds{Kinds: map[string]*Kind{}, waits: map[string][2]int{}},
		Operations: map[string]*Operation{},
		leaving:    leaving{},
		Buckets:    newBuckets(opts.Buckets),
		Faults:     &faults{},
		Requests:   &requestLog{keep: opts.LogBodies, log: opts.Log},
	}
	k.Server = &server{Kernel: k}
	k.specials = []Special{
		func(c *Call) (Reply, *Failure, bool) { return k.on(c).operation() },
		func(c *Call) (Reply, *Failure, bool) { return k.on(c).nested() },
	}
	k.things = []Thing{ThingAt("server", &k.Server.address), ThingAt("leaving", &k.leaving)}
	k.Store.Subscriptions = opts.Subscriptions
	return k
}

// Open loads the state from a file, and saves it there from now on.
func (k *Kernel) Open(file string) error {
	var err error
	if k.Disk, err = openDisk(file, k); err != nil {
		return err
	}
	k.Mu.Lock()
	k.Restored, err = k.Disk.load()
	k.Mu.Unlock()
	if err != nil {
		return errors.Join(err, k.Disk.DB.Close())
	}
	return nil
}

// Close stops the emulator's background work. Requests are still answered.
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

// fabric relates resources of all types by the links between their documents.
type fabric interface {
	// SettleLinks checks the links of a document.
	SettleLinks(r *Resource, location string) *Failure
	// ShowBack adds the back links to a document, Unlinked refuses to delete a linked resource.
	ShowBack(r *Resource, doc Object)
	Unlinked(r *Resource) *Failure
}

// addresses has the addresses that resources of all types take in subnets.
type addresses interface {
	// Settle chooses what a resource takes, Take takes it, and Leave releases it.
	Settle(r *Resource) *Failure
	Take(r *Resource)
	Leave(r *Resource)
}

// guard decides which calls are allowed.
type guard interface {
	Admit(c *Call) *Failure
	MayRead(who Principal, id arm.ID) bool
}

// directory authenticates calls, and answers the login endpoints.
type directory interface {
	Authenticate(header, base string) (Principal, *Failure)
	Login(c *Call) (Reply, bool)
	Graph(c *Call) (Reply, *Failure, bool)
}

// host answers calls to the emulator that are not for Azure Resource Manager: those to the
// clusters' API servers.
type host interface {
	Hosts(c *Call) bool
	// TakesOver reports whether it has served the request itself, with any protocol.
	TakesOver(w http.ResponseWriter, r *http.Request) bool
	User(c *Call) (Principal, *Failure)
	// Silent reports whether the call gets no answer at all.
	Silent(c *Call) bool
	Answer(c *Call) Reply
	Refusal(f *Failure) Reply
}

// TenantOf returns the tenant of a subscription.
func (o Options) TenantOf(subscription string) string {
	return cmp.Or(o.Tenants[KeyIn(o.Tenants, subscription)], o.TenantID)
}
